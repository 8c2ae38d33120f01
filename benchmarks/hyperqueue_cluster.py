"""Run HyperQueue's server and one worker in this process, for benchmarks/peers.py.

    python benchmarks/hyperqueue_cluster.py FOLDER CORES

When the worker has started, it writes the ids of the server's threads to `threads.json` in FOLDER.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from hyperqueue.cluster import LocalCluster, WorkerConfig

if __name__ == "__main__":
    cluster = LocalCluster(sys.argv[1])
    threads = [int(thread) for thread in os.listdir("/proc/self/task")]
    cluster.start_worker(WorkerConfig(int(sys.argv[2])))
    Path(sys.argv[1], "threads.json").write_text(json.dumps(threads))
    signal.pause()

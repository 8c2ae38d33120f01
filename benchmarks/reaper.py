"""Run a command, and wait for all processes that it and its descendants leave behind.

So their processor time counts as that of this process's children. A daemon such as slurmd starts
tasks that are not its children.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    command = subprocess.Popen(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: os.kill(command.pid, signal.SIGTERM))
    with suppress(ChildProcessError):
        while True:
            os.wait()

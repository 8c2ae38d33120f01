"""Place all pods of the openb trace at once, with GPUs by device and as one amount per node.

    python benchmarks/shared_gpus.py FOLDER --part 2

FOLDER has the tables of openb (docs/traces.md); `--part 2` keeps half of the nodes of each group.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fairlead.simulation.replay import replay
from fairlead.traces.readers import read_workload

POLICIES = ["drf/best-fit", "drf/first-fit", "ps-dsf/joint"]


def main(
    folder: Annotated[Path, typer.Argument(help="The tables of openb.")],
    part: Annotated[int, typer.Option(help="Keep one in N nodes of each group.")] = 2,
) -> None:
    """Print the GPUs that the first placement uses, and the mean wait."""
    read, _ = read_workload(folder)
    count = np.maximum(read.cluster.count // part, 1)
    cluster = replace(read.cluster, count=count)
    workload = replace(read, job_submit=np.zeros(read.n_jobs), cluster=cluster)
    merged = replace(workload, cluster=replace(cluster, devices=()))
    gpus = np.repeat(read.shapes[read.set_shape][:, 2], read.set_tasks)
    capacity = float((cluster.capacity[:, 2] * count).sum())
    print(f"{count.sum():,} nodes, {capacity:,.0f} GPUs, {gpus.sum():,.0f} asked for by all pods")
    for policy in POLICIES:
        for kind, given in (("by device", workload), ("one amount", merged)):
            began = time.process_time()
            log = replay(given, policy)
            took = time.process_time() - began
            first = log.task[log.start == 0]
            used, wait = gpus[first].sum() / capacity, log.start[~log.lost].mean() / 60
            row = f"{policy:14} {kind:10} {used:6.1%} of GPUs in use at once"
            print(f"{row}, mean wait {wait:.2f} min, {took:.2f} s")


if __name__ == "__main__":
    typer.run(main)

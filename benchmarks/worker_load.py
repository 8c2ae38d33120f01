"""Measure a worker: its rate of short tasks, the cost of a task, and the delay of its start.

    python benchmarks/worker_load.py
    git worktree add ../before COMMIT
    python benchmarks/worker_load.py --beside ../before  # its figures come first in each row

A service and a worker of 8 cores, each a separate process, run one job of many tasks of `true`.
Processor time is user and system time of the service, and of the worker with all its tasks. Then,
on the idle system, the time from a submission to the first line of the task's output is measured:
once with the submit command, and once with a program's request. The speed of a machine varies, so
each round runs all checkouts in turn; prints medians over the rounds.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from local_service import LocalService, cpu_seconds, mebibytes, until

HERE = Path(__file__).resolve().parents[1]
IDLE_SECONDS = 1.0  # before each job whose first line is timed
CLOCK = ["date", "+%s.%N"]
FIRST_LINES = 5  # jobs in a round
SHOWN = {
    "tasks": "tasks a second",
    "serve": "processor time of the service, ms a task",
    "worker": "processor time of the worker and its tasks, ms a task",
    "submit": "from the submit command to the first line, ms",
    "post": "from the request to the first line, ms",
    "serve_mib": "memory of the service, MiB",
    "worker_mib": "memory of the worker, MiB",
}


def main(
    beside: Annotated[
        list[Path] | None, typer.Option(help="Another checkout, built; may be repeated.")
    ] = None,
    tasks: Annotated[int, typer.Option(help="Tasks of the job.")] = 2000,
    cpu: Annotated[int, typer.Option(help="Cores that the worker declares.")] = 8,
    rounds: Annotated[int, typer.Option(help="How often each checkout runs.")] = 3,
) -> None:
    """Run each checkout in turn, and print the medians."""
    trees = [tree.resolve() for tree in (*(beside or ()), HERE)]
    found: dict[Path, list[dict[str, float]]] = {tree: [] for tree in trees}
    with (
        TemporaryDirectory() as whole
    ):  # ext4 creates files slowly for minutes after many were deleted
        Path(whole).chmod(0o755)  # a worker of root runs tasks under another account
        for k, tree in product(range(rounds), trees):
            folder = Path(whole) / f"{k}-{trees.index(tree)}"
            folder.mkdir()
            found[tree].append(measure(tree, folder, tasks, cpu))
    for name, shown in SHOWN.items():
        medians = (median(row[name] for row in found[tree]) for tree in trees)
        print(f"{shown}: {', '.join(f'{each:.3g}' for each in medians)}")


def measure(tree: Path, folder: Path, tasks: int, cpu: int) -> dict[str, float]:
    """Return the figures of one service and one worker, by the names in `SHOWN`."""
    program = [sys.executable, "-m", "fairlead"]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    with ExitStack() as stack:
        service = LocalService(stack, program, folder, cpu, environment)
        found = _load(service, tasks)
        posted, submitted = [], []
        for _ in range(FIRST_LINES):
            time.sleep(IDLE_SECONDS)
            began = time.time()
            posted.append(_first_line(service, service.post(CLOCK)) - began)
            time.sleep(IDLE_SECONDS)
            began = time.time()
            job = service.output("submit", "--user", "ana", "--chdir", "/", "--", *CLOCK)
            submitted.append(_first_line(service, job) - began)
        return found | {
            "post": median(posted) * 1e3,
            "submit": median(submitted) * 1e3,
            "serve_mib": mebibytes(service.serve),
            "worker_mib": mebibytes(service.worker),
        }


def _load(service: LocalService, tasks: int) -> dict[str, float]:
    """Run one job of many short tasks; return its rate and processor times."""
    processes = (service.serve, service.worker)
    before, began = [cpu_seconds(process) for process in processes], time.perf_counter()
    service.wait(service.post(["true"], tasks))
    seconds = time.perf_counter() - began
    serve, worker = (
        cpu_seconds(process) - cpu for process, cpu in zip(processes, before, strict=True)
    )
    return {
        "tasks": tasks / seconds,
        "serve": serve / tasks * 1e3,
        "worker": worker / tasks * 1e3,
    }


def _first_line(service: LocalService, job: str) -> float:
    """Return the time that the only task of a job wrote."""
    path = service.state / "attempts" / f"{job}.0.1" / "task" / "stdout"
    return float(until(lambda: path.exists() and path.read_text()))


if __name__ == "__main__":
    typer.run(main)

"""Compare commands and workers with Slurm and HyperQueue, if these are installed.

    python benchmarks/peers.py
    python benchmarks/peers.py --rounds 1 --tasks 200 --json

docs/contributing/peers.md describes the measurements, and has results. The speed of a machine
varies, so each round runs all systems in turn; the table has medians over the rounds.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from local_service import nothing_left, time_command, until
from peer_systems import ByCommand, ByRequest, Fairlead, HyperQueue, Peer, Slurm

SYSTEMS: list[type[Peer]] = [Slurm, HyperQueue, Fairlead]
JOBS_OF_FILE = 300
IDLE_SECONDS = 1.0  # before each job whose start is timed, and around the many tasks
PAUSE = 0.2  # seconds between two jobs
ROWS = {
    "submit": "`submit` of one job by the command line, p50: CPU / wall, ms",
    "file": f"{JOBS_OF_FILE} jobs by one command: CPU / wall, ms",
    "post": "one job by an open connection, p50: wall, ms",
    "tasks": "many tasks of `true`: tasks/s",
    "cpu": "CPU per task: scheduler / worker with children, ms",
    "submit_to_line": "from `submit` to the start of the command, idle system, p50: ms",
    "post_to_line": "from the request to the start of the command, idle system, p50: ms",
    "memory": "memory (RSS): scheduler / worker, MiB",
}
Figures = dict[str, tuple[float, ...]]  # by the keys of ROWS


def main(
    rounds: Annotated[int, typer.Option(help="How often each system runs.")] = 3,
    tasks: Annotated[int, typer.Option(help="Tasks of the large job.")] = 2000,
    repeats: Annotated[int, typer.Option(help="Jobs that each round submits one by one.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print each row as JSON.")] = False,
) -> None:
    """Run each system in turn, and print the table."""
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, stop)
    systems = []
    for system in SYSTEMS:
        if reason := system.missing():
            print(f"{system.name} is left out: {reason}", file=sys.stderr)
        else:
            systems.append(system)
    found: dict[str, list[Figures]] = {system.name: [] for system in systems}
    with TemporaryDirectory() as whole, nothing_left():
        Path(whole).chmod(0o755)  # a worker of root runs tasks under another account
        for k, system in product(range(rounds), systems):
            folder = Path(whole) / f"{k}-{system.name}"
            folder.mkdir()
            with ExitStack() as stack:
                try:
                    found[system.name].append(measure(system(stack, folder), tasks, repeats))
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
    rows = [[medians(key, found[name]) for name in found] for key in ROWS]
    if as_json:
        for label, cells in zip(ROWS.values(), rows, strict=True):
            print(json.dumps({"figure": label, **dict(zip(found, cells, strict=True))}))
    else:
        print("|", *(f"| {name}" for name in found), "|")
        print("|---" * (1 + len(found)) + "|")
        for label, cells in zip(ROWS.values(), rows, strict=True):
            print("|", label, *(f"| {format_cell(cell)}" for cell in cells), "|")


def stop(*_: object) -> None:
    """Exit, so that all systems are stopped; again after a second, if a destructor ignored it."""
    signal.setitimer(signal.ITIMER_REAL, 1)
    sys.exit(143)


def measure(peer: Peer, tasks: int, repeats: int) -> Figures:
    """Return the figures of a system that has just started."""
    lines = peer.folder / "lines"
    lines.mkdir()
    lines.chmod(0o777)  # a worker of root runs tasks under another account
    found: Figures = {}
    if isinstance(peer, ByCommand):
        words = peer.submit(["true"])
        took = []
        for _ in range(repeats):
            took.append(time_command(words, peer.folder, peer.environment))
            time.sleep(PAUSE)
        found["submit"] = tuple(1e3 * median(part) for part in zip(*took, strict=True))
        found["submit_to_line"] = first_line(
            lambda command: time_command(peer.submit(command), peer.folder, peer.environment),
            lines,
            repeats,
        )
    if isinstance(peer, ByRequest):
        walls = []
        for _ in range(repeats):
            began = time.perf_counter()
            peer.post(["true"])
            walls.append(time.perf_counter() - began)
            time.sleep(PAUSE)
        found["post"] = (1e3 * median(walls),)
        found["post_to_line"] = first_line(peer.post, lines, repeats)
    time.sleep(IDLE_SECONDS)
    before, began = peer.cpu(), time.perf_counter()
    peer.run_many(tasks)
    found["tasks"] = (tasks / (time.perf_counter() - began),)
    time.sleep(IDLE_SECONDS)  # the worker still collects the last tasks
    found["cpu"] = tuple(
        1e3 * (after - seconds) / tasks for seconds, after in zip(before, peer.cpu(), strict=True)
    )
    found["memory"] = peer.memory()
    if isinstance(peer, ByCommand):  # last, because these jobs still run afterwards
        words = peer.submit_many(JOBS_OF_FILE)
        file = time_command(words, peer.folder, peer.environment)
        found["file"] = tuple(1e3 * seconds for seconds in file)
    return found


def first_line(submit: Callable[[list[str]], object], lines: Path, repeats: int) -> tuple[float]:
    """Return the median ms from a submission until the command runs, on an idle system."""
    seconds = []
    for _ in range(repeats):
        time.sleep(IDLE_SECONDS)
        path = lines / f"{time.monotonic_ns()}"
        began = time.time()
        submit(["sh", "-c", f"date +%s.%N > {path}"])
        seconds.append(float(until(lambda path=path: path.exists() and path.read_text())) - began)
    return (1e3 * median(seconds),)


def medians(key: str, rounds: list[Figures]) -> list[float] | None:
    """Return the medians of a row over the rounds; None if the system lacks the figure."""
    if key not in rounds[0]:
        return None
    return [median(part) for part in zip(*(figures[key] for figures in rounds), strict=True)]


def format_cell(cell: list[float] | None) -> str:
    """Format the figures of a cell."""
    return "–" if cell is None else " / ".join(f"{figure:,.3g}" for figure in cell)


if __name__ == "__main__":
    typer.run(main)

"""Compare the speed of fillings and replays in this checkout and another one.

    git worktree add ../before COMMIT
    python benchmarks/beside_another_tree.py ../before drf/best-fit ps-dsf/rrr --users 930
    python benchmarks/beside_another_tree.py ../before drf/best-fit --users 16 --scheduler
    python benchmarks/beside_another_tree.py ../before drf/best-fit --replay 2600

The speed of a machine varies, so each round runs both, in processes that stay. Prints medians of
processor time.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer

HERE = Path(__file__).resolve().parents[1]


def main(
    other: Annotated[Path, typer.Argument(help="Another checkout.")],
    policies: Annotated[list[str], typer.Argument(help="Policies, such as ps-dsf/joint/residual.")],
    users: Annotated[int, typer.Option(help="Users that fill Google's park.")] = 40,
    largest: Annotated[
        float, typer.Option(help="Largest demand, as a fraction of the largest server.")
    ] = 0.2,
    jobs: Annotated[
        int, typer.Option("--replay", help="Replay a day with so many jobs, instead of filling.")
    ] = 0,
    scheduler: Annotated[
        bool, typer.Option(help="Fill by `Scheduler.place`, not by `fill`.")
    ] = False,
    rounds: Annotated[int, typer.Option(help="How often each checkout runs.")] = 7,
    serve: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Run the policies in both checkouts, in turn."""
    if serve:
        answer(other, policies, users, largest, jobs, scheduler)
        return
    arguments = ["--users", str(users), "--largest", str(largest), "--replay", str(jobs)]
    if scheduler:
        arguments.append("--scheduler")
    processes = [_process(tree.resolve(), policies, arguments) for tree in (other, HERE)]
    took: list[list[list[float]]] = [[], []]
    pairs = list(zip(processes, took, strict=True))
    for _ in range(rounds + 1):
        pairs.reverse()  # the second one of a round may find the machine slower
        for process, rows in pairs:
            process.stdin.write("go\n")
            process.stdin.flush()
            rows.append([float(word) for word in process.stdout.readline().split()])
    for k, policy in enumerate(policies):
        before, now = (median(row[k] for row in rows[1:]) for rows in took)  # the first warms up
        print(f"{policy}: {before:.4f} s there, {now:.4f} s here: {before / now:.2f} times as fast")


def _process(tree: Path, policies: list[str], arguments: list[str]) -> Any:
    paths = [str(tree / folder) for folder in ("src", "tests", "benchmarks")]
    return subprocess.Popen(
        [sys.executable, __file__, str(tree), *policies, *arguments, "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def answer(
    tree: Path, policies: list[str], users: int, largest: float, jobs: int, scheduler: bool
) -> None:
    """For each line on standard input, run all policies and print their processor seconds."""
    import fairlead

    assert Path(fairlead.__file__).is_relative_to(tree), "another installation came first"
    make = _place if scheduler else _fill
    calls = [_replay(name, jobs) if jobs else make(name, users, largest) for name in policies]
    for _ in sys.stdin:
        took = []
        for prepare in calls:
            call = prepare()
            gc.collect()
            gc.disable()  # else a collection of the preparation's garbage may fall into the call
            begin = time.process_time()
            call()
            took.append(time.process_time() - begin)
            gc.enable()
        print(*took, flush=True)


def _fill(policy: str, users: int, largest: float) -> Any:
    from fairlead import Problem, fill
    from random_problems import GOOGLE_PARK

    criterion, select, *residual = policy.split("/")
    demand = np.random.default_rng(1).uniform(0.005, largest, (users, 2))
    problem = Problem.from_arrays(GOOGLE_PARK[:, 1:], demand, count=GOOGLE_PARK[:, 0])
    return lambda: lambda: fill(problem, criterion, select, residual=bool(residual))


def _place(policy: str, users: int, largest: float) -> Any:
    """Return a function that fills a scheduler with queues and tasks, and returns its `place`."""
    from fairlead import Scheduler
    from random_problems import GOOGLE_PARK

    names = ["cpu", "memory"]
    demand = np.random.default_rng(1).uniform(0.005, largest, (users, 2)).tolist()

    def prepare() -> Any:
        scheduler = Scheduler(names, policy)
        for kind, (count, *capacity) in enumerate(GOOGLE_PARK.tolist()):
            for server in range(int(count)):
                scheduler.add_server(f"{kind}-{server}", dict(zip(names, capacity, strict=True)))
        for user, row in enumerate(demand):
            scheduler.add_queue(str(user))
            scheduler.submit(str(user), dict(zip(names, row, strict=True)), 10**6)
        return scheduler.place

    return prepare


def _replay(policy: str, jobs: int) -> Any:
    from fairlead.simulation.replay import replay
    from fairlead.traces.generator import generate_day

    workload = generate_day(12_583, exact=True, jobs=jobs, load=0.8, seed=1)
    return lambda: lambda: replay(workload, policy)


if __name__ == "__main__":
    typer.run(main)

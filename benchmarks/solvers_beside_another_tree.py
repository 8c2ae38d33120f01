"""Compare the processor time of solvers in this checkout and another one.

    git worktree add ../before COMMIT
    python benchmarks/solvers_beside_another_tree.py ../before
    python benchmarks/solvers_beside_another_tree.py ../before drfh-park dynamic --rounds 15
    python benchmarks/solvers_beside_another_tree.py ../before --fresh

Each case is one answer with its certificate. The two checkouts take turns, because the speed of a
machine varies; prints medians and their ratio. By default each checkout has one process, whose
first answers do not count. With `--fresh` each answer has a new process, and all processor time
from the start of the interpreter counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import geometric_mean, median
from typing import Annotated

import numpy as np
import typer

HERE = Path(__file__).resolve().parents[1]

Action = Callable[[], object]


def main(
    other: Annotated[Path, typer.Argument(help="Another checkout.")],
    names: Annotated[list[str] | None, typer.Argument(help="Cases; all if absent.")] = None,
    rounds: Annotated[int, typer.Option(help="How often each checkout solves each case.")] = 7,
    fresh: Annotated[bool, typer.Option(help="Start a new process for each answer.")] = False,
    serve: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Solve the cases in both checkouts, in turn."""
    if serve:
        answer(other)
        return
    cases = names or list(CASES)
    if unknown := set(cases) - CASES.keys():
        raise typer.BadParameter(f"no case is named {min(unknown)}; known: {', '.join(CASES)}")
    trees, ratios = (other.resolve(), HERE), []
    print(f"{'case':<20}{'there, s':>10}{'here, s':>10}{'here/there':>12}")
    with ExitStack() as processes:
        if fresh:
            solvers = [partial(_seconds_of_a_new_process, tree) for tree in trees]
        else:
            kept = [processes.enter_context(_process(tree)) for tree in trees]
            solvers = [partial(_seconds_of, process) for process in kept]
        for name in cases:
            if not fresh:
                for solver in solvers:  # warms up
                    solver(name)
            took = [[solver(name) for solver in solvers] for _ in range(rounds)]
            there, here = (median(column) for column in zip(*took, strict=True))
            ratios.append(here / there)
            print(f"{name:<20}{there:>10.4f}{here:>10.4f}{ratios[-1]:>12.2f}", flush=True)
    print(f"{'geometric mean':<20}{geometric_mean(ratios):>32.2f}")


@contextmanager
def _process(tree: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process in which a checkout, with its own `.venv`, solves the cases sent to it."""
    paths = [str(tree / folder) for folder in ("src", "tests", "benchmarks")]
    with subprocess.Popen(
        [tree / ".venv" / "bin" / "python", __file__, tree, "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    ) as process:
        yield process


def _seconds_of(process: subprocess.Popen[str], name: str) -> float:
    """Let a process solve a case; return the processor time that it reports."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def _seconds_of_a_new_process(tree: Path, name: str) -> float:
    """Return the processor time of a new process that solves one case."""
    before = getrusage(RUSAGE_CHILDREN)
    with _process(tree) as process:
        _seconds_of(process, name)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def answer(tree: Path) -> None:
    """For each name of a case on standard input, solve it and print the processor time."""
    import fairlead

    assert Path(fairlead.__file__).is_relative_to(tree), "another installation came first"
    prepare = cache(lambda name: CASES[name]())
    for line in sys.stdin:
        solve_case = prepare(line.strip())
        begin = time.process_time()
        solve_case()
        print(time.process_time() - begin, flush=True)


def _on_the_park(mechanism: str) -> Action:
    from fairlead import solve
    from random_problems import google_park

    return partial(solve, google_park(np.random.default_rng(1), 930), mechanism)


def _on_random_servers(mechanism: str, *size: int, **drawn: float) -> Action:
    """Return the solution of a problem of users, groups and resources."""
    from fairlead import solve
    from random_problems import random_problem

    return partial(solve, random_problem(np.random.default_rng(1), *size, **drawn), mechanism)


def _with_zeros() -> Action:
    """Return the solutions of many small problems in which half of the demands are zero."""
    from fairlead import solve
    from random_problems import random_problem

    drawn = {"zero_demand": 0.5, "limited": 0.3, "constrained": 0.3}
    problems = [random_problem(np.random.default_rng(k), 12, 4, 4, **drawn) for k in range(20)]
    return lambda: [solve(problem, "ps-dsf") for problem in problems]


def _on_a_pool(n_users: int) -> Action:
    from fairlead import Problem, solve

    demand = np.random.default_rng(1).integers(1, 1_001, (n_users, 10)).astype(float)
    pool = Problem.from_arrays([[100_000.0 * n_users] * 10], demand)
    return partial(solve, pool, "drf-tasks")


def _arrivals(n_agents: int, n_resources: int, zeros: float) -> Action:
    """Return dynamic DRF for random agents; `zeros` is the probability of a zero demand."""
    from fairlead.certificates.dynamic_levels import certify_dynamic
    from fairlead.mechanisms.dynamic_drf import DynamicDRF

    rng = np.random.default_rng(1)
    demand = rng.uniform(0.01, 1.0, (n_agents, n_resources))
    demand[rng.random(demand.shape) < zeros] = 0.0
    demand[~(demand > 0).any(axis=1), 0] = 1.0
    weight = np.ones(n_agents)

    def arrive() -> None:
        agents = DynamicDRF(n_agents, n_resources)
        agents.arrive_all(demand)
        assert certify_dynamic(demand, weight, float(n_agents), agents.log).holds

    return arrive


_FINITE = {"limited": 0.5, "constrained": 0.3}
CASES: dict[str, Callable[[], Action]] = {
    "drfh-park": partial(_on_the_park, "drfh"),
    "drfh-constrained": partial(_on_random_servers, "drfh", 1_000, 10, 2, constrained=0.5),
    "drf-park": partial(_on_the_park, "drf"),
    "psdsf-park": partial(_on_the_park, "ps-dsf"),
    "psdsf-large": partial(_on_random_servers, "ps-dsf", 10_000, 100, 2),
    "psdsf-finite-1000": partial(_on_random_servers, "ps-dsf", 1_000, 10, 4, **_FINITE),
    "psdsf-finite-5000": partial(_on_random_servers, "ps-dsf", 5_000, 10, 4, **_FINITE),
    "psdsf-zeros": _with_zeros,
    "tdm": partial(_on_random_servers, "ps-dsf-tdm", 1_000, 10, 2),
    "proportional": partial(_on_random_servers, "proportional", 1_000, 10, 2),
    "alpha-fair-2": partial(_on_random_servers, "alpha-fair", 1_000, 10, 2),
    "drf-tasks": partial(_on_the_park, "drf-tasks"),
    "drf-tasks-many": partial(_on_a_pool, 30_000),
    "dynamic": partial(_arrivals, 1_000_000, 4, 0.0),
    "dynamic-zeros": partial(_arrivals, 100_000, 3, 0.3),  # seven kinds of demand
}


if __name__ == "__main__":
    typer.run(main)

"""PS-DSF beside plain sweeps of the server procedure, and how its cost grows.

Run with ``make bench``; the figures are listed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fairlead import Problem, solve
from fairlead.mechanisms import psdsf
from random_problems import google_park, random_problem

# The violation that the sweeps are run to on the park, and how long they are given elsewhere.
GOAL = 1e-9


def _sweep(problem: Problem, mechanism: str, seconds: float) -> tuple[float, float]:
    """Sweep from nothing for some time; return the time taken and the violation reached."""
    sweeps = psdsf.prepare_sweeps(problem, mechanism)
    tasks = np.zeros((problem.n_users, problem.n_groups))
    start = time.perf_counter()
    while time.perf_counter() - start < seconds and sweeps.certificate.violation > GOAL:
        sweeps.run(tasks, 1)
        tasks = sweeps.last
    return time.perf_counter() - start, sweeps.certificate.violation


@pytest.mark.parametrize("mechanism", ["ps-dsf", "ps-dsf-tdm"])
def test_park(benchmark: BenchmarkFixture, report: Callable[[str], None], mechanism: str) -> None:
    problem = google_park(np.random.default_rng(1), 930)
    allocation = benchmark.pedantic(solve, (problem, mechanism), rounds=7, warmup_rounds=1)
    assert allocation.certificate.violation <= GOAL
    report(
        f"{mechanism}, 930 users on Google's park: {benchmark.stats.stats.median * 1e3:.0f} ms, "
        f"violation {allocation.certificate.violation:.0e}"
    )


@pytest.mark.parametrize("mechanism", ["ps-dsf", "ps-dsf-tdm"])
@pytest.mark.parametrize("n_users", [1_000, 3_000, 10_000])
def test_growth(
    benchmark: BenchmarkFixture, report: Callable[[str], None], mechanism: str, n_users: int
) -> None:
    problem = random_problem(np.random.default_rng(1), n_users, 100, 2)
    allocation = benchmark.pedantic(solve, (problem, mechanism), rounds=1, warmup_rounds=0)
    ours = benchmark.stats.stats.median
    plain, reached = _sweep(problem, mechanism, seconds=min(2 * ours, 30.0))
    report(
        f"{mechanism}, {n_users} users on 100 random groups: {ours:.1f} s to a violation of "
        f"{allocation.certificate.violation:.0e}; plain sweeps are at {reached:.0e} "
        f"after {plain:.1f} s"
    )


@pytest.mark.parametrize("n_users", [300, 1_000, 5_000])
def test_growth_with_finite_tasks(
    benchmark: BenchmarkFixture, report: Callable[[str], None], n_users: int
) -> None:
    """Half of the users have finitely many tasks; sweeps from nothing are the way before."""
    problem = random_problem(np.random.default_rng(1), n_users, 50, 4, limited=0.5, constrained=0.3)
    allocation = benchmark.pedantic(solve, (problem, "ps-dsf"), rounds=1, warmup_rounds=1)
    assert allocation.certificate.violation <= GOAL
    ours = benchmark.stats.stats.median
    line = (
        f"ps-dsf, {n_users} users on 50 random groups, half with finite tasks: {ours:.2f} s to a "
        f"violation of {allocation.certificate.violation:.0e}"
    )
    if n_users == 300:
        plain, reached = _sweep(problem, "ps-dsf", seconds=20 * ours)
        line += f"; plain sweeps are at {reached:.0e} after {plain / ours:.0f} times as long"
    report(line)


@pytest.mark.parametrize("limited", [0.0, 0.5])
@pytest.mark.parametrize("n_users", [300, 1_000, 5_000])
def test_growth_with_zero_demands(
    benchmark: BenchmarkFixture, report: Callable[[str], None], n_users: int, limited: float
) -> None:
    """Half of the demands are zero, in unlike places; sweeps from nothing are the way before."""
    problem = random_problem(
        np.random.default_rng(1), n_users, 50, 4, zero_demand=0.5, limited=limited, constrained=0.3
    )
    allocation = benchmark.pedantic(solve, (problem, "ps-dsf"), rounds=1, warmup_rounds=1)
    ours = benchmark.stats.stats.median
    plain, reached = _sweep(problem, "ps-dsf", seconds=min(2 * ours, 30.0))
    report(
        f"ps-dsf, {n_users} users on 50 random groups, half of the demands zero, "
        f"{limited:.0%} with finite tasks: {ours:.2f} s to a violation of "
        f"{allocation.certificate.violation:.0e}; plain sweeps are at {reached:.0e} "
        f"after {plain:.1f} s"
    )

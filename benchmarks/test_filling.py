"""Whole tasks on Google's park, beside scanning everything for every task.

Run with ``make bench``; the figures are listed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fairlead import Problem
from fairlead.scheduler.policies import find_policy
from fairlead.simulation.filling import fill, fill_by
from random_problems import GOOGLE_PARK
from scans import scan

# Policy, the part of the park, and how many placements the scan is given. Joint compares pairs of a
# user and a server: it has a smaller park, and a scan of all of its placements would take minutes.
CASES = [
    ("drf", "first-fit", False, 1.0, 20_000),
    ("drf", "best-fit", False, 1.0, 20_000),
    ("ps-dsf", "joint", False, 0.03, 200),
    ("ps-dsf", "joint", True, 0.03, 200),
]


def crowded_park(part: float = 1.0) -> Problem:
    """Return a part of Google's park, shared by 930 users: about 200,000 tasks fit the whole."""
    demand = np.random.default_rng(1).uniform(0.005, 0.06, (930, 2))
    count = np.maximum(1, np.round(GOOGLE_PARK[:, 0] * part))
    return Problem.from_arrays(GOOGLE_PARK[:, 1:], demand, count=count)


@pytest.mark.parametrize(("criterion", "select", "residual", "part", "most"), CASES)
def test_park(
    benchmark: BenchmarkFixture,
    report: Callable[[str], None],
    criterion: str,
    select: str,
    residual: bool,
    part: float,
    most: int,
) -> None:
    problem = crowded_park(part)
    policy = find_policy(criterion, select, residual)
    filled = benchmark.pedantic(fill_by, (problem, policy), rounds=3)
    order = filled.order
    scan(problem, select, residual, 2)  # warms up
    start = time.perf_counter()
    plain = scan(problem, select, residual, most)
    plain_rate = len(plain) / (time.perf_counter() - start)
    assert np.array_equal(plain, order[: len(plain)])
    rate = len(order) / benchmark.stats.stats.median
    report(
        f"{policy.name}, 930 users filling {problem.count.sum():,.0f} servers: {len(order):,} "
        f"tasks, {rate:,.0f} placements a second; scanning places {plain_rate:,.0f} a second "
        f"(measured on {len(plain):,}, all placed alike): {rate / plain_rate:,.0f} times"
    )


def test_all_of_it(benchmark: BenchmarkFixture, report: Callable[[str], None]) -> None:
    """From the problem to the proof, as a caller has it."""
    problem = crowded_park()

    def answer() -> int:
        filled = fill(problem, "drf", "best-fit")
        assert filled.certificate.holds
        return len(filled.order)

    tasks = benchmark.pedantic(answer, rounds=3)
    report(
        f"drf/best-fit with quanta, index and certificate: {tasks:,} tasks in "
        f"{benchmark.stats.stats.median * 1e3:.0f} ms"
    )


@pytest.mark.parametrize("n_tasks", [10_000, 50_000, 200_000])
def test_growth(benchmark: BenchmarkFixture, report: Callable[[str], None], n_tasks: int) -> None:
    """The same users on parks of more and more servers of the same classes."""
    problem = crowded_park(n_tasks / 214_640)
    policy = find_policy("drf", "best-fit")

    filled = benchmark.pedantic(fill_by, (problem, policy), rounds=1, warmup_rounds=1)
    placed = len(filled.order)
    rate = placed / benchmark.stats.stats.median
    report(
        f"drf/best-fit, {placed:,} tasks on {problem.count.sum():,.0f} servers: "
        f"{rate:,.0f} placements a second"
    )

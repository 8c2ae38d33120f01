"""Proportional fairness beside a general conic solver, and how its cost grows.

Run with ``make bench``; the figures are listed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from conic import solve_by_cones
from fairlead import Problem, solve
from fairlead.certificates.utility_prices import measure_price_faults
from fairlead.model.allocation import Allocation
from fairlead_papers.trade_off.alpha_fairness import measure_trade_off
from random_problems import google_park, random_problem

GOAL = 1e-6


def _gap(problem: Problem, allocation: Allocation) -> float:
    """Return how far eq. 17 is missed under TDM; a server costs what its best user would pay."""
    marginal = problem.weight / allocation.user_tasks
    prices = (marginal[:, None] * problem.gamma).max(axis=0)[None]
    faults = measure_price_faults(
        problem,
        allocation.tasks,
        np.log(marginal),
        np.ones(problem.n_users),
        prices,
        time_shared=True,
    )
    return max(faults.values())


@pytest.mark.parametrize("mechanism", ["proportional", "proportional-tdm", "ps-dsf-tdm"])
def test_park(benchmark: BenchmarkFixture, report: Callable[[str], None], mechanism: str) -> None:
    problem = google_park(np.random.default_rng(1), 930)
    allocation = benchmark.pedantic(solve, (problem, mechanism), rounds=7, warmup_rounds=1)
    by_time = mechanism.endswith("-tdm")
    gap = _gap(problem, allocation) if by_time else allocation.certificate.violation
    assert gap <= GOAL
    start = time.perf_counter()
    conic = solve_by_cones(problem, time_shared=by_time).sum(axis=1)
    plain = time.perf_counter() - start
    ours = benchmark.stats.stats.median
    apart = np.abs(conic / allocation.user_tasks - 1).max()
    report(
        f"{mechanism}, 930 users on Google's park: {ours * 1e3:.0f} ms, gap {gap:.0e}; "
        f"a conic solver {plain * 1e3:.0f} ms, {plain / ours:.0f} times as long, totals within "
        f"{apart:.0e}"
    )


@pytest.mark.parametrize("mechanism", ["proportional", "ps-dsf-tdm"])
@pytest.mark.parametrize("n_users", [1_000, 3_000, 10_000])
def test_growth(
    benchmark: BenchmarkFixture, report: Callable[[str], None], mechanism: str, n_users: int
) -> None:
    problem = random_problem(np.random.default_rng(1), n_users, 100, 2)
    allocation = benchmark.pedantic(solve, (problem, mechanism), rounds=1, warmup_rounds=0)
    by_time = mechanism.endswith("-tdm")
    gap = _gap(problem, allocation) if by_time else allocation.certificate.violation
    assert gap <= GOAL
    ours = benchmark.stats.stats.median
    beside = ""
    if n_users == 1_000:
        start = time.perf_counter()
        solve_by_cones(problem, time_shared=by_time)
        plain = time.perf_counter() - start
        beside = f"; a conic solver {plain:.1f} s, {plain / ours:.0f} times as long"
    report(f"{mechanism}, {n_users} users on 100 groups: {ours:.1f} s, gap {gap:.0e}{beside}")


def test_trade_off(benchmark: BenchmarkFixture, report: Callable[[str], None]) -> None:
    problem = google_park(np.random.default_rng(1), 930)
    trade_off = benchmark.pedantic(measure_trade_off, (problem,), rounds=1, warmup_rounds=0)
    report(
        f"trade-off at {len(trade_off.points)} alphas from 0 to 8, 930 users on the park, envy of "
        f"all pairs included: {benchmark.stats.stats.median:.1f} s"
    )

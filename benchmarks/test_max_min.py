"""DRFH and TSF, certificate included, beside one merged programme through HiGHS.

Run with ``make bench``; the ratios are listed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fairlead import Problem, solve
from merged_lp import solve_merged_lp
from random_problems import google_park, random_problem


def _score(problem: Problem, mechanism: str) -> np.ndarray:
    if mechanism == "tsf":
        return 1.0 / problem.unconstrained_gamma.sum(axis=1)
    return (problem.demand / problem.total_capacity).max(axis=1)


def _median_of(action: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


@pytest.mark.parametrize("mechanism", ["drfh", "tsf"])
def test_park(benchmark: BenchmarkFixture, report: Callable[[str], None], mechanism: str) -> None:
    problem = google_park(np.random.default_rng(1), 930)
    score = _score(problem, mechanism)
    allocation = benchmark.pedantic(
        solve, (problem, mechanism), rounds=15, warmup_rounds=2, iterations=1
    )
    level = (allocation.user_tasks * score / problem.weight).min()
    plain = _median_of(lambda: solve_merged_lp(problem, score), 5)
    assert level == pytest.approx(solve_merged_lp(problem, score), rel=1e-6)
    ours = benchmark.stats.stats.median
    report(
        f"{mechanism}, 930 users on Google's park: {ours * 1e3:.1f} ms with its certificate "
        f"({allocation.certificate.violation:.0e}); one merged LP {plain * 1e3:.0f} ms, "
        f"{plain / ours:.1f} times as long"
    )


@pytest.mark.parametrize("mechanism", ["drfh", "tsf"])
def test_park_with_limits_and_constraints(
    benchmark: BenchmarkFixture, report: Callable[[str], None], mechanism: str
) -> None:
    problem = google_park(np.random.default_rng(1), 930, constrained=0.3, limited=0.5)
    allocation = benchmark.pedantic(solve, (problem, mechanism), rounds=5, warmup_rounds=1)
    plain = _median_of(lambda: solve_merged_lp(problem, _score(problem, mechanism)), 3)
    ours = benchmark.stats.stats.median
    report(
        f"{mechanism}, 930 users on the park, half with finite tasks, 30 % constrained, "
        f"lexicographic: {ours * 1e3:.0f} ms ({allocation.certificate.violation:.0e}); "
        f"the first level alone as one merged LP {plain * 1e3:.0f} ms"
    )


@pytest.mark.parametrize("mechanism", ["drfh", "tsf"])
def test_many_users_on_many_groups(
    benchmark: BenchmarkFixture, report: Callable[[str], None], mechanism: str
) -> None:
    problem = random_problem(np.random.default_rng(1), 10_000, 100, 3, constrained=0.3)
    allocation = benchmark.pedantic(solve, (problem, mechanism), rounds=1)
    report(
        f"{mechanism}, 10,000 users, 100 groups, 3 resources, 30 % constrained: "
        f"{benchmark.stats.stats.median:.1f} s ({allocation.certificate.violation:.0e})"
    )

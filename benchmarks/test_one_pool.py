"""Whole tasks on one pool: the jump beside a heap and a loop over tasks.

Run with ``make bench``; the ratios are listed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fairlead import Problem
from fairlead.mechanisms.drf import solve_drf_tasks
from fairlead.mechanisms.pdrf import precompute_tasks, solve_pdrf
from fairlead.model.quanta import to_whole_pool
from fairlead.solvers.level_bisection import serve_by_turns, top_up
from heap_loop import serve_task_by_task


def _pool(n_users: int, n_resources: int, largest: int, n_tasks: float) -> Problem:
    """Return a pool for about that many tasks, as in Metin's tests but for its size."""
    rng = np.random.default_rng(1)
    demand = rng.integers(1, largest + 1, (n_users, n_resources)).astype(float)
    reserve = rng.integers(50_000, 100_001, (1, n_resources)).astype(float)
    problem = Problem.from_arrays(reserve, demand)
    scale = n_tasks / solve_drf_tasks(problem).user_tasks.sum()
    return Problem.from_arrays(np.rint(reserve * scale), demand)


def _median_of(action: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


@pytest.mark.parametrize(
    ("n_users", "n_resources", "largest", "n_tasks"),
    [(1_000, 10, 10, 1e6), (1_000, 10, 1_000, 1e6), (1_000, 2, 100, 1e6), (1_000, 10, 10, 1e4)],
)
def test_beside_a_heap_loop(
    benchmark: BenchmarkFixture,
    report: Callable[[str], None],
    n_users: int,
    n_resources: int,
    largest: int,
    n_tasks: float,
) -> None:
    problem = _pool(n_users, n_resources, largest, n_tasks)
    pool = to_whole_pool(problem)
    allocation = benchmark.pedantic(solve_drf_tasks, (problem,), rounds=31, warmup_rounds=2)
    ours = benchmark.stats.stats.median
    jump = _median_of(lambda: serve_by_turns(pool, stops=False), 31)
    formula = _median_of(lambda: solve_pdrf(problem), 15)
    bare = _median_of(lambda: top_up(pool, precompute_tasks(pool)), 15)
    start = time.perf_counter()
    plain = serve_task_by_task(pool.demand, pool.capacity, pool.step)
    loop = time.perf_counter() - start
    tasks = allocation.user_tasks
    moved = int(np.abs(tasks - plain).sum())
    assert moved <= 0.01 * n_users  # ties that the loop's floats break otherwise
    report(
        f"drf-tasks, {n_users} users, {n_resources} resources, demands 1-{largest}, "
        f"{tasks.sum():.0f} tasks: {ours * 1e3:.2f} ms with its proof, {jump * 1e3:.2f} ms without "
        f"(pdrf: {formula * 1e3:.2f} and {bare * 1e3:.2f} ms); "
        f"heap loop in Python {loop:.2f} s ({loop / ours:.0f} and {loop / jump:.0f} times); "
        f"tasks where the loop's floats break a tie otherwise: {moved}"
    )


@pytest.mark.parametrize("n_tasks", [1e4, 1e6, 1e9, 1e12])
def test_growth_with_tasks(
    benchmark: BenchmarkFixture, report: Callable[[str], None], n_tasks: float
) -> None:
    problem = _pool(1_000, 10, 10, n_tasks)
    allocation = benchmark.pedantic(solve_drf_tasks, (problem,), rounds=11, warmup_rounds=1)
    assert allocation.certificate.holds
    report(
        f"drf-tasks, 1,000 users, 10 resources, {allocation.user_tasks.sum():.3g} tasks: "
        f"{benchmark.stats.stats.median * 1e3:.2f} ms"
    )


@pytest.mark.parametrize("n_users", [1_000, 10_000, 100_000])
def test_growth_with_users(
    benchmark: BenchmarkFixture, report: Callable[[str], None], n_users: int
) -> None:
    problem = _pool(n_users, 10, 10, 100.0 * n_users)
    allocation = benchmark.pedantic(solve_drf_tasks, (problem,), rounds=5, warmup_rounds=1)
    assert allocation.certificate.holds
    report(
        f"drf-tasks, {n_users} users, 10 resources, {allocation.user_tasks.sum():.3g} tasks: "
        f"{benchmark.stats.stats.median * 1e3:.1f} ms"
    )


def test_amounts_beyond_machine_words(
    benchmark: BenchmarkFixture, report: Callable[[str], None]
) -> None:
    rng = np.random.default_rng(1)
    problem = Problem.from_arrays(rng.uniform(5e4, 1e5, (1, 10)), rng.uniform(0.1, 1, (1_000, 10)))
    assert not to_whole_pool(problem).fits_words
    allocation = benchmark.pedantic(solve_drf_tasks, (problem,), rounds=5, warmup_rounds=1)
    assert allocation.certificate.holds
    report(
        f"drf-tasks, 1,000 users, 10 resources, amounts of 53 bits, "
        f"{allocation.user_tasks.sum():.3g} tasks: {benchmark.stats.stats.median * 1e3:.0f} ms"
    )

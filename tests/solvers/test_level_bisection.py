"""The level that floats find: feasible in exact arithmetic, and few tasks short of the last one."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np

from fairlead.model.problem import Problem
from fairlead.model.quanta import to_whole_pool
from fairlead.solvers.level_bisection import find_level
from oracles import whole_tasks as oracle
from random_pools import random_pool


def level_and_counts(problem: Problem) -> tuple[float, list[int]]:
    """Return the level found, and each user's tasks with turns up to it, exactly."""
    pool = to_whole_pool(problem)
    able = pool.limit >= 1
    level = find_level(
        np.zeros(int(able.sum())),
        pool.limit[able],
        1.0 / pool.step[able],
        pool.share[able],
        np.ones(problem.n_resources),
    )
    # In the pool's own scale of weights, of which the level is.
    shares = [
        Fraction(int(a), int(b)) for a, b in zip(pool.numerator, pool.denominator, strict=True)
    ]
    counts = [0 if level < 0 else floor(Fraction(level) / share) + 1 for share in shares]
    return level, [int(min(k, most)) for k, most in zip(counts, pool.limit, strict=True)]


def test_the_level_is_feasible_and_few_tasks_short() -> None:
    rng = np.random.default_rng(30)
    found = 0
    for _ in range(60):
        problem = random_pool(rng)
        if (problem.task_limit < 1).all():
            continue  # no user to serve
        level, counts = level_and_counts(problem)
        if level >= 0:
            found += 1
            assert min(oracle.room_after(oracle.ExactPool(problem), counts)) >= 0
        served = sum(oracle.tasks_by_turns(problem, stops=True))
        # An eighth of the users and sixteen are in doubt, and all that tie at a level.
        assert served - sum(counts) <= 16 + 1.125 * problem.n_users
    assert found > 30


def test_a_level_among_billions_of_tasks() -> None:
    rng = np.random.default_rng(31)
    demand = rng.integers(1, 10, (50, 3))
    problem = Problem.from_arrays(rng.integers(10**11, 10**12, (1, 3)), demand)
    _, counts = level_and_counts(problem)
    pool = oracle.ExactPool(problem)
    room = oracle.room_after(pool, counts)
    assert sum(counts) > 10**9
    assert min(room) >= 0
    in_doubt = 16 + 1.125 * problem.n_users
    assert min(room) <= in_doubt * demand.max()

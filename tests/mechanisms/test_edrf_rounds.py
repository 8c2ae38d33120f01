"""Divisible DRF on one pool is the rounds of Parkes, Procaccia and Shah (EDRF), in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given

from fairlead import Problem, solve
from fairlead.mechanisms.catalogue import RESOURCE_WEIGHTS
from oracles.whole_tasks import ExactPool
from strategies import problems


def edrf_rounds(problem: Problem) -> list[Fraction]:
    """Return the tasks of each user.

    Each round all who are left rise by ``x = 1 / max_r sum_n d'[n,r]``, d' being demands as parts
    of what is left, normalised to the weighted dominant share; it ends with a resource used up,
    and whoever needs that one is done.
    """
    pool = ExactPool(problem)
    resources = range(problem.n_resources)
    normalised = [[d / ds for d in row] for row, ds in zip(pool.demand, pool.share, strict=True)]
    left, tasks = list(pool.capacity), [Fraction(0)] * problem.n_users
    users = list(range(problem.n_users))
    while users:
        asked = [sum((normalised[n][r] for n in users), Fraction(0)) for r in resources]
        x = 1 / max(asked[r] / left[r] for r in resources if asked[r] > 0)
        for n in users:
            tasks[n] += x / pool.share[n]
        left = [have - x * used for have, used in zip(left, asked, strict=True)]
        users = [n for n in users if all(left[r] > 0 for r in resources if normalised[n][r] > 0)]
    return tasks


def test_rounds_by_hand() -> None:
    # The first resource is used up at a level of 1/2; then the second user takes the other's rest.
    problem = Problem.from_arrays([[10, 20]], [[1, 0], [1, 1], [0, 1]])
    assert edrf_rounds(problem) == [5, 5, 15]


@given(problem=problems(features=(RESOURCE_WEIGHTS,)))
def test_drf_is_what_the_rounds_give(problem: Problem) -> None:
    rounds = [float(tasks) for tasks in edrf_rounds(problem)]
    np.testing.assert_allclose(solve(problem, "drf").user_tasks, rounds, rtol=1e-9)

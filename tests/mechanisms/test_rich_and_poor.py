"""Steep alpha-fair shares where rich users may choose where to run and poor ones need the rest."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead import Problem, solve
from fairlead.errors import CertificateError, NoConvergenceError
from oracles.steep import largest_gain


def rich_and_poor(seed):
    """Return users with round demands, who tie, and a few with tiny ones; and an alpha."""
    rng = np.random.default_rng(seed)
    n_groups, n_resources = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    rich, poor = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    capacity = np.ones((n_groups, n_resources))
    if rng.random() < 0.5:
        capacity = rng.choice([0.5, 1, 2, 3], size=capacity.shape)
    demand = np.zeros((rich + poor, n_resources))
    eligible = np.ones((rich + poor, n_groups), dtype=bool)
    demand[:rich, 0] = rng.choice([1, 2, 0.5, 1.0], size=rich)
    others = (rich, n_resources - 1)
    uneven = rng.choice([0, 0, 1, 0.5, 0.25], size=others)
    demand[:rich, 1:] = uneven * (1 if rng.random() < 0.7 else rng.uniform(0.5, 1.5, others))
    for n in range(rich, rich + poor):
        needed = rng.integers(1, n_resources)
        demand[n, needed] = 10 ** rng.uniform(-3, 0)
        if rng.random() < 0.3:
            demand[n, rng.integers(0, n_resources)] += 10 ** rng.uniform(-4, -1)
        places = rng.choice(n_groups, rng.integers(1, n_groups), replace=False)
        eligible[n] = np.isin(np.arange(n_groups), places)
    weight = np.ones(rich + poor)
    if rng.random() >= 0.6:
        weight = 10 ** rng.uniform(-2, 2, rich + poor)
    limit = np.full(rich + poor, np.inf)
    if rng.random() < 0.3:
        limited = rng.integers(rich + poor)
        limit[limited] = 10 ** rng.uniform(-1, 1)
    problem = Problem.from_arrays(
        capacity, demand, eligible=eligible, weight=weight, task_limit=limit
    )
    return problem, float(rng.choice([0, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32]))


@pytest.mark.parametrize("seed", [86, 169, 229])
def test_poor_users_get_all_that_rich_ones_can_leave(seed):
    problem, alpha = rich_and_poor(seed)
    answer = solve(problem, "alpha-fair", alpha=alpha)
    assert largest_gain(problem, answer.tasks, alpha, time_shared=False) <= 1e-3


def test_an_answer_with_a_free_gain_is_refused():
    problem, alpha = rich_and_poor(28)
    try:
        answer = solve(problem, "alpha-fair", alpha=alpha)
    except (CertificateError, NoConvergenceError):
        return
    assert largest_gain(problem, answer.tasks, alpha, time_shared=False) <= 1e-3

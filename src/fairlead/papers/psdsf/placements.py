"""What may differ between allocations of the same totals: who runs where."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import FloatArray
from fairlead.model.division import use_per_task
from fairlead.model.problem import Problem

# How much more of a resource an allocation may seem to use for rounding.
ROUNDING = 1e-9


def range_over_placements(problem: Problem, user_tasks: FloatArray, sums: FloatArray) -> FloatArray:
    """Return between what sums over an allocation can lie, everybody's total being given.

    Parameters
    ----------
    problem : Problem
    user_tasks : (N,) float
        Tasks of each user in all.
    sums : (K, N, G) float
        What each task on each group adds to each sum.

    Returns
    -------
    (K, 2) float
        The least and the most of each, by linear programmes under resource division.

    Raises
    ------
    NoConvergenceError
        When totals are not possible at all.
    """
    n_users, n_groups = problem.n_users, problem.n_groups
    limits = np.einsum("rng,hg->rhng", use_per_task(problem), np.eye(n_groups))
    of_group = limits.reshape(-1, n_users * n_groups)
    of_user = np.repeat(np.eye(n_users), n_groups, axis=1)
    bounds = [(0, None if runs else 0) for runs in problem.runnable.ravel()]
    room = np.full(len(of_group), 1 + ROUNDING)
    ends = np.empty((len(sums), 2))
    for k, weights in enumerate(sums.reshape(len(sums), -1)):
        for end, sign in enumerate((1.0, -1.0)):
            answer = linprog(sign * weights, of_group, room, of_user, user_tasks, bounds)
            if answer.status != 0:
                raise NoConvergenceError(f"the linear programme ended with: {answer.message}")
            ends[k, end] = sign * float(answer.fun)
    return ends


def possible_tasks(problem: Problem, user_tasks: FloatArray) -> FloatArray:
    """Return (N, G, 2) the least and most tasks by user and group that the (N,) totals allow.

    Raises NoConvergenceError when totals are not possible at all.
    """
    shape = (problem.n_users, problem.n_groups)
    one_each = np.eye(shape[0] * shape[1]).reshape(-1, *shape)
    return range_over_placements(problem, user_tasks, one_each).reshape(*shape, 2)

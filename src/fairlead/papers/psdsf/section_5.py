"""The cluster of section V of Khamse-Ashari et al. 2017, and what Tables III and IV print of it."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import FloatArray
from fairlead.model.division import use_per_task
from fairlead.model.problem import Problem

CLASSES = ("A", "B", "C", "D")
USERS = ("user 1", "user 2", "user 3", "user 4")
# Table III: tasks that each user may run alone on each class.
PRINTED_GAMMA = (
    (80.0, 340.0, 82.5, 55.0),
    (40.0, 170.0, 41.25, 41.25),
    (0.0, 0.0, 82.5, 27.5),
    (0.0, 0.0, 27.5, 27.5),
)
# Table IV: tasks of each user on each class.
PRINTED_PS_DSF = (
    (40.0, 170.0, 0.0, 0.0),
    (20.0, 85.0, 0.0, 0.0),
    (0.0, 0.0, 82.5, 0.0),
    (0.0, 0.0, 0.0, 27.5),
)
PRINTED_TSF = (
    (35.0, 170.0, 0.0, 0.0),
    (22.5, 85.0, 0.0, 0.0),
    (0.0, 0.0, 58.33, 0.0),
    (0.0, 0.0, 8.05, 27.5),
)
# How much more an allocation may seem to use for rounding.
_ROUNDING = 1e-9


def possible_tasks(problem: Problem, user_tasks: FloatArray) -> FloatArray:
    """Return between what the tasks of each user on each group can lie, totals being given.

    Parameters
    ----------
    problem : Problem
    user_tasks : (N,) float
        Tasks of each user in all.

    Returns
    -------
    (N, G, 2) float
        The least and the most, by linear programmes over who runs where under resource division.

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
    room = np.full(len(of_group), 1 + _ROUNDING)
    ends = np.empty((n_users, n_groups, 2))
    for n, g in np.ndindex(n_users, n_groups):
        one = np.zeros(n_users * n_groups)
        one[n * n_groups + g] = 1.0
        for end, sign in enumerate((1.0, -1.0)):
            answer = linprog(sign * one, of_group, room, of_user, user_tasks, bounds)
            if answer.status != 0:
                raise NoConvergenceError(f"the linear programme ended with: {answer.message}")
            ends[n, g, end] = sign * float(answer.fun)
    return ends

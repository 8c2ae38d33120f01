"""The fraction of a group of servers that a task takes; the tasks that fit on one server.

Both count fractions of tasks.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import ROUNDING, FloatArray
from fairlead.model.problem import Problem


def use_per_task(problem: Problem, time_shared: bool = False) -> FloatArray:
    """Return (R, N, G) the fraction of all servers of a group that one task takes; O(N G R).

    On servers divided by resource (RDM) it is ``d[n,r] / c[i,r]``; on servers shared by time (TDM)
    ``1 / gamma[n,i]``, with R = 1; and 0 where the user cannot run. Khamse-Ashari et al. 2017,
    eq. 9 and 10.
    """
    gamma = problem.gamma
    if time_shared:
        return np.divide(1.0, gamma, out=np.zeros_like(gamma), where=gamma > 0)[None]
    capacity = problem.group_capacity.T[:, None, :]
    use: FloatArray = problem.demand.T[:, :, None] / np.where(capacity > 0, capacity, 1.0)
    return np.where(gamma > 0, use, 0.0)


def tasks_on_one_server(problem: Problem) -> FloatArray:
    """Return (N,) the largest number of each user's tasks that fit on one server where it may run.

    It is infinite for a user with given rates, as the size of its tasks is unknown. O(N G R).
    """
    runnable = problem.runnable
    on_each = problem.fitting / np.maximum(problem.count, 1)
    largest: FloatArray = np.where(runnable, on_each, 0.0).max(axis=1)
    if problem.users.rates is not None:
        has_rates = ~np.isnan(problem.users.rates[:, 0])
        largest = np.where(has_rates, np.where(runnable.any(axis=1), np.inf, 0.0), largest)
    return largest


def all_fit(problem: Problem) -> bool:
    """Return whether a whole task of every user fits on some server where it may run."""
    return bool((tasks_on_one_server(problem) >= 1 - ROUNDING).all())

"""The fraction of a server that one task takes, and the whole tasks that fit on one server."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem

# A task that takes a whole server still fits after a conversion of units rounded up.
ROUNDING = 1e-12


def use_per_task(problem: Problem, time_shared: bool = False) -> FloatArray:
    """Return (R, N, G) the fraction of each whole group that one task takes; O(N G R).

    Servers divided by resource (RDM): ``d[n,r] / c[i,r]``. Servers shared by time (TDM):
    ``1 / gamma[n,i]``, with R = 1. It is 0 where the user cannot run. Khamse-Ashari et al. 2017,
    eq. 9 and 10.
    """
    gamma = problem.gamma
    if time_shared:
        return np.divide(1.0, gamma, out=np.zeros_like(gamma), where=gamma > 0)[None]
    capacity = problem.group_capacity.T[:, None, :]
    use: FloatArray = problem.demand.T[:, :, None] / np.where(capacity > 0, capacity, 1.0)
    return np.where(gamma > 0, use, 0.0)


def tasks_on_one_server(problem: Problem) -> FloatArray:
    """Return (N,) the most tasks of each user that fit on one server where it may run.

    A user with given rates has no known size, and counts as infinitely many. O(N G R).
    """
    runnable = problem.runnable
    on_each = problem.fitting / np.maximum(problem.count, 1)
    most: FloatArray = np.where(runnable, on_each, 0.0).max(axis=1)
    if problem.users.rates is not None:
        given = ~np.isnan(problem.users.rates[:, 0])
        most = np.where(given, np.where(runnable.any(axis=1), np.inf, 0.0), most)
    return most


def all_fit(problem: Problem) -> bool:
    """Return whether a whole task of every user fits on some server where it may run."""
    return bool((tasks_on_one_server(problem) >= 1 - ROUNDING).all())

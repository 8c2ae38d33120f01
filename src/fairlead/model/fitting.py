"""How much of a server one task takes, and how many whole tasks fit on it."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem

# A task that takes a whole server still fits after a conversion of units rounded up.
ROUNDING = 1e-12


def tasks_on_one_server(problem: Problem) -> FloatArray:
    """Return (N,) the most tasks of each user that fit on one server where it may run.

    At least 1 where a problem file could list the user; given rates fit wherever they are positive,
    and count as infinitely many. O(N G R).
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


def use_per_task(problem: Problem, time_shared: bool = False) -> FloatArray:
    """Return what one task takes of each whole group, relative to what the group has.

    Parameters
    ----------
    time_shared : bool
        Whether a server is shared by time (TDM): a task of user n then takes ``1 / gamma[n,i]`` of
        it. Otherwise it is divided by resource (RDM), and a task takes ``d[n,r] / c[i,r]``.

    Returns
    -------
    (R, N, G) float
        With R = 1 under TDM; 0 where the user may not run or the group lacks the resource.

    Notes
    -----
    Khamse-Ashari et al. 2017, eq. 9 and 10. Cost O(N G R).
    """
    gamma = problem.gamma
    if time_shared:
        return np.divide(1.0, gamma, out=np.zeros_like(gamma), where=gamma > 0)[None]
    capacity = problem.group_capacity.T[:, None, :]
    use: FloatArray = problem.demand.T[:, :, None] / np.where(capacity > 0, capacity, 1.0)
    return np.where(gamma > 0, use, 0.0)

"""PS-DSF by the paper's procedure: divide one server after the other until no total changes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem

Array = NDArray[np.float64]


class NotSettledError(AssertionError):
    """After the largest number of sweeps, totals still changed."""


@lru_cache(maxsize=8)  # definitions call it once for each user and server
def gamma_of(problem: Problem) -> Array:
    """Return (N, G): tasks each user could run alone on each group; 0 where it may not run."""
    gamma = np.zeros((problem.n_users, problem.n_groups))
    rates = problem.users.rates
    for n in range(problem.n_users):
        for g in range(problem.n_groups):
            if not problem.users.eligible[n, g]:
                continue
            if rates is not None and not np.isnan(rates[n, g]):
                gamma[n, g] = rates[n, g] * problem.cluster.count[g]
            else:
                server = problem.cluster.capacity[g] * problem.cluster.count[g]
                asks = np.flatnonzero(problem.users.demand[n] > 0)
                gamma[n, g] = min(server[r] / problem.users.demand[n, r] for r in asks)
    gamma.setflags(write=False)
    return gamma


def ps_dsf_tasks(
    problem: Problem, time_shared: bool = False, sweeps: int = 5000, still: float = 1e-13
) -> Array:
    """Return (N, G): tasks under PS-DSF, by sweeps of the server procedure over all servers.

    Parameters
    ----------
    problem : Problem
    time_shared : bool
        Whether servers are shared by time (TDM) rather than divided by resource (RDM).
    sweeps : int
        The largest number of sweeps; `NotSettledError` if totals still change.
    still : float
        Stop when no user's tasks change by more than this fraction of its total in a sweep.
    """
    gamma = gamma_of(problem)
    capacity = problem.cluster.capacity * problem.cluster.count[:, None]
    tasks = np.zeros_like(gamma)
    for _ in range(sweeps):
        before = tasks.copy()
        for g in range(problem.n_groups):
            users = [n for n in range(problem.n_users) if gamma[n, g] > 0]
            if not users:
                continue
            if time_shared:
                server, demand = np.ones(1), 1 / gamma[users, g][:, None]
            else:
                server, demand = capacity[g], problem.users.demand[users]
            elsewhere = np.array([tasks[n].sum() - tasks[n, g] for n in users])
            tasks[users, g] = fill_server(
                server,
                demand,
                problem.users.weight[users] * gamma[users, g],
                elsewhere,
                problem.users.task_limit[users],
            )
        total = np.maximum(tasks.sum(axis=1), 1e-300)
        if (np.abs(tasks - before).max(axis=1) <= still * total).all():
            return tasks
    raise NotSettledError(f"still moving after {sweeps} sweeps")


def fill_server(
    server: Array, demand: Array, tasks_per_level: Array, elsewhere: Array, limit: Array
) -> Array:
    """Raise the lowest level on one server until every user demands a used-up resource.

    Parameters
    ----------
    server : (R,) float
        The server's capacity.
    demand : (N, R) float
        What one task takes.
    tasks_per_level : (N,) float
        Weight * gamma: tasks for one unit of (weighted virtual dominant share) level.
    elsewhere : (N,) float
        Tasks of each user on other servers, which count in its level.
    limit : (N,) float
        Task limit of each user, on all servers.

    Returns
    -------
    (N,) float
        Tasks of each user on this server.
    """
    start = elsewhere / tasks_per_level
    stop = np.maximum(limit / tasks_per_level, start)
    free = server.astype(float).copy()
    tasks = np.zeros(len(demand))
    used_up = free <= 0
    climbing = {n for n in range(len(demand)) if not (demand[n, used_up] > 0).any()}
    level = 0.0
    while climbing:
        level = max(level, min(start[n] for n in climbing))
        moving = [n for n in climbing if start[n] <= level]
        use = sum((tasks_per_level[n] * demand[n] for n in moving), np.zeros(len(server)))
        asked = np.flatnonzero(use > 0)
        ends = {r: level + free[r] / use[r] for r in asked}
        next_level = min(
            [*ends.values(), *(stop[n] for n in moving)]
            + [start[n] for n in climbing if start[n] > level]
        )
        for n in moving:
            tasks[n] += (next_level - level) * tasks_per_level[n]
        free -= (next_level - level) * use
        for r in asked:
            used_up[r] |= ends[r] <= next_level or free[r] <= 1e-15 * server[r]
        level = next_level
        climbing -= {n for n in moving if stop[n] <= level}
        climbing -= {n for n in climbing if (demand[n, used_up] > 0).any()}
    return tasks

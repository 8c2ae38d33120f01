"""Progressive filling by scanning, compiled: every user and every server, for every task.

The plain versions that the scheduler is measured beside. Scores and misfits are plain floats; with
random demands there are no ties that rounding could break.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta


def scan(problem: Problem, select: str, residual: bool, most: int) -> np.ndarray[Any, Any]:
    """Return the first placements, at most so many, as (P, 2) users and servers.

    ``first-fit`` and ``best-fit`` go by global dominant shares (drf), ``joint`` by ps-dsf.
    """
    quanta = to_quanta(problem)
    group = np.repeat(np.arange(problem.n_groups), problem.count)
    free = quanta.capacity[group]
    users, servers = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    if select == "joint":
        capacity = quanta.capacity.astype(np.float64)
        placed = _scan_pairs(
            quanta.demand, problem.weight, group, free, capacity, residual, users, servers
        )
    else:
        total = problem.total_capacity
        unit = (problem.demand / total).max(axis=1) / problem.weight
        share = 1.0 / (total * np.array([float(q) for q in quanta.per_unit]))
        placed = _scan_users(quanta.demand, unit, share, free, select == "best-fit", users, servers)
    return np.stack([users[:placed], servers[:placed]], axis=1)


@njit(cache=True)
def _fits(demand: Any, free: Any, n: int, i: int) -> bool:
    for r in range(demand.shape[1]):  # noqa: SIM110 (numba knows no generators)
        if free[i, r] < demand[n, r]:
            return False
    return True


@njit(cache=True)
def _scan_users(
    demand: Any, unit: Any, share: Any, free: Any, best_fit: bool, users: Any, servers: Any
) -> int:
    n_users, n_resources = demand.shape
    placed = np.zeros(n_users)
    waits = np.ones(n_users, dtype=np.bool_)
    k = 0
    while k < users.size:
        n = -1
        for m in range(n_users):
            if waits[m] and (n < 0 or placed[m] * unit[m] < placed[n] * unit[n]):
                n = m
        if n < 0:
            break
        best, least = -1, np.inf
        for i in range(free.shape[0]):
            if not _fits(demand, free, n, i):
                continue
            if not best_fit:
                best = i
                break
            misfit = 0.0
            for r in range(1, n_resources):
                wanted = demand[n, r] * share[r] / (demand[n, 0] * share[0])
                misfit += abs(wanted - free[i, r] * share[r] / (free[i, 0] * share[0]))
            if misfit < least * (1.0 - 1e-14):
                best, least = i, misfit
        if best < 0:
            waits[n] = False
            continue
        for r in range(n_resources):
            free[best, r] -= demand[n, r]
        placed[n] += 1
        users[k], servers[k] = n, best
        k += 1
    return k


@njit(cache=True)
def _scan_pairs(
    demand: Any,
    weight: Any,
    group: Any,
    free: Any,
    capacity: Any,
    residual: bool,
    users: Any,
    servers: Any,
) -> int:
    placed = np.zeros(demand.shape[0])
    for k in range(users.size):
        user, server, least = -1, -1, np.inf
        for n in range(demand.shape[0]):
            for i in range(free.shape[0]):
                if not _fits(demand, free, n, i):
                    continue
                share = 0.0
                for r in range(demand.shape[1]):
                    amount = float(free[i, r]) if residual else capacity[group[i], r]
                    share = max(share, demand[n, r] / amount)
                score = placed[n] * share / weight[n]
                if score < least * (1.0 - 1e-14):
                    user, server, least = n, i, score
        if user < 0:
            return k
        for r in range(demand.shape[1]):
            free[server, r] -= demand[user, r]
        placed[user] += 1
        users[k], servers[k] = user, server
    return users.size

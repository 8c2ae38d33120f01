"""Dominant resource fairness of divisible tasks on one pool, by rounds of progressive filling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem

Array = NDArray[np.float64]


def drf_totals(problem: Problem) -> Array:
    """Return (N,): tasks of each user when all servers are one pool.

    Weights may be per resource: the dominant share is max_r d[n,r] / (C[r] w[n,r]).
    """
    pool = (problem.cluster.capacity * problem.cluster.count[:, None]).sum(axis=0)
    if problem.users.resource_weight is None:
        weight = np.repeat(problem.users.weight[:, None], problem.n_resources, axis=1)
    else:
        weight = problem.users.resource_weight
    return _fill_pool(pool, problem.users.demand, weight, problem.users.task_limit)


def drf_per_server_tasks(problem: Problem) -> Array:
    """Return (N, G): DRF on every group by itself, among the users that can run there."""
    tasks = np.zeros((problem.n_users, problem.n_groups))
    for g in range(problem.n_groups):
        server = problem.cluster.capacity[g] * problem.cluster.count[g]
        users = [
            n
            for n in range(problem.n_users)
            if problem.users.eligible[n, g]
            and all(server[r] > 0 for r in np.flatnonzero(problem.users.demand[n]))
        ]
        if users:
            weight = np.repeat(problem.users.weight[users, None], problem.n_resources, axis=1)
            endless = np.full(len(users), np.inf)
            tasks[users, g] = _fill_pool(server, problem.users.demand[users], weight, endless)
    return tasks


def _fill_pool(pool: Array, demand: Array, weight: Array, limit: Array) -> Array:
    """Raise all dominant shares together, until each user lacks a resource or has all its tasks."""
    n_users, n_resources = demand.shape
    dominant = [
        max(demand[n, r] / (pool[r] * weight[n, r]) for r in range(n_resources) if demand[n, r] > 0)
        for n in range(n_users)
    ]
    tasks = np.zeros(n_users)
    free = pool.astype(float).copy()
    active = set(range(n_users))
    while active:
        use = [sum(demand[n, r] / dominant[n] for n in active) for r in range(n_resources)]
        steps = {("resource", r): free[r] / use[r] for r in range(n_resources) if use[r] > 0}
        steps |= {("user", n): (limit[n] - tasks[n]) * dominant[n] for n in active}
        step = max(0.0, min(steps.values()))
        for n in active:
            tasks[n] += step / dominant[n]
        free -= step * np.array(use)
        ended = {key for key, length in steps.items() if length <= step * (1 + 1e-12)}
        used_up = [r for r in range(n_resources) if ("resource", r) in ended]
        used_up += [r for r in range(n_resources) if use[r] > 0 and free[r] <= 1e-13 * pool[r]]
        active -= {n for n in active if ("user", n) in ended or any(demand[n, used_up] > 0)}
    return np.minimum(tasks, limit)

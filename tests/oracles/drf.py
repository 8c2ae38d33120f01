"""Dominant resource fairness of divisible tasks on one pool, by rounds of progressive filling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem

Array = NDArray[np.float64]


def drf_totals(problem: Problem) -> Array:
    """Return (N,): tasks of each user when all servers are one pool.

    All dominant shares rise together, until each user lacks a resource or has all its tasks.
    Weights may be per resource: the dominant share is max_r d[n,r] / (C[r] w[n,r]).
    """
    pool = (problem.cluster.capacity * problem.cluster.count[:, None]).sum(axis=0)
    demand, limit = problem.users.demand, problem.users.task_limit
    weight = problem.users.resource_weight
    if weight is None:
        weight = np.repeat(problem.users.weight[:, None], problem.n_resources, axis=1)
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

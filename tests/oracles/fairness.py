"""Quantities of fairness properties, computed by loops and plain linear programmes.

Weights, placement constraints and finite tasks, which papers leave out, count as in `docs`: a user
runs at most its tasks, only on admitted servers, and entitlements are by weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem
from oracles.leximax import leximax_totals
from oracles.plain_lp import Shares, gamma_of, most_tasks

Array = NDArray[np.float64]


def slice_tasks(problem: Problem) -> Array:
    """Return (N,): the tasks of each user alone on its part ``phi[n] / sum phi`` of each server."""
    tasks = np.zeros(problem.n_users)
    weight = problem.users.resource_weight
    gamma = gamma_of(problem)
    for n in range(problem.n_users):
        for g in range(problem.n_groups):
            if weight is None:
                tasks[n] += gamma[n, g] * problem.users.weight[n] / sum(problem.users.weight)
            elif gamma[n, g] > 0:
                server = problem.cluster.capacity[g] * problem.cluster.count[g]
                tasks[n] += min(
                    server[r] * weight[n, r] / sum(weight[:, r]) / problem.users.demand[n, r]
                    for r in range(problem.n_resources)
                    if problem.users.demand[n, r] > 0
                )
        tasks[n] = min(tasks[n], problem.users.task_limit[n])
    return tasks


def tasks_with_bundle(
    problem: Problem, tasks: Array, n: int, m: int, time_shared: bool = False
) -> float:
    """Return the tasks that `n` could run on the holdings of `m`, scaled by their weights."""
    gamma = gamma_of(problem)
    demand, weight = problem.users.demand, problem.users.resource_weight
    could = 0.0
    for g in range(problem.n_groups):
        if gamma[n, g] <= 0 or tasks[m, g] <= 0:
            continue
        if time_shared and gamma[m, g] <= 0:
            continue
        if time_shared:
            ratio = problem.users.weight[n] / problem.users.weight[m]
            could += tasks[m, g] / gamma[m, g] * gamma[n, g] * ratio
            continue
        per_resource = []
        for r in range(problem.n_resources):
            if demand[n, r] > 0:
                ratio = problem.users.weight[n] / problem.users.weight[m]
                if weight is not None:
                    ratio = weight[n, r] / weight[m, r]
                per_resource.append(tasks[m, g] * demand[m, r] * ratio / demand[n, r])
        could += min(per_resource)
    return min(could, problem.users.task_limit[n])


def room(problem: Problem, tasks: Array, n: int, g: int, time_shared: bool = False) -> float:
    """Return the further tasks that `n` could run on the free amounts of group `g`."""
    left = problem.users.task_limit[n] - float(tasks[n].sum())
    return max(min(fits(problem, tasks, n, g, time_shared), left), 0.0)


def fits(problem: Problem, tasks: Array, n: int, g: int, time_shared: bool = False) -> float:
    """Return the tasks of `n` that fit on the free amounts of group `g`, without its limit."""
    gamma = gamma_of(problem)
    if gamma[n, g] <= 0:
        return 0.0
    if time_shared:
        runs_there = gamma[:, g] > 0
        free = max(1 - float((tasks[runs_there, g] / gamma[runs_there, g]).sum()), 0.0)
        return float(free * gamma[n, g])
    server = problem.cluster.capacity[g] * problem.cluster.count[g]
    left = np.maximum(server - tasks[:, g] @ problem.users.demand, 0.0)
    asks = np.flatnonzero(problem.users.demand[n] > 0)
    return float(min(left[r] / problem.users.demand[n, r] for r in asks))


def alone(problem: Problem, n: int) -> float:
    """Return the tasks that user `n` could run alone on all servers."""
    return min(float(gamma_of(problem)[n].sum()), float(problem.users.task_limit[n]))


def possible_gain(problem: Problem, tasks: Array, n: int, time_shared: bool = False) -> float:
    """Return how many more tasks user `n` could have if no other user has fewer."""
    shares = Shares(problem, time_shared=time_shared)
    used = shares.capacity_rows()[:, :-1] @ (
        np.array([tasks[pair] for pair in shares.pairs]) / shares.gamma
    )
    held = tasks.sum(axis=1)
    most = most_tasks(shares, n, dict(enumerate(held)), np.maximum(used, 1.0))
    return min(most, max(problem.users.task_limit[n], held[n])) - held[n]


def common_bottlenecks(problem: Problem) -> list[int]:
    """Return the resources that every user demands dominantly of every server where it can run."""
    found = []
    gamma = gamma_of(problem)
    demand, capacity = problem.users.demand, problem.cluster.capacity
    for r in range(problem.n_resources):
        dominant = all(
            demand[n, r] > 0
            and all(
                demand[n, r] * capacity[g, s] >= demand[n, s] * capacity[g, r]
                for s in range(problem.n_resources)
            )
            for n in range(problem.n_users)
            for g in range(problem.n_groups)
            if gamma[n, g] > 0
        )
        if dominant:
            found.append(r)
    return found


def max_min_amounts(problem: Problem, resource: int) -> Array:
    """Return (N,): the amount of a resource that each user holds if these are max-min fair."""
    demand = problem.users.demand[:, resource]
    return leximax_totals(problem, demand) * demand

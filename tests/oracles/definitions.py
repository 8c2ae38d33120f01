"""Measure by how much an allocation misses the definition of a mechanism.

Every function returns the largest relative violation: 0 for an allocation that is exactly right,
about 1 for one that is entirely wrong. A violation by a user's holding is at most its share of the
resource, so that tiny holdings count little.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem
from oracles.plain_lp import Shares, gamma_of, most_tasks

Array = NDArray[np.float64]


def below_limit(problem: Problem, tasks: Array, slack: float = 1e-9) -> list[int]:
    """Return the users that have fewer tasks than their limit."""
    total = tasks.sum(axis=1)
    limit = problem.users.task_limit
    return [n for n in range(problem.n_users) if total[n] < limit[n] * (1 - slack)]


def feasibility_violation(problem: Problem, tasks: Array, time_shared: bool = False) -> float:
    """Return how far tasks are negative, misplaced, beyond a limit or beyond a server (9), (10)."""
    gamma = gamma_of(problem)
    if tasks.shape != gamma.shape or not np.isfinite(tasks).all():
        return np.inf
    worst = 0.0
    for n in range(problem.n_users):
        worst = max(worst, tasks[n].sum() / problem.users.task_limit[n] - 1)
        for g in range(problem.n_groups):
            if gamma[n, g] > 0:
                worst = max(worst, -tasks[n, g] / gamma[n, g])
            elif tasks[n, g] != 0:
                worst = max(worst, 1.0)
    for g in range(problem.n_groups):
        if time_shared:
            runs_there = gamma[:, g] > 0
            worst = max(worst, float((tasks[runs_there, g] / gamma[runs_there, g]).sum()) - 1)
            continue
        for r in range(problem.n_resources):
            capacity = problem.cluster.capacity[g, r] * problem.cluster.count[g]
            used = float(tasks[:, g] @ problem.users.demand[:, r])
            if capacity > 0:
                worst = max(worst, used / capacity - 1)
            elif used > 0:
                worst = max(worst, 1.0)
    return worst


def theorem_1_violation(problem: Problem, tasks: Array) -> float:
    """Return how far users are from having a bottleneck on each server that they can use (RDM).

    A bottleneck is a used-up resource that the user demands, and of which no user with a higher
    virtual dominant share holds any.
    """
    gamma = gamma_of(problem)
    total = tasks.sum(axis=1)
    worst = feasibility_violation(problem, tasks)
    unfinished = below_limit(problem, tasks)
    for g in range(problem.n_groups):
        share = _levels(total, problem.users.weight, gamma[:, g])
        capacity = problem.cluster.capacity[g] * problem.cluster.count[g]
        held = _held_shares(problem, tasks, g)
        for n in unfinished:
            if gamma[n, g] <= 0:
                continue
            candidates = []
            for r in np.flatnonzero(problem.users.demand[n] > 0):
                if capacity[r] <= 0:
                    candidates.append(0.0)
                    continue
                unused = 1 - float(held[r].sum())
                candidates.append(max(unused, _ahead(share, n, held[r])))
            worst = max(worst, min(candidates))
    return worst


def theorem_2_violation(problem: Problem, tasks: Array) -> float:
    """Return how far servers are from being busy, and users from having the least level (TDM)."""
    gamma = gamma_of(problem)
    total = tasks.sum(axis=1)
    worst = feasibility_violation(problem, tasks, time_shared=True)
    unfinished = below_limit(problem, tasks)
    for g in range(problem.n_groups):
        share = _levels(total, problem.users.weight, gamma[:, g])
        runs_there = gamma[:, g] > 0
        time = np.zeros(problem.n_users)
        time[runs_there] = tasks[runs_there, g] / gamma[runs_there, g]
        idle = 1 - float(time.sum())
        for n in unfinished:
            if gamma[n, g] > 0:
                worst = max(worst, idle, _ahead(share, n, time))
    return worst


def _held_shares(problem: Problem, tasks: Array, g: int) -> Array:
    """Return (R, N): each user's share of each resource of a group; of none, the amount itself."""
    capacity = problem.cluster.capacity[g] * problem.cluster.count[g]
    return (tasks[:, g, None] * problem.users.demand / np.where(capacity > 0, capacity, 1.0)).T


def _levels(total: Array, weight: Array, gamma: Array) -> Array:
    """Return (N,): weighted virtual dominant shares on a server; 0 of users that may not run."""
    share = np.zeros(len(total))
    runs_there = gamma > 0
    share[runs_there] = total[runs_there] / (weight[runs_there] * gamma[runs_there])
    return share


def _ahead(share: Array, n: int, holding: Array) -> float:
    """Return how far holders of a resource are ahead of user `n`, each at most by its holding."""
    ahead = np.zeros(len(share))
    positive = share > 0
    ahead[positive] = 1 - share[n] / share[positive]
    return float(np.minimum(ahead, holding).max(initial=0.0))


def max_min_violation(
    problem: Problem, tasks: Array, score: Array, tie: float = 1e-7, full: float = 1e-9
) -> float:
    """Return by what fraction a user could rise without lowering a user of no higher level.

    One linear programme for each user below its limit raises it as far as possible, while every
    user whose level is no higher keeps its tasks (Khamse-Ashari et al., Definition 1).

    Parameters
    ----------
    problem : Problem
    tasks : (N, G) float
    score : (N,) float
        Score of one task; levels are tasks * score / weight.
    tie : float
        Levels that differ by less than this fraction are equal.
    full : float
        A resource of which at most this fraction is free is used up. (A user with a tiny demand of
        it could otherwise rise much by amounts that are rounding errors.)
    """
    worst = feasibility_violation(problem, tasks)
    if worst > tie:
        return worst
    shares = Shares(problem)
    held = np.array([tasks[pair] for pair in shares.pairs]) / shares.gamma
    used = shares.capacity_rows()[:, :-1] @ held
    available = np.where(used >= 1 - full, used, 1.0)
    total = tasks.sum(axis=1)
    level = total * score / problem.users.weight
    for n in below_limit(problem, tasks):
        no_better = [m for m in range(problem.n_users) if level[m] <= level[n] * (1 + tie)]
        most = _most_without_loss(shares, n, {m: total[m] for m in no_better}, available)
        worst = max(worst, 1 - total[n] / min(most, problem.users.task_limit[n]))
    return worst


def _most_without_loss(
    shares: Shares, n: int, floor: dict[int, float], available: Array, loss: float = 1e-12
) -> float:
    """Return the largest number of tasks of `n` while the users in `floor` keep theirs.

    The programmes let these users lose a little, as rounding might make them infeasible otherwise.
    If the demand of `n` is tiny, it gains much by that. Its tasks are concave in the loss, so the
    line through the answers for two losses, extended to no loss, gives an upper bound. The bound
    is exact unless the optimal vertex changes in between.
    """
    once, twice = (
        most_tasks(shares, n, {m: least * (1 - k * loss) for m, least in floor.items()}, available)
        for k in (1, 2)
    )
    return 2 * once - twice


def drf_violation(problem: Problem, tasks: Array) -> float:
    """Return how far each server is from dominant resource fairness among its users.

    A user below its limit must demand a used-up resource of which no holder has a larger weighted
    dominant share of that server. On one server PS-DSF and DRF are the same. For an answer on one
    pool, give the problem whose only server is the pool.
    """
    worst = feasibility_violation(problem, tasks)
    unfinished = below_limit(problem, tasks)
    weight = np.repeat(problem.users.weight[:, None], problem.n_resources, axis=1)
    if problem.users.resource_weight is not None:
        weight = problem.users.resource_weight
    for g in range(problem.n_groups):
        capacity = problem.cluster.capacity[g] * problem.cluster.count[g]
        share = np.zeros(problem.n_users)
        runs = []
        for n in range(problem.n_users):
            asks = np.flatnonzero(problem.users.demand[n] > 0)
            if problem.users.eligible[n, g] and (capacity[asks] > 0).all():
                runs.append(n)
                per_task = max(
                    problem.users.demand[n, r] / (capacity[r] * weight[n, r]) for r in asks
                )
                share[n] = tasks[n, g] * per_task
        held = _held_shares(problem, tasks, g)
        for n in set(runs) & set(unfinished):
            candidates = []
            for r in np.flatnonzero(problem.users.demand[n] > 0):
                candidates.append(max(1 - float(held[r].sum()), _ahead(share, n, held[r])))
            worst = max(worst, min(candidates))
    return worst

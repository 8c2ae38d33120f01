"""The definitions themselves: by how much does an allocation miss them?

Every function returns the largest relative amount, 0 for an allocation that is exactly right
and about 1 for one that is entirely wrong. A holding so small that giving it up would cost less
than it violates counts by its size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem
from oracles.plain_lp import Shares, most_tasks
from oracles.sweeps import gamma_of

Array = NDArray[np.float64]


def below_limit(problem: Problem, tasks: Array, slack: float = 1e-9) -> list[int]:
    """Return the users that have tasks left."""
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
            there = gamma[:, g] > 0
            worst = max(worst, float((tasks[there, g] / gamma[there, g]).sum()) - 1)
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
    """Return how far a user is from having a bottleneck on a server that it could use (RDM)."""
    gamma = gamma_of(problem)
    total = tasks.sum(axis=1)
    worst = feasibility_violation(problem, tasks)
    hungry = below_limit(problem, tasks)
    for g in range(problem.n_groups):
        share = _levels(total, problem.users.weight, gamma[:, g])
        capacity = problem.cluster.capacity[g] * problem.cluster.count[g]
        held = _parts_held(problem, tasks, g)
        for n in hungry:
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
    """Return how far servers are from being busy, and users from the least level (TDM)."""
    gamma = gamma_of(problem)
    total = tasks.sum(axis=1)
    worst = feasibility_violation(problem, tasks, time_shared=True)
    hungry = below_limit(problem, tasks)
    for g in range(problem.n_groups):
        share = _levels(total, problem.users.weight, gamma[:, g])
        there = gamma[:, g] > 0
        time = np.zeros(problem.n_users)
        time[there] = tasks[there, g] / gamma[there, g]
        idle = 1 - float(time.sum())
        for n in hungry:
            if gamma[n, g] > 0:
                worst = max(worst, idle, _ahead(share, n, time))
    return worst


def _parts_held(problem: Problem, tasks: Array, g: int) -> Array:
    """Return (R, N): the part of each resource of a group that each user holds, if there is any."""
    capacity = problem.cluster.capacity[g] * problem.cluster.count[g]
    return (tasks[:, g, None] * problem.users.demand / np.where(capacity > 0, capacity, 1.0)).T


def _levels(total: Array, weight: Array, gamma: Array) -> Array:
    """Return (N,): weighted virtual dominant shares on one server; 0 where one cannot run."""
    share = np.zeros(len(total))
    there = gamma > 0
    share[there] = total[there] / (weight[there] * gamma[there])
    return share


def _ahead(share: Array, n: int, holding: Array) -> float:
    """Return how far the holders of the resource are ahead of user `n`."""
    ahead = np.zeros(len(share))
    positive = share > 0
    ahead[positive] = 1 - share[n] / share[positive]
    return float(np.minimum(ahead, holding).max(initial=0.0))


def max_min_violation(
    problem: Problem, tasks: Array, score: Array, tie: float = 1e-7, full: float = 1e-9
) -> float:
    """Return by what fraction a user could rise without lowering one no better off than itself.

    One linear programme for each user with tasks left: raise it as far as it goes while every
    user whose level is no higher keeps what it has (Khamse-Ashari et al., Definition 1).

    Parameters
    ----------
    problem : Problem
    tasks : (N, G) float
    score : (N,) float
        Score of one task; levels are tasks * score / weight.
    tie : float
        Levels that differ by less than this fraction are equal.
    full : float
        A resource of which no more than this fraction is free is used up. (A user that needs next
        to nothing of it could otherwise rise much on what is but rounding.)
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
    """Return the most tasks that `n` can have while the users in `floor` keep theirs.

    The programmes let those lose a little, lest rounding makes them infeasible. Where `n` takes
    next to nothing of what others use up, that little is much to it. What the loss brings is
    concave in the loss, so the line through two losses, followed back to none, is no lower than
    the answer, and exact unless the solution changes its corner between them.
    """
    once, twice = (
        most_tasks(shares, n, {m: least * (1 - k * loss) for m, least in floor.items()}, available)
        for k in (1, 2)
    )
    return 2 * once - twice


def drf_violation(problem: Problem, tasks: Array) -> float:
    """Return how far each server is from dominant resource fairness among its users.

    A user with tasks left must demand a used-up resource on which nobody who holds any of it has
    a larger weighted dominant share of that server: one server is where PS-DSF is DRF. Whoever
    has an answer for one pool passes the pooled problem.
    """
    worst = feasibility_violation(problem, tasks)
    hungry = below_limit(problem, tasks)
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
        held = _parts_held(problem, tasks, g)
        for n in set(runs) & set(hungry):
            candidates = []
            for r in np.flatnonzero(problem.users.demand[n] > 0):
                candidates.append(max(1 - float(held[r].sum()), _ahead(share, n, held[r])))
            worst = max(worst, min(candidates))
    return worst

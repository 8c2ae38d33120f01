"""Dominant resource fairness: on all servers as one pool, and on each server by itself.

Ghodsi et al. 2011; with zero demands and weights Parkes, Procaccia and Shah 2012 (EDRF); per
server as the naive baseline of Wang, Liang and Li 2015, III-D.

Of whole tasks, all servers as one pool, by turns: the user with the least weighted dominant share
takes the next task; of equal ones the user whose task is the larger share, then the earlier one.
Ghodsi et al. 2011, Algorithm 1, stops at the first user whose task does not fit, even if others'
would; in the Pareto-efficient form (Metin, 6.2) that user leaves and the rest go on. A user whose
tasks are all placed leaves in both.
"""

from __future__ import annotations

import numpy as np

from fairlead.certificates.bottleneck import (
    below_limit,
    certificate_of_bottlenecks,
    measure_missing_bottleneck,
)
from fairlead.certificates.feasibility import measure_misplacement, measure_resource_overuse
from fairlead.certificates.turns import certify_turns
from fairlead.errors import RefusalError
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.model.quanta import LARGEST_WHOLE_FLOAT, WholeArray, WholePool, to_whole_pool
from fairlead.solvers.water_filling import WaterFilling
from fairlead.solvers.whole_tasks import serve_by_turns


def solve_drf(problem: Problem) -> Allocation:
    """Divide by DRF, all servers as one pool.

    Dominant shares ``x max_r d[n,r] / (phi[n,r] C[r])`` rise together; a user stops when a
    resource that it demands is used up, or when it has all its tasks.

    Returns
    -------
    Allocation
        Of the pooled problem: one group, named ``pool`` when there are several.

    Notes
    -----
    O(N R^2) times the few pieces that the search for a level visits.
    """
    pool = problem.pooled()
    share_per_task = _pool_share_per_task(pool)
    tasks = _fill(pool, share_per_task[:, None])
    share = tasks * share_per_task[:, None]
    return _proved(pool, "drf", tasks, share, "every user has a bottleneck in the pool (DRF)")


def solve_drf_per_server(problem: Problem) -> Allocation:
    """Divide each server by DRF among the users that may run on it, whatever they have elsewhere.

    Wang, Liang and Li 2015, III-D. O(N G R^2) times the few pieces that the searches visit.
    """
    gamma = problem.gamma
    with np.errstate(divide="ignore"):
        share_per_task = np.where(problem.runnable, 1.0 / (gamma * problem.weight[:, None]), 0.0)
    tasks = _fill(problem, share_per_task)
    condition = "every user has a bottleneck on every server, counting what it has there only (DRF)"
    return _proved(problem, "drf-per-server", tasks, tasks * share_per_task, condition)


def _pool_share_per_task(pool: Problem) -> FloatArray:
    """Return (N,) the weighted dominant share of one task."""
    weight = pool.users.resource_weight
    if weight is None:
        weight = np.broadcast_to(pool.weight[:, None], pool.demand.shape)
    total = np.where(pool.total_capacity > 0, pool.total_capacity, 1.0)
    share: FloatArray = (pool.demand / (total * weight)).max(axis=1)
    return share


def _fill(problem: Problem, share_per_task: FloatArray) -> FloatArray:
    """Fill every group by itself, shares rising together from zero."""
    tasks = np.zeros((problem.n_users, problem.n_groups))
    use = np.stack(list(use_per_task(problem)))
    for g in range(problem.n_groups):
        users = np.flatnonzero(problem.runnable[:, g])
        if not users.size:
            continue
        rate = 1.0 / share_per_task[users, g]
        width = problem.task_limit[users] / rate
        filling = WaterFilling(rate.tolist(), use[:, users, g].tolist())
        tasks[users, g] = filling.divide([0.0] * len(users), width.tolist())
    return tasks


def _proved(
    problem: Problem, mechanism: str, tasks: FloatArray, share: FloatArray, condition: str
) -> Allocation:
    counted = problem.runnable & below_limit(problem, tasks)[:, None]
    certificate = certificate_of_bottlenecks(
        condition,
        measure_missing_bottleneck(share, tasks, use_per_task(problem), counted),
        measure_resource_overuse(problem, tasks),
        measure_misplacement(problem, tasks),
    )
    return Allocation(problem, mechanism, tasks, certificate)


def solve_drf_tasks(problem: Problem) -> Allocation:
    """Divide whole tasks by DRF; a user that does not fit leaves, the rest go on.

    Returns
    -------
    Allocation
        Of the pooled problem, in whole tasks.

    Raises
    ------
    RefusalError
        When a user could run more tasks than can be counted (2**53).

    Notes
    -----
    The cost does not depend on the number of tasks: see
    `fairlead.solvers.whole_tasks.serve_by_turns`.
    """
    return _solve(problem, "drf-tasks", stops=False)


def solve_drf_algorithm_1(problem: Problem) -> Allocation:
    """Divide whole tasks by DRF as its authors wrote it: the first that does not fit ends it all.

    Ghodsi et al. 2011, Algorithm 1. Returns, raises and costs as `solve_drf_tasks`.
    """
    return _solve(problem, "drf-algorithm-1", stops=True)


def _solve(problem: Problem, mechanism: str, *, stops: bool) -> Allocation:
    pool = countable_pool(problem, mechanism)
    tasks = as_tasks(serve_by_turns(pool, stops=stops))
    certificate = certify_turns(problem, tasks, stops=stops)
    return Allocation(problem.pooled(), mechanism, tasks, certificate)


def countable_pool(problem: Problem, mechanism: str) -> WholePool:
    """Return the pool in integers, or refuse it where floats cannot count a user's tasks."""
    pool = to_whole_pool(problem)
    for n in np.flatnonzero(np.minimum(pool.alone, pool.limit) >= LARGEST_WHOLE_FLOAT):
        raise RefusalError(
            mechanism,
            f"user {problem.users.names[n]!r} could run {pool.alone[n]:.2g} tasks, too many to be "
            f"counted one by one (2**53)",
        )
    return pool


def as_tasks(counts: WholeArray) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return (N, 1) float: counts as an allocation holds them."""
    return counts.astype(np.float64).reshape(-1, 1)

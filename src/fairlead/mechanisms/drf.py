"""Dominant resource fairness: on all servers as one pool, on each server, and in whole tasks.

Sources: Ghodsi et al. 2011; for zero demands and weights Parkes, Procaccia and Shah 2012 (EDRF);
for DRF per server Wang, Liang and Li 2015, III-D, where it is the naive baseline.

Whole tasks, all servers as one pool: the user with the lowest dominant share over its weight takes
the next task. Ties go to the user whose task is the larger share, then to the earlier user. A user
without remaining tasks leaves. Algorithm 1 of Ghodsi et al. 2011 stops at the first task that does
not fit. In the Pareto-efficient variant only the user of that task leaves (Metin, on PDRF, 6.2).
"""

from __future__ import annotations

import numpy as np

from fairlead.certificates.bottleneck_theorems import certify_shares
from fairlead.certificates.turn_order import certify_turns
from fairlead.errors import RefusalError
from fairlead.mechanisms.queue_trees import divide_among_queues
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.model.quanta import LARGEST_WHOLE_FLOAT, WholeArray, WholePool, to_whole_pool
from fairlead.solvers.level_bisection import serve_by_turns
from fairlead.solvers.water_filling import WaterFilling


def solve_drf(problem: Problem) -> Allocation:
    """Divide by DRF, all servers as one pool: dominant shares rise together.

    For users in a tree of queues it is hierarchical DRF; see `fairlead.mechanisms.queue_trees`.
    """
    pool = problem.pooled()
    if pool.users.queues is not None:
        return divide_among_queues(pool, "drf")
    share_per_task = _pool_share_per_task(pool)
    tasks = _fill(pool, share_per_task[:, None])
    share = tasks * share_per_task[:, None]
    condition = "every user below its task limit has a bottleneck in the pool (DRF)"
    return Allocation(pool, "drf", tasks, certify_shares(pool, tasks, share, condition))


def solve_drf_per_server(problem: Problem) -> Allocation:
    """Divide each server by DRF among its eligible users, ignoring their other servers."""
    gamma = problem.gamma
    with np.errstate(divide="ignore"):
        share_per_task = np.where(problem.runnable, 1.0 / (gamma * problem.weight[:, None]), 0.0)
    tasks = _fill(problem, share_per_task)
    condition = (
        "every user below its task limit has a bottleneck on every server, counting only its tasks "
        "there (DRF)"
    )
    certificate = certify_shares(problem, tasks, tasks * share_per_task, condition)
    return Allocation(problem, "drf-per-server", tasks, certificate)


def _pool_share_per_task(pool: Problem) -> FloatArray:
    """Return (N,) one task's largest share of a resource over the user's weight for it."""
    weight = pool.users.resource_weight
    if weight is None:
        weight = np.broadcast_to(pool.weight[:, None], pool.demand.shape)
    total = np.where(pool.total_capacity > 0, pool.total_capacity, 1.0)
    share: FloatArray = (pool.demand / (total * weight)).max(axis=1)
    return share


def _fill(problem: Problem, share_per_task: FloatArray) -> FloatArray:
    """Fill each group separately, shares rising together from zero; return tasks (N, G).

    `share_per_task` (N, G) is the share of one task on a group, over the user's weight.
    """
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


def solve_drf_tasks(problem: Problem) -> Allocation:
    """Divide whole tasks by DRF: a user whose task does not fit leaves, the others continue."""
    return _solve_whole(problem, "drf-tasks", stops=False)


def solve_drf_algorithm_1(problem: Problem) -> Allocation:
    """Divide whole tasks by Algorithm 1 of DRF: stop at the first task that does not fit."""
    return _solve_whole(problem, "drf-algorithm-1", stops=True)


def _solve_whole(problem: Problem, mechanism: str, *, stops: bool) -> Allocation:
    pool = countable_pool(problem, mechanism)
    tasks = as_tasks(serve_by_turns(pool, stops=stops))
    certificate = certify_turns(problem, tasks, stops=stops)
    return Allocation(problem.pooled(), mechanism, tasks, certificate)


def countable_pool(problem: Problem, mechanism: str) -> WholePool:
    """Return the pool in integers; raise RefusalError if a user could run 2**53 tasks or more."""
    pool = to_whole_pool(problem)
    for n in np.flatnonzero(np.minimum(pool.alone, pool.limit) >= LARGEST_WHOLE_FLOAT):
        raise RefusalError(
            mechanism,
            f"user {problem.users.names[n]!r} could run {pool.alone[n]:.2g} tasks; "
            "fewer than 2**53 can be counted",
        )
    return pool


def as_tasks(counts: WholeArray) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return counts (N,) as the (N, 1) floats of an allocation."""
    return counts.astype(np.float64).reshape(-1, 1)

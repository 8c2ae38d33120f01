"""Dominant resource fairness: on all servers as one pool, on each server, and in whole tasks.

Sources: Ghodsi et al. 2011; for zero demands and weights Parkes, Procaccia and Shah 2012 (EDRF);
for DRF per server Wang, Liang and Li 2015, III-D, where it is the naive baseline.

Whole tasks, all servers as one pool: the user with the lowest dominant share over its weight takes
the next task. Ties go to the user whose task is the larger share, then to the earlier user. A user
without remaining tasks leaves. Algorithm 1 of Ghodsi et al. 2011 stops at the first task that does
not fit. In the Pareto-efficient variant only the user of that task leaves (Metin, on PDRF, 6.2).

Precomputed DRF (PDRF) gives whole tasks of one pool by a formula. Let ds[n] be the dominant share
of one task of user n over its weight, and ds* the largest. In a cycle, user n takes ds*/ds[n]
tasks, so that all dominant shares over weight grow equally. With demands d and the pool's capacity
C, the cycle fits ``k = min_r C[r] / sum_n (ds*/ds[n]) d[n,r]`` times, which gives each user
``floor(k ds*/ds[n])`` whole tasks (Metin, 3.4). Then each user gets one more task if it fits, the
lowest level first (Metin, 5). ds* cancels out. The formula is evaluated in floats. Where a number
is within rounding errors of an integer, it is evaluated in fractions.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor, lcm

import numpy as np

from fairlead.certificates.bottleneck_theorems import certify_shares
from fairlead.certificates.turn_order import certify_precomputed, certify_turns
from fairlead.errors import RefusalError
from fairlead.mechanisms.queue_trees import divide_among_queues
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.model.quanta import LARGEST_WHOLE_FLOAT, WholeArray, WholePool, to_whole_pool
from fairlead.solvers.level_bisection import serve_by_turns, top_up
from fairlead.solvers.water_filling import WaterFilling

# An upper bound of the relative error of the formula in floats.
ROUNDING = 1e-12


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
    """Serve whole tasks by turns; `stops` is whether the first task that does not fit ends it."""
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


def solve_pdrf(problem: Problem) -> Allocation:
    """Divide whole tasks by PDRF with the top-up (Metin, 3.4 and 5): O(N (log N + R))."""
    return _solve_precomputed(problem, "pdrf", topped_up=True)


def solve_pdrf_without_top_up(problem: Problem) -> Allocation:
    """Divide whole tasks by PDRF's formula, without the top-up (Metin, 3.4): O(N R).

    Usually half of the users could have one more task.
    """
    return _solve_precomputed(problem, "pdrf-without-top-up", topped_up=False)


def _solve_precomputed(problem: Problem, mechanism: str, *, topped_up: bool) -> Allocation:
    pool = countable_pool(problem, mechanism)
    counts = precompute_tasks(pool)
    if topped_up:
        counts = top_up(pool, counts)
    tasks = as_tasks(counts)
    certificate = certify_precomputed(problem, tasks, topped_up=topped_up)
    return Allocation(problem.pooled(), mechanism, tasks, certificate)


def precompute_tasks(pool: WholePool) -> WholeArray:
    """Return (N,) the tasks by PDRF's formula, at most each user's task limit."""
    rate = 1.0 / pool.step  # tasks per unit of level
    per_level = rate @ pool.share
    level = 1.0 / per_level.max()
    ideal = level * rate
    count = np.floor(ideal)
    doubtful = np.abs(ideal - np.rint(ideal)) <= ROUNDING * (ideal + 1.0)
    doubtful &= np.rint(ideal) <= pool.limit
    if doubtful.any():
        scarce = np.flatnonzero(per_level >= per_level.max() * (1.0 - ROUNDING))
        exact_level = min(_level_of(pool, r) for r in scarce.tolist())
        for n in np.flatnonzero(doubtful):
            share = Fraction(int(pool.numerator[n]), int(pool.denominator[n]))
            count[n] = floor(exact_level / share)
    tasks: WholeArray = np.minimum(count, pool.limit).astype(np.int64).astype(pool.demand.dtype)
    return tasks


def _level_of(pool: WholePool, resource: int) -> Fraction:
    """Return the level k ds* at which divisible tasks use up a resource."""
    demand = pool.demand[:, resource].tolist()
    numerators = pool.numerator.tolist()
    common = lcm(*set(numerators))
    shares = zip(demand, numerators, pool.denominator.tolist(), strict=True)
    per_level = sum(d * b * (common // a) for d, a, b in shares if d)
    return Fraction(int(pool.capacity[resource]) * common, per_level)

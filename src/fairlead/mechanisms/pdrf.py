"""Precomputed dominant resource fairness (PDRF): whole tasks of one pool by a formula.

Let ds[n] be the dominant share of one task of user n over its weight, and ds* the largest. In a
cycle, user n takes ds*/ds[n] tasks, so that all dominant shares over weight grow equally. With
demands d and the pool's capacity C, the cycle fits ``k = min_r C[r] / sum_n (ds*/ds[n]) d[n,r]``
times, which gives each user ``floor(k ds*/ds[n])`` whole tasks (Metin, 3.4). Then each user gets
one more task if it fits, the lowest level first (Metin, 5). ds* cancels out.

The formula is evaluated in floats. Where a number is within rounding errors of an integer, it is
evaluated in fractions.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor, lcm

import numpy as np

from fairlead.certificates.turn_order import certify_precomputed
from fairlead.mechanisms.drf import as_tasks, countable_pool
from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from fairlead.model.quanta import WholeArray, WholePool
from fairlead.solvers.level_bisection import top_up

# An upper bound of the relative error of the formula in floats.
ROUNDING = 1e-12


def solve_pdrf(problem: Problem) -> Allocation:
    """Divide whole tasks by PDRF with the top-up (Metin, 3.4 and 5): O(N (log N + R))."""
    return _solve(problem, "pdrf", topped_up=True)


def solve_pdrf_without_top_up(problem: Problem) -> Allocation:
    """Divide whole tasks by PDRF's formula, without the top-up (Metin, 3.4): O(N R).

    Usually half of the users could have one more task.
    """
    return _solve(problem, "pdrf-without-top-up", topped_up=False)


def _solve(problem: Problem, mechanism: str, *, topped_up: bool) -> Allocation:
    pool = countable_pool(problem, mechanism)
    counts = precompute_tasks(pool)
    if topped_up:
        counts = top_up(pool, counts)
    tasks = as_tasks(counts)
    certificate = certify_precomputed(problem, tasks, topped_up=topped_up)
    return Allocation(problem.pooled(), mechanism, tasks, certificate)


def precompute_tasks(pool: WholePool) -> WholeArray:
    """Return (N,) the tasks by PDRF's formula, limited to those that each user has."""
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

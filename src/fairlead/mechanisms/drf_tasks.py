"""Dominant resource fairness of whole tasks, all servers as one pool, by turns.

The user with the least weighted dominant share takes the next task; of equal ones the user whose
task is the larger share, then the earlier one. Ghodsi et al. 2011, Algorithm 1, stops at the first
user whose task does not fit, even if others' would; in the Pareto-efficient form (Metin, 6.2) that
user leaves and the rest go on. A user whose tasks are all placed leaves in both.
"""

from __future__ import annotations

import numpy as np

from fairlead.certificates.turns import certify_turns
from fairlead.errors import RefusalError
from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from fairlead.model.whole_pool import LARGEST_WHOLE_FLOAT, WholeArray, WholePool, to_whole_pool
from fairlead.optimize.whole_tasks import serve_by_turns


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
    `fairlead.optimize.whole_tasks.serve_by_turns`.
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

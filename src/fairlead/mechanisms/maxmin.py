"""What DRFH, C-DRFH, TSF and CDRF share: lexicographic max-min of a linear score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from fairlead.certificates.maxmin import certify_maxmin
from fairlead.errors import NoConvergenceError
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.solvers.leximax import Leximax, lexicographic_max_min

# Below what a number counts as zero is a judgement; another one, where the first leaves no proof.
ZEROS = (1e-9, 1e-7, 1e-5)
# The last resort takes minutes beyond this many users times groups.
LARGEST_PROGRAMME = 50_000


def solve_max_min(problem: Problem, mechanism: str, score: FloatArray) -> Allocation:
    """Divide so that the sorted levels ``x score / phi`` are lexicographically largest.

    Parameters
    ----------
    mechanism : str
        The name to put on the allocation.
    score : (N,) float
        Score of one task of each user, positive.

    Raises
    ------
    NoConvergenceError
        When the numbers are too far apart for floating-point arithmetic.

    Notes
    -----
    Capacities become shares of the cluster, and one unit of a user takes at most all of some
    resource's total, so that the solver meets numbers of moderate size.
    """
    total = problem.total_capacity
    scale = np.where(total > 0, total, 1.0)
    share = problem.demand / scale
    per_task = share.max(axis=1)
    need = problem.weight / score * per_task
    unit = float(need.sum())
    data = {
        "demand": share / per_task[:, None],
        "allowed": problem.runnable,
        "need": need / unit,
        "limit": problem.task_limit * per_task,
        "capacity": problem.group_capacity / scale,
    }
    best: Allocation | None = None
    failure: NoConvergenceError | None = None
    for attempt in _attempts(problem):
        try:
            division = attempt(**data)
        except NoConvergenceError as error:
            failure = error
            continue
        tasks = division.split / per_task[:, None]
        certificate = certify_maxmin(problem, tasks, score, division.prices / scale)
        if best is None or certificate.violation < best.certificate.violation:
            best = Allocation(problem, mechanism, tasks, certificate)
        if certificate.holds:
            break
    if best is None:
        raise failure or NoConvergenceError("no level was tried")
    return best


def _attempts(problem: Problem) -> Iterator[Callable[..., Leximax]]:
    """Yield ways to divide, the quickest first; the certificate says when one will do."""
    for zero in ZEROS:
        yield partial(lexicographic_max_min, zero=zero)
    if problem.n_users * problem.n_groups <= LARGEST_PROGRAMME:
        from fairlead.solvers.leximax_by_lp import (  # noqa: PLC0415 (slow to import, rarely used)
            lexicographic_max_min_by_lp,
        )

        yield lexicographic_max_min_by_lp

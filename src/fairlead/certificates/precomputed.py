"""Whether whole tasks are those of PDRF's formula.

With ds[n] the weighted dominant share of one task, the formula gives as many tasks as fit below
the level ``L = min_r C[r] / sum_n d[n,r] / ds[n]``, the level that divisible tasks reach when all
rise together: ``x[n] ds[n] <= L < (x[n] + 1) ds[n]``, or all tasks that the user has, if those are
fewer. Only where floats cannot decide this is L computed as a fraction.

The top-up adds at most one task to each, in the order of dominant shares (then the larger per
task, then the earlier user), if it fits after what the earlier ones were given. Undoing it and
asking each user in this order decides whether that was done.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from fairlead.certificates.turns import measure_impossible_tasks, measure_room
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import WholeArray, WholePool, to_whole_pool
from fairlead.solvers.whole_tasks import in_turns

PRECOMPUTED = "whole tasks that fit, as many as PDRF's formula gives"
TOPPED_UP = (
    "whole tasks that fit: as many as PDRF's formula gives, and one more for each user that it "
    "fitted, from the least served upward"
)
# Floats this close (relative) decide nothing.
CLOSE = 1e-11


def certify_precomputed(problem: Problem, tasks: FloatArray, *, topped_up: bool) -> Certificate:
    """Certify that whole tasks are PDRF's.

    Parameters
    ----------
    problem : Problem
        Pooled already or not.
    tasks : (N, 1) float
        Tasks of each user in the pool.
    topped_up : bool
        Whether one more task each is to be given from the least served upward.

    Returns
    -------
    Certificate
        Its violation is 0 or the largest of: the part of a number of tasks that is not whole,
        negative or beyond a limit; the overuse of a resource; the part of its tasks that a user
        has too many or too few of.

    Notes
    -----
    O(N (log N + R)); where users tie, rational arithmetic on N numbers.
    """
    pool = to_whole_pool(problem)
    misplaced = measure_impossible_tasks(pool, tasks)
    overuse = error = 0.0
    if misplaced == 0.0:
        whole = tasks[:, 0].astype(np.int64).astype(pool.demand.dtype)
        overuse = measure_room(pool, whole)[1]
        error = _measure_error(pool, whole, topped_up)
    return Certificate(
        condition=TOPPED_UP if topped_up else PRECOMPUTED,
        violation=max(misplaced, overuse, error),
        tolerance=0.0,
        detail={"impossible": misplaced, "overuse": overuse, "error": error},
    )


def _measure_error(pool: WholePool, whole: WholeArray, topped_up: bool) -> float:
    """Return the largest part of a user's tasks that is too much or missing."""
    level = _Level(pool)
    above = level.is_exceeded_by(whole)
    enough = (whole >= pool.limit) | level.is_exceeded_by(whole + 1)
    base = whole - above
    wrong = ~above & ~enough
    if topped_up:
        wrong |= above & level.is_exceeded_by(base)
        if not wrong.any():
            wrong = _topped_up(pool, base) != whole
    else:
        wrong |= above
    return float((wrong / (1.0 + whole)).max())


def _topped_up(pool: WholePool, base: WholeArray) -> WholeArray:
    """Return the formula's tasks with one more for everybody that it fits, one after the other."""
    users = in_turns(pool, np.flatnonzero(base < pool.limit), base)
    room = pool.capacity - base @ pool.demand
    given = base.copy()
    for n in [user.number for user in sorted(users)]:
        if (pool.demand[n] <= room).all():
            given[n] += 1
            room -= pool.demand[n]
    return given


class _Level:
    """The level of the formula, rounded and, when asked for, as a fraction."""

    def __init__(self, pool: WholePool) -> None:
        self.pool = pool
        self.per_level = (pool.share / pool.step[:, None]).sum(axis=0)
        self.rounded = 1.0 / float(self.per_level.max())
        self._exact: Fraction | None = None

    def is_exceeded_by(self, counts: WholeArray) -> BoolArray:
        """Return (N,) bool: whose dominant share is above the level with `counts` tasks."""
        share = (counts * self.pool.step).astype(np.float64)
        exceeded: BoolArray = share > self.rounded
        for n in np.flatnonzero(np.abs(share - self.rounded) <= CLOSE * self.rounded):
            exact_share = Fraction(int(self.pool.numerator[n]), int(self.pool.denominator[n]))
            exceeded[n] = int(counts[n]) * exact_share > self.exact
        return exceeded

    @property
    def exact(self) -> Fraction:
        """The level as a fraction."""
        if self._exact is None:
            close = self.per_level >= self.per_level.max() * (1 - CLOSE)
            self._exact = min(self._exactly(r) for r in np.flatnonzero(close).tolist())
        return self._exact

    def _exactly(self, r: int) -> Fraction:
        """Sum in a tree: fractions grow, and large ones are to be added last."""
        pool = self.pool
        terms = [
            Fraction(int(pool.demand[n, r]) * int(pool.denominator[n]), int(pool.numerator[n]))
            for n in range(len(pool.step))
        ]
        while len(terms) > 1:
            terms = [sum(terms[k : k + 2], Fraction(0)) for k in range(0, len(terms), 2)]
        return int(pool.capacity[r]) / terms[0]

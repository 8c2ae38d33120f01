"""Certify whole tasks of DRF by turns, or of PDRF, exactly and only from the final counts.

A user's t-th task has its turn at the level of t - 1 tasks, independent of other users. So the
final counts show which tasks had been served at any turn: the tasks with earlier turns.
Serving by turns gives these counts if and only if

- they are possible: whole numbers within the limits that fit into the pool, and
- for each user with tasks left, the next task did not fit *at its turn* (with all tasks of earlier
  turns served), so that the user had to leave.

Proof, by induction over the turns in order: let the counts agree with serving by turns so far. If
the next turn belongs to a task within the counts, it fits, because it and all that is served
earlier are among the tasks that fit in the end; so serving by turns serves it. If it belongs to a
task beyond the counts, it does not fit by the second condition; so its user leaves, as the counts
show. In Algorithm 1, which ends at the first task that does not fit, the condition is that the
first task beyond the counts does not fit and no task within the counts has a later turn.

PDRF's formula gives the tasks that fit below the level ``L = min_r C[r] / sum_n d[n,r] / ds[n]``
that divisible tasks reach when all rise together. There ds[n] is the dominant share of one task
over the user's weight. So ``x[n] ds[n] <= L < (x[n] + 1) ds[n]``, or x[n] is all tasks of the user,
if these are fewer. L is computed as a fraction where floats cannot decide. The top-up adds at most
one task to each user, in the order of turns, if it fits after the tasks of earlier users. The
certificate repeats the top-up and compares.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import numpy as np

from fairlead.certificates._turn_faults import measure_turn_faults
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import WholeArray, WholePool, to_whole_pool
from fairlead.solvers.level_bisection import users_in_turn

SERVED_BY_TURNS = (
    "whole tasks that fit, and every user with tasks left stopped at one that did not fit when "
    "its turn came (DRF by turns; a user whose task does not fit leaves)"
)
STOPPED_AT_THE_FIRST_MISFIT = (
    "whole tasks that fit, all of them earlier in turn than the first one left, which does not "
    "fit (DRF, Algorithm 1)"
)
PRECOMPUTED = "whole tasks that fit, as many as PDRF's formula gives"
TOPPED_UP = (
    "whole tasks that fit: as many as PDRF's formula gives, and one more for each user with "
    "room for it, from the least served upward"
)
# Floats within this relative distance are compared exactly.
CLOSE = 1e-11


def certify_turns(problem: Problem, tasks: FloatArray, *, stops: bool) -> Certificate:
    """Certify that each whole task went to the user with the lowest dominant share over weight.

    Parameters
    ----------
    problem : Problem
        Pooled or not.
    tasks : (N, 1) float
        Tasks of each user in the pool.
    stops : bool
        Whether the first task that did not fit ended the division (DRF's Algorithm 1); if not, only
        the user of that task left.

    Returns
    -------
    Certificate
        Its violation is 0 or the largest of:

        - the part of a count that is fractional, negative or beyond the limit, relative to it,
        - the relative overuse of a resource,
        - the tasks that users were denied though they fit, or got out of turn, as a fraction.

    Notes
    -----
    O(N (log N + R)), and O(N R) more for each turn at which users left.
    """
    pool = to_whole_pool(problem)
    impossible, overuse, whole, left = _measure_feasibility(pool, tasks)
    fault = 0.0
    if impossible == overuse == 0.0:
        users = users_in_turn(pool, np.arange(len(whole)), whole)
        fault = measure_turn_faults(users, left.tolist(), pool.capacity.tolist(), stops)
    condition = STOPPED_AT_THE_FIRST_MISFIT if stops else SERVED_BY_TURNS
    return _certificate(condition, impossible=impossible, overuse=overuse, out_of_turn=fault)


def certify_precomputed(problem: Problem, tasks: FloatArray, *, topped_up: bool) -> Certificate:
    """Certify that whole tasks (N, 1) are the result of PDRF, with the top-up or without.

    The violation is that of `certify_turns`, except that the third number is the fraction of its
    tasks by which a user has too many or too few. O(N (log N + R)), and rational arithmetic on N
    numbers if users tie.
    """
    pool = to_whole_pool(problem)
    impossible, overuse, whole, _ = _measure_feasibility(pool, tasks)
    error = _measure_error(pool, whole, topped_up) if impossible == 0.0 else 0.0
    condition = TOPPED_UP if topped_up else PRECOMPUTED
    return _certificate(condition, impossible=impossible, overuse=overuse, error=error)


def _certificate(condition: str, **faults: float) -> Certificate:
    return Certificate(condition, max(faults.values()), 0.0, dict(faults))


def _measure_feasibility(
    pool: WholePool, tasks: FloatArray
) -> tuple[float, float, WholeArray, WholeArray]:
    """Return the violation of the counts, the overuse, the counts (N,), and the free quanta (R,).

    Counts far beyond the capacity get an infinite violation, because exact arithmetic is slow.
    """
    counts = tasks[:, 0]
    none = np.zeros(len(counts), dtype=pool.demand.dtype)
    if not np.isfinite(counts).all() or (counts @ pool.share > 1.0 + 1e-6).any():
        return np.inf, 0.0, none, pool.capacity
    wrong = np.abs(counts - np.rint(counts))
    wrong = np.maximum(wrong, np.maximum(counts - pool.limit, -counts))
    impossible = float((wrong / np.maximum(np.abs(counts), 1.0)).max())
    if impossible > 0.0:
        return impossible, 0.0, none, pool.capacity
    whole = counts.astype(np.int64).astype(pool.demand.dtype)
    left = pool.capacity - whole @ pool.demand
    over = [float(-left[r] / pool.capacity[r]) for r in np.flatnonzero(left < 0)]
    return 0.0, max(over, default=0.0), whole, left


def _measure_error(pool: WholePool, whole: WholeArray, topped_up: bool) -> float:
    """Return the largest excess or lack of a user's tasks, as a fraction of them."""
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
    """Add one task for each user if it fits, in the order of turns; return all tasks (N,)."""
    users = users_in_turn(pool, np.flatnonzero(base < pool.limit), base)
    room = pool.capacity - base @ pool.demand
    given = base.copy()
    for n in [user.number for user in sorted(users)]:
        if (pool.demand[n] <= room).all():
            given[n] += 1
            room -= pool.demand[n]
    return given


class _Level:
    """The level of PDRF's formula, rounded and as a fraction."""

    def __init__(self, pool: WholePool) -> None:
        self.pool = pool
        self.per_level = (pool.share / pool.step[:, None]).sum(axis=0)
        self.rounded = 1.0 / float(self.per_level.max())

    def is_exceeded_by(self, counts: WholeArray) -> BoolArray:
        """Return (N,) bool: users whose dominant share with `counts` tasks is above the level."""
        share = (counts * self.pool.step).astype(np.float64)
        exceeded: BoolArray = share > self.rounded
        for n in np.flatnonzero(np.abs(share - self.rounded) <= CLOSE * self.rounded):
            exact_share = Fraction(int(self.pool.numerator[n]), int(self.pool.denominator[n]))
            exceeded[n] = int(counts[n]) * exact_share > self.exact
        return exceeded

    @cached_property
    def exact(self) -> Fraction:
        """The level as a fraction."""
        close = self.per_level >= self.per_level.max() * (1 - CLOSE)
        return min(self._exactly(r) for r in np.flatnonzero(close).tolist())

    def _exactly(self, r: int) -> Fraction:
        """Return the level that uses up a resource; add fractions pairwise, large ones last."""
        pool = self.pool
        terms = [
            Fraction(int(pool.demand[n, r]) * int(pool.denominator[n]), int(pool.numerator[n]))
            for n in range(len(pool.step))
        ]
        while len(terms) > 1:
            terms = [sum(terms[k : k + 2], Fraction(0)) for k in range(0, len(terms), 2)]
        return int(pool.capacity[r]) / terms[0]

"""Raise levels after the budget has grown: by water-filling, halving, or linear programmes.

Halving is Algorithm 1 of Li, Liu, Zhang and Zhang 2019, with another first test. Line 6 as printed
tests whether the levels of the previous step, with 0 for the new participant, fit into the budget.
They always do, because they fitted into a smaller budget. So the algorithm would raise all as if
from 0, and overuse the budget. The right test is whether the budget suffices to raise all
participants to the level of the first one, which is the highest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import BoolArray, FloatArray

# (use (P, R), levels before (P,), budget) -> levels after (P,)
RaiseLevels = Callable[[FloatArray, FloatArray, float], FloatArray]

# A resource is used up if at most this fraction of the budget is left.
ROUNDING = 1e-14  # in water-filling
LP_ROUNDING = 3e-10  # in linear programmes
# Newton's method ends with a step that is no larger than this, relative to the level.
LAST_STEP = 1e-15


def raise_by_water(use: FloatArray, level: FloatArray, budget: float) -> FloatArray:
    """Raise the lowest participants together until every participant demands a used-up resource.

    Parameters
    ----------
    use : (P, R) float
        Use of each resource per unit of a participant's level; may be 0.
    level : (P,) float
        Levels before.
    budget : float
        Amount that may be used of each resource.

    Returns
    -------
    (P,) float
        Levels after.

    Notes
    -----
    The water-filling of Kash, Procaccia and Shah 2014, from event to event instead of by small
    amounts. At an event, the rising participants reach a higher one, or use up a resource; then the
    participants that demand it stop. O(P R) for each of at most P + R events.
    """
    level = level.copy()
    can_rise = np.ones(len(level), dtype=bool)
    used = level @ use
    while can_rise.any():
        lowest = level[can_rise].min()
        front = can_rise & (level == lowest)
        higher = level[can_rise & ~front].min(initial=np.inf)
        rate = use[front].sum(axis=0)
        taken = rate > 0
        room = np.maximum(budget - used, 0.0)
        limit = (room[taken] / rate[taken]).min()
        if lowest + limit > higher:
            used += rate * (higher - lowest)
            level[front] = higher
            continue
        level[front] = lowest + limit
        used += rate * limit
        used_up = taken & (used >= budget * (1.0 - ROUNDING))
        can_rise &= ~(use[:, used_up] > 0).any(axis=1)
    return level


def raise_by_halving(use: FloatArray, level: FloatArray, budget: float) -> FloatArray:
    """Find by bisection the first participant to rise; raise it and all later ones to one level.

    Returns the levels after. The arguments are those of `raise_by_water`, with positive `use` and
    non-increasing `level`. O(P R): each bisection sums up the half that it decides. The paper
    subtracts from sums; here sums only grow, because the difference of two large sums may be a
    rounding error.
    """
    kept, rising = np.zeros(use.shape[1]), use.sum(axis=0)  # alpha and beta of the paper
    if (kept + rising * level[0] > budget).any():
        # The budget does not suffice to raise all from `low` on to its level; from `high`, it does.
        low, high = 0, len(level) - 1
        # Use by all up to `low`, and use per unit of level by all from `high` on.
        kept, rising = level[:1] * use[0], use[high]
        while high - low > 1:
            middle = (low + high + 1) // 2
            before = kept + level[low + 1 : middle] @ use[low + 1 : middle]
            beyond = rising + use[middle:high].sum(axis=0)
            if (before + beyond * level[middle] <= budget).all():
                high, rising = middle, beyond
            else:
                low, kept = middle, before + level[middle] * use[middle]
    common = ((budget - kept) / rising).min()
    raised: FloatArray = np.maximum(level, common)
    return raised


def raise_by_lp(use: FloatArray, level: FloatArray, budget: float) -> FloatArray:
    """Maximise the least level; fix participants that cannot rise, and repeat for the others.

    Returns the levels after. The arguments are those of `raise_by_water`. At most R linear
    programmes (1) of Li et al., of P + 1 variables each. Of the optimal levels the lowest are taken
    (Lemma 1). Raises NoConvergenceError when HiGHS finds no optimum.
    """
    level = level.copy()
    can_rise = np.ones(len(level), dtype=bool)
    while can_rise.any():
        least = _largest_least_level(use, level, budget, can_rise)
        level[can_rise] = np.maximum(level[can_rise], least)
        left = budget - level @ use
        used_up = left <= LP_ROUNDING * budget
        stopped = can_rise & (use[:, used_up] > 0).any(axis=1)
        if not stopped.any():
            raise NoConvergenceError(
                "dynamic: the linear programme used up no resource; at least "
                f"{left.min() / budget:.3g} of each is left"
            )
        can_rise &= ~stopped
    return level


def _largest_least_level(
    use: FloatArray, level: FloatArray, budget: float, can_rise: BoolArray
) -> float:
    """Return M of linear programme (1), the largest least level of participants that can rise.

    It is solved in units in which M is about 1.
    """
    from scipy.optimize import linprog  # noqa: PLC0415 (slow to load)

    from fairlead.solvers.linear_programmes import TIGHTEST  # noqa: PLC0415 (loads scipy)

    rising = np.flatnonzero(can_rise)
    n = len(rising)
    fixed = level[~can_rise] @ use[~can_rise]
    scale = float(use.sum(axis=0).max()) / budget
    least_first = np.column_stack([np.ones(n), -np.eye(n)])
    within = np.column_stack([np.zeros(use.shape[1]), use[rising].T]) / (scale * budget)
    answer = linprog(
        c=np.concatenate([[-1.0], np.zeros(n)]),
        A_ub=np.vstack([least_first, within]),
        b_ub=np.concatenate([np.zeros(n), np.maximum(budget - fixed, 0.0) / budget]),
        bounds=[(0.0, None), *((float(held), None) for held in level[rising] * scale)],
        method="highs",
        options=TIGHTEST,
    )
    if answer.status != 0:
        raise NoConvergenceError(f"dynamic: the linear programme ended with: {answer.message}")
    return _correct_level(use[rising], level[rising], budget - fixed, float(answer.x[0]) / scale)


def _correct_level(use: FloatArray, level: FloatArray, left: FloatArray, least: float) -> float:
    """Correct M by Newton's method, so that the first resource is just used up.

    HiGHS ignores coefficients of 1e-9 and less, so its M may be too large.
    """
    for _ in range(len(level)):
        at_least = level <= least
        slope = use[at_least].sum(axis=0)
        asked = slope > 0
        if not asked.any():
            break
        over = np.maximum(level, least) @ use - left
        step = float((over[asked] / slope[asked]).max())
        least -= step
        if abs(step) <= LAST_STEP * least:
            break
    return least

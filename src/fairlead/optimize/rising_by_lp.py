"""One step of raising levels by linear programmes: slow, and close to the definition."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import BoolArray, FloatArray

# Tighter than HiGHS's own 1e-7: it goes no lower.
TIGHTEST = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# A resource of which less than this part of the budget is left is used up.
LEFT_OVER = 3e-10
# Newton's steps end when one changes a level by no more than this, relative.
ROUNDING = 1e-15


def raise_by_lp(use: FloatArray, level: FloatArray, budget: float) -> FloatArray:
    """Maximise the least level; then, with those who cannot rise held fixed, that of the others.

    Parameters
    ----------
    use : (P, R) float
        What each takes of each resource per unit of level; zeros are admitted.
    level : (P,) float
        Levels before.
    budget : float
        What there is of each resource.

    Returns
    -------
    (P,) float
        Levels after.

    Raises
    ------
    NoConvergenceError
        When HiGHS finds no optimum.

    Notes
    -----
    Li, Liu, Zhang and Zhang 2019, linear programme (1). At most R programmes of P + 1 variables;
    one where all demands are positive. Of the optimal levels the least are taken (Lemma 1).
    """
    level = level.copy()
    can_rise = np.ones(len(level), dtype=bool)
    while can_rise.any():
        least = _largest_least_level(use, level, budget, can_rise)
        level[can_rise] = np.maximum(level[can_rise], least)
        left = budget - level @ use
        gone = left <= LEFT_OVER * budget
        stopped = can_rise & (use[:, gone] > 0).any(axis=1)
        if not stopped.any():
            raise NoConvergenceError(
                f"dynamic: the linear programme left {left.min() / budget:.3g} of every resource"
            )
        can_rise &= ~stopped
    return level


def _largest_least_level(
    use: FloatArray, level: FloatArray, budget: float, can_rise: BoolArray
) -> float:
    """Return M of LP (1), solved in units in which the largest possible level is about 1."""
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
    return _met_exactly(use[rising], level[rising], budget - fixed, float(answer.x[0]) / scale)


def _met_exactly(use: FloatArray, level: FloatArray, left: FloatArray, least: float) -> float:
    """Take M to where the first resource is used up, but for rounding, by a few of Newton's steps.

    HiGHS passes over coefficients of 1e-9 and less.
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
        if abs(step) <= ROUNDING * least:
            break
    return least

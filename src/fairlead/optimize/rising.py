"""One step of raising levels under a budget, plainly: what the staircase is held against.

A rule of this module's kind takes what each of P participants uses per unit of level, (P, R), the
level that each has, (P,), the newcomer last and at 0, and the budget of every resource, and returns
the levels after the step, (P,). It changes nothing in place and remembers nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairlead.model.cluster import FloatArray

RaiseLevels = Callable[[FloatArray, FloatArray, float], FloatArray]

# A resource of which this much of the budget is left after it was used up is used up.
ROUNDING = 1e-14


def raise_by_water(use: FloatArray, level: FloatArray, budget: float) -> FloatArray:
    """Raise the lowest together, from one meeting with somebody higher to the next.

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
        Levels after, when everybody demands a resource that is used up.

    Notes
    -----
    The water-filling of Kash, Procaccia and Shah 2014, by events instead of by small amounts, and
    going on with those who demand nothing that is used up: O(P R) for each of at most P + R events.
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
        gone = taken & (used >= budget * (1.0 - ROUNDING))
        can_rise &= ~(use[:, gone] > 0).any(axis=1)
    return level

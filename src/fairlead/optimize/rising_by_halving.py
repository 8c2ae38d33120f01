"""One step of raising levels by halving the interval in which the rise ends: O(P).

Li, Liu, Zhang and Zhang 2019, Algorithm 1, with another first test. The one printed in line 6 asks
whether the levels of the step before, the newcomer's being 0, fit into the budget. They always do,
since they fitted into a smaller one, and the algorithm would then raise everybody as if they had
nothing, and overfill. What has to be asked is whether the budget suffices to raise everybody to the
first and highest level.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray


def raise_by_halving(use: FloatArray, level: FloatArray, budget: float) -> FloatArray:
    """Find by halving who is the first to rise, and raise all from there on to one level.

    Parameters
    ----------
    use : (P, R) float
        What each takes of each resource per unit of level; positive.
    level : (P,) float
        Levels before, non-increasing.
    budget : float
        What there is of each resource.

    Returns
    -------
    (P,) float
        Levels after.

    Notes
    -----
    O(P R): each halving adds up the half that it decides about. The paper keeps sums that it takes
    parts away from again; here they only grow, since what is left of a sum when its large parts are
    taken away may be nothing but rounding.
    """
    kept, rising = np.zeros(use.shape[1]), use.sum(axis=0)  # alpha and beta of the paper
    if (kept + rising * level[0] > budget).any():
        low, high = 0, len(level) - 1  # raising all from `low` on to its level is too much
        kept, rising = level[:1] * use[0], use[high]  # of all up to `low`; of all from `high` on
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

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
    O(P R): each halving adds up the half that it decides about.
    """
    kept, rising = np.zeros(use.shape[1]), use.sum(axis=0)  # alpha and beta of the paper
    if (kept + rising * level[0] > budget).any():
        low, high = 0, len(level) - 1  # raising all from `low` on to its level is too much
        middle = (low + high + 1) // 2
        kept = level[:middle] @ use[:middle]
        rising = use[middle:].sum(axis=0)
        while high - low > 1:
            before = middle
            if (kept + rising * level[middle] <= budget).all():
                high = middle
                middle = (low + high + 1) // 2
                between = slice(middle, before)
                kept = kept - level[between] @ use[between]
                rising = rising + use[between].sum(axis=0)
            else:
                low = middle
                middle = (low + high + 1) // 2
                between = slice(before, middle)
                kept = kept + level[between] @ use[between]
                rising = rising - use[between].sum(axis=0)
    common = ((budget - kept) / rising).min()
    raised: FloatArray = np.maximum(level, common)
    return raised

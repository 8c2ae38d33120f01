"""Scores with a task at hand: shares of a server, or of what is free.

A queue's share is the most that it holds of any resource that the task takes, over amounts:

==================  ==================================================
ps-dsf/joint        what a server has
ps-dsf/joint, res.  what a server has free
drf, residual       what all servers have free together
tsf, residual       what the task takes, times how many of it would fit
==================  ==================================================

by weight (Kesidis et al., IV and VI).
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import add, compare, divide, of_whole
from fairlead.scheduler.records import Core


@separate_kernel
def share_of(core: Core, amounts: IntArray, row: int, q: int, k: int) -> tuple[float, float]:
    """Return a queue's share of a row of amounts, of what a task of a shape takes, as a pair."""
    share, share_low = 0.0, 0.0
    for r in range(core.held.shape[1]):
        if core.demand[k, r] > 0 and core.held[q, r] > 0 and amounts[row, r] > 0:
            high, low = of_whole(core.held[q, r])
            over, over_low = of_whole(amounts[row, r])
            high, low = divide(high, low, over, over_low)
            if compare(high, low, share, share_low) > 0:
                share, share_low = high, low
    queue = core.queues[q]
    return divide(share, share_low, queue.weight, queue.weight_low)


@inner_kernel
def would_fit(core: Core, k: int, s: int) -> tuple[float, float]:
    """Return how many tasks, whole or not, a server's free amounts would take, as a pair."""
    least, least_low = np.inf, 0.0
    for r in range(core.free.shape[1]):
        if core.demand[k, r] > 0:
            high, low = of_whole(max(core.free[s, r], 0))
            over, over_low = of_whole(core.demand[k, r])
            high, low = divide(high, low, over, over_low)
            if compare(high, low, least, least_low) < 0:
                least, least_low = high, low
    return least, least_low


@separate_kernel
def would_fit_anywhere(core: Core, k: int) -> tuple[float, float]:
    """Return how many tasks, whole or not, all free amounts would take, as a pair. O(S R)."""
    total, total_low = 0.0, 0.0
    for position in range(core.numbers[0].servers):
        high, low = would_fit(core, k, core.sequence[position])
        total, total_low = add(total, total_low, high, low)
    return total, total_low

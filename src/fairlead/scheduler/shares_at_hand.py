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

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare, divide, of_whole
from fairlead.scheduler.records import Core

# Shares in plain floats that differ by more than this, relative, differ in truth.
ROUGH = 1e-14


@separate_kernel
def _share(
    demand: IntArray, held: IntArray, amounts: IntArray, k: int, q: int, row: int
) -> tuple[float, float]:
    """Return the share without the weight. Whole cores of arrays would take longer to hand over."""
    most, rough = 0, 0.0
    for r in range(held.shape[1]):
        if demand[k, r] > 0 and amounts[row, r] > 0:
            part = float(held[q, r]) / float(amounts[row, r])
            if part > rough:
                most, rough = r, part
    if rough == 0.0:
        return 0.0, 0.0
    high, low = of_whole(held[q, most])
    over, over_low = of_whole(amounts[row, most])
    share, share_low = divide(high, low, over, over_low)
    rough *= 1.0 - ROUGH
    for r in range(held.shape[1]):
        is_other = r != most and demand[k, r] > 0 and amounts[row, r] > 0
        if is_other and float(held[q, r]) >= rough * float(amounts[row, r]):
            high, low = of_whole(held[q, r])
            over, over_low = of_whole(amounts[row, r])
            high, low = divide(high, low, over, over_low)
            if compare(high, low, share, share_low) > 0:
                share, share_low = high, low
    return share, share_low


@inner_kernel
def share_of(core: Core, amounts: IntArray, row: int, q: int, k: int) -> tuple[float, float]:
    """Return a queue's share of a row of amounts, of what a task of a shape takes, as a pair."""
    share, share_low = _share(core.demand, core.held, amounts, k, q, row)
    queue = core.queues[q]
    return divide(share, share_low, queue.weight, queue.weight_low)


@inner_kernel
def holds_any(core: Core, q: int, k: int) -> bool:
    """Return whether a queue holds anything of what a task of a shape takes."""
    holds = False
    for r in range(core.held.shape[1]):
        holds |= core.demand[k, r] > 0 and core.held[q, r] > 0
    return bool(holds)

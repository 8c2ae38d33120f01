"""How well a server's free amounts match what a task takes; compiled.

Best-fit places a task on the server with the least

    H(n, i) = sum over r of | D[n,r] / D[n,q] - F[i,r] / F[i,q] |

with demands D and free amounts F as shares of the pool, and q the first resource that the user
demands (Wang, Liang and Li 2015, V-B, where q is resource 1).
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import Quanta
from fairlead.optimize.compiling import compiled, inner_kernel
from fairlead.optimize.double_double import SAME, add, divide, of_whole, times, to_pairs
from fairlead.scheduler.state import State


class Proportions(NamedTuple):
    """In which proportions tasks take resources; pairs where there is a `low`.

    Attributes
    ----------
    lead : (N,) int
        The first resource that each user demands, q.
    ratio, ratio_low : (N, R) float
        D[n,r] / D[n,q].
    scale, scale_low : (R, R) float
        ``scale[q, r]`` turns free quanta of r over free quanta of q into F[r] / F[q]; 0 where the
        pool has nothing of r.
    """

    lead: IntArray
    ratio: FloatArray
    ratio_low: FloatArray
    scale: FloatArray
    scale_low: FloatArray


def find_proportions(problem: Problem, quanta: Quanta) -> Proportions:
    """Return the proportions of every user's demand, as shares of the pool. Cost O(G R + N R)."""
    lead = (quanta.demand > 0).argmax(axis=1)
    scale, scale_low = _pool_scales(problem, quanta)
    ratio, ratio_low = _demand_ratios(quanta.demand, lead, scale, scale_low)
    return Proportions(lead, ratio, ratio_low, scale, scale_low)


def _pool_scales(problem: Problem, quanta: Quanta) -> tuple[FloatArray, FloatArray]:
    """Return (R, R) pool quanta of the row's resource over those of the column's; 0 for none."""
    total = quanta.total(problem.count)
    high, low = to_pairs([Fraction(q, r) if r else Fraction(0) for q in total for r in total])
    return high.reshape(len(total), -1), low.reshape(len(total), -1)


@compiled
def _demand_ratios(
    demand: IntArray, lead: IntArray, scale: FloatArray, scale_low: FloatArray
) -> tuple[FloatArray, FloatArray]:
    ratio, ratio_low = np.zeros(demand.shape), np.zeros(demand.shape)
    for n in range(demand.shape[0]):
        q = lead[n]
        over, over_low = of_whole(demand[n, q])
        for r in range(demand.shape[1]):
            high, low = of_whole(demand[n, r])
            high, low = divide(high, low, over, over_low)
            ratio[n, r], ratio_low[n, r] = times(high, low, scale[q, r], scale_low[q, r])
    return ratio, ratio_low


@inner_kernel
def rough_misfit(
    state: State, proportions: Proportions, user: int, server: int
) -> tuple[float, float]:
    """Return H in plain floats, and the sum of the ratios in it, to which its error relates."""
    q = proportions.lead[user]
    over = float(state.free[server, q])
    if over == 0.0:
        return np.inf, 0.0
    misfit = size = 0.0
    for r in range(state.free.shape[1]):
        if r != q:
            there = float(state.free[server, r]) / over * proportions.scale[q, r]
            misfit += abs(proportions.ratio[user, r] - there)
            size += proportions.ratio[user, r] + there
    return misfit, size


@inner_kernel
def _misfit(state: State, proportions: Proportions, user: int, server: int) -> tuple[float, float]:
    """Return H as a pair."""
    q = proportions.lead[user]
    over, over_low = of_whole(state.free[server, q])
    total, total_low = 0.0, 0.0
    for r in range(state.free.shape[1]):
        if r != q:
            high, low = of_whole(state.free[server, r])
            high, low = divide(high, low, over, over_low)
            high, low = times(high, low, proportions.scale[q, r], proportions.scale_low[q, r])
            high, low = add(high, low, -proportions.ratio[user, r], -proportions.ratio_low[user, r])
            if high < 0.0:
                high, low = -high, -low
            total, total_low = add(total, total_low, high, low)
    return total, total_low


@inner_kernel
def fits_better(
    state: State, proportions: Proportions, user: int, server: int, other: int, size: float
) -> bool:
    """Return whether a server has the lesser H of two that are close, or is the earlier of equals.

    `size` is the sum of the ratios, to which equality relates: H itself may be 0.
    """
    alike = True
    for r in range(state.free.shape[1]):
        alike &= state.free[server, r] == state.free[other, r]
    if not alike:
        a, a_low = _misfit(state, proportions, user, server)
        b, b_low = _misfit(state, proportions, user, other)
        difference = (a - b) + (a_low - b_low)
        if abs(difference) > SAME * size:
            return difference < 0.0
    return server < other

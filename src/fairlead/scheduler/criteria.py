"""Who is next: the scores of the papers, exactly enough to tell equal ones from unequal ones.

A user's score is its placed tasks times a score per task. Per task, of a user of weight phi:

========  ==========================================  =========================================
drf       max over r of d[n,r] / (phi C[r])           Wang, Liang and Li 2015 (DRFH)
tsf       1 / (phi gamma[n])                          Wang, Liang and Li 2016, as in Kesidis et al.
ps-dsf    max over r of d[n,r] / (phi c[i,r])         Khamse-Ashari et al. 2017, on server i
========  ==========================================  =========================================

where C sums the capacities of all servers and gamma[n] the tasks that each could run alone. Where
a user is chosen before a server, ps-dsf is the sum of its scores over the servers that the user
may run on (Kesidis et al., equation 12). Residual forms put free amounts for capacities (Kesidis
et al., VI).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import Quanta, exact
from fairlead.optimize.compiling import compiled
from fairlead.optimize.double_double import add, compare, divide, of_whole, times, to_pairs
from fairlead.scheduler.policy import Policy

# How a score depends on what is free.
FIXED = 0  # not at all
RESIDUAL_DRF = 1  # on the free amounts of all servers together
RESIDUAL_TSF = 2  # on the tasks that would still fit, over all servers
RESIDUAL_PS_DSF = 3  # on the free amounts of the server

# How an owner's score comes from what it holds, where scores are fixed.
SINGLE = 0  # from its tasks, which are all alike
HELD = 1  # from the amounts that it holds: drf
SUMMED = 2  # as the sum of the scores of its tasks: tsf, and ps-dsf where users come first

_RESIDUAL = {"drf": RESIDUAL_DRF, "tsf": RESIDUAL_TSF, "ps-dsf": RESIDUAL_PS_DSF}


@dataclass(frozen=True, eq=False)
class Scores:
    """Constants of a policy's scores; see `State` for their shapes."""

    scoring: int
    column: IntArray
    unit: FloatArray
    unit_low: FloatArray
    per_weight: FloatArray
    per_weight_low: FloatArray
    inverse_weight: FloatArray
    inverse_weight_low: FloatArray
    sharing: int
    share: FloatArray
    share_low: FloatArray


Pairs = tuple[FloatArray, FloatArray]


def weights_of(problem: Problem) -> Pairs:
    """Return the (N,) weights as pairs of floats. O(N), with rational numbers."""
    distinct, which = np.unique(problem.weight, return_inverse=True)
    weight, weight_low = to_pairs([exact(phi) for phi in distinct.tolist()])
    return weight[which], weight_low[which]


def prepare_scores(
    problem: Problem,
    quanta: Quanta,
    policy: Policy,
    owner: IntArray | None = None,
    *,
    count: IntArray | None = None,
    weights: Pairs | None = None,
) -> Scores:
    """Compute the constants of a policy's scores as pairs of floats.

    Parameters
    ----------
    problem : Problem
    quanta : Quanta
        Its amounts.
    policy : Policy
    owner : (N,) int, optional
        Whose tasks each row's are, of U owners; rows of one owner have one weight.
    count : (G,) int, optional
        Servers of each group that are there; all of the problem's when absent.
    weights : pair of (N,) float, optional
        What `weights_of` gives, where it is known.

    Notes
    -----
    O(N G R) for tsf and ps-dsf, O(N R) for drf, compiled; O(G R) rational operations.
    """
    weight, weight_low = weights_of(problem) if weights is None else weights
    count = problem.count.copy() if count is None else count
    column = np.zeros(problem.n_groups, dtype=np.int64)
    if policy.residual:
        unit = unit_low = np.zeros((problem.n_users, 1))
    elif policy.criterion == "drf":
        pool = [Fraction(total) for total in quanta.total(count)]
        total, total_low = to_pairs(pool)
        unit, unit_low = _drf_units(quanta.demand, total, total_low)
    elif policy.criterion == "tsf":
        unit, unit_low = _tsf_units(quanta.demand, quanta.capacity, count)
    else:
        unit, unit_low = _ps_dsf_units(quanta.demand, quanta.capacity)
        if policy.select in ("joint", "rrr"):
            column = np.arange(problem.n_groups)
        else:
            unit, unit_low = _sum_allowed(unit, unit_low, problem.users.eligible.copy(), count)
    unit, unit_low = _over_weight(unit, unit_low, weight, weight_low)
    demand, demand_low = _pairs_of_whole(quanta.demand)
    per_weight, per_weight_low = _over_weight(demand, demand_low, weight, weight_low)
    one = np.ones((problem.n_users, 1))
    inverse, inverse_low = _over_weight(one, np.zeros_like(one), weight, weight_low)
    return Scores(
        _RESIDUAL[policy.criterion] if policy.residual else FIXED,
        column,
        unit,
        unit_low,
        per_weight,
        per_weight_low,
        inverse[:, 0].copy(),
        inverse_low[:, 0].copy(),
        HELD if policy.criterion == "drf" else SUMMED,
        *_share_per_quantum(quanta, owner, count, weight, weight_low),
    )


def _share_per_quantum(
    quanta: Quanta,
    owner: IntArray | None,
    count: IntArray,
    weight: FloatArray,
    weight_low: FloatArray,
) -> Pairs:
    """Return (U, R) the share of the pool that one quantum is, by weight; none for single kinds."""
    if owner is None:
        return np.zeros((1, 1)), np.zeros((1, 1))
    _, first = np.unique(owner, return_index=True)
    parts = [Fraction(1, amount) if amount else Fraction(0) for amount in quanta.total(count)]
    high, low = to_pairs(parts)
    shape = (len(first), len(parts))
    return _over_weight(
        np.array(np.broadcast_to(high, shape), order="C"),
        np.array(np.broadcast_to(low, shape), order="C"),
        weight[first],
        weight_low[first],
    )


@compiled
def _pairs_of_whole(numbers: IntArray) -> tuple[FloatArray, FloatArray]:
    high, low = np.empty(numbers.shape), np.empty(numbers.shape)
    for n in range(numbers.shape[0]):
        for k in range(numbers.shape[1]):
            high[n, k], low[n, k] = of_whole(numbers[n, k])
    return high, low


@compiled
def _drf_units(
    demand: IntArray, total: FloatArray, total_low: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (N, 1) the share of the pool's dominant resource that one task takes."""
    unit, unit_low = np.zeros((demand.shape[0], 1)), np.zeros((demand.shape[0], 1))
    for n in range(demand.shape[0]):
        for r in range(demand.shape[1]):
            if demand[n, r] > 0:
                high, low = of_whole(demand[n, r])
                high, low = divide(high, low, total[r], total_low[r])
                if compare(high, low, unit[n, 0], unit_low[n, 0]) > 0:
                    unit[n, 0], unit_low[n, 0] = high, low
    return unit, unit_low


@compiled
def _dominant_share(demand: IntArray, capacity: IntArray) -> tuple[float, float]:
    """Return the largest share of a server that one task takes; 0 if it lacks a resource."""
    share, share_low = 0.0, 0.0
    for r in range(demand.size):
        if demand[r] > 0:
            if capacity[r] == 0:
                return 0.0, 0.0
            high, low = of_whole(demand[r])
            over, over_low = of_whole(capacity[r])
            high, low = divide(high, low, over, over_low)
            if compare(high, low, share, share_low) > 0:
                share, share_low = high, low
    return share, share_low


@compiled
def _ps_dsf_units(demand: IntArray, capacity: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return (N, G) the share of a server's dominant resource that one task takes."""
    shape = (demand.shape[0], capacity.shape[0])
    unit, unit_low = np.zeros(shape), np.zeros(shape)
    for n in range(shape[0]):
        for g in range(shape[1]):
            unit[n, g], unit_low[n, g] = _dominant_share(demand[n], capacity[g])
    return unit, unit_low


@compiled
def _tsf_units(
    demand: IntArray, capacity: IntArray, count: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return (N, 1) one over the tasks that each user could run alone, were it free to."""
    unit, unit_low = np.zeros((demand.shape[0], 1)), np.zeros((demand.shape[0], 1))
    for n in range(demand.shape[0]):
        alone, alone_low = 0.0, 0.0
        for g in range(capacity.shape[0]):
            share, share_low = _dominant_share(demand[n], capacity[g])
            if share > 0.0:
                tasks, tasks_low = divide(float(count[g]), 0.0, share, share_low)
                alone, alone_low = add(alone, alone_low, tasks, tasks_low)
        unit[n, 0], unit_low[n, 0] = divide(1.0, 0.0, alone, alone_low)
    return unit, unit_low


@compiled
def _sum_allowed(
    unit: FloatArray, unit_low: FloatArray, eligible: BoolArray, count: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return (N, 1) the sum of each user's scores over the servers that it may run on."""
    total, total_low = np.zeros((unit.shape[0], 1)), np.zeros((unit.shape[0], 1))
    for n in range(unit.shape[0]):
        for g in range(unit.shape[1]):
            if eligible[n, g]:
                high, low = times(float(count[g]), 0.0, unit[n, g], unit_low[n, g])
                total[n, 0], total_low[n, 0] = add(total[n, 0], total_low[n, 0], high, low)
    return total, total_low


@compiled
def _over_weight(
    values: FloatArray, values_low: FloatArray, weight: FloatArray, weight_low: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Divide each user's row by its weight."""
    high, low = np.empty(values.shape), np.empty(values.shape)
    for n in range(values.shape[0]):
        for k in range(values.shape[1]):
            high[n, k], low[n, k] = divide(values[n, k], values_low[n, k], weight[n], weight_low[n])
    return high, low

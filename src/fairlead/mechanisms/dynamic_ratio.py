"""How much worse off those are who arrive one by one than if all had been known.

Li, Liu, Zhang and Zhang 2019, section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.solvers.rising import raise_by_water


@dataclass(frozen=True, eq=False)
class Ratios:
    """Dynamic DRF over DRF that knew who would come, after each of N steps."""

    max_min: FloatArray  # (N,): the least levels; at most 1
    max_sum: FloatArray  # (N,): the sums of dominant shares; may exceed 1
    # (N,): what `max_min` is at least where all weights are equal: ceil(k / R) / k.
    bound: FloatArray


def full_knowledge_levels(
    demand: FloatArray, weight: FloatArray, total_weight: float
) -> FloatArray:
    """Return (N,) the least level that DRF gives to the first k, of the part that is theirs.

    `demand` is (N, R), per unit of dominant share. All rise together from 0, so the first resource
    to be used up settles the least level, zero demands or not. O(N R).
    """
    budget = np.minimum(1.0, np.cumsum(weight) / total_weight)
    per_level = np.cumsum(weight[:, None] * demand, axis=0).max(axis=1)
    levels: FloatArray = budget / per_level
    return levels


def competitive_ratios(
    demand: FloatArray,
    weight: FloatArray,
    total_weight: float,
    shares_at: Callable[[int], FloatArray],
) -> Ratios:
    """Hold shares against those of DRF with full knowledge, step by step.

    Parameters
    ----------
    demand, weight, total_weight
        (N, R) per unit of dominant share, (N,), and the weight of all that were announced.
    shares_at : callable
        The dominant shares, (k,), after step k.

    Notes
    -----
    With zero demands DRF is the lexicographic one. O(N^2 R).
    """
    n_steps, n_resources = demand.shape
    least = full_knowledge_levels(demand, weight, total_weight)
    budget = np.minimum(1.0, np.cumsum(weight) / total_weight)
    max_min, max_sum = np.empty(n_steps), np.empty(n_steps)
    for k in range(1, n_steps + 1):
        shares = shares_at(k)
        use = weight[:k, None] * demand[:k]
        known = weight[:k] * raise_by_water(use, np.zeros(k), float(budget[k - 1]))
        max_min[k - 1] = (shares / weight[:k]).min() / least[k - 1]
        max_sum[k - 1] = shares.sum() / known.sum()
    steps = np.arange(1, n_steps + 1)
    return Ratios(max_min, max_sum, np.ceil(steps / n_resources) / steps)


def worst_case_max_min(resources: int, small: float, rounds: int | None = None) -> FloatArray:
    """Return (R^2 + 1, R) the demands by which the last agent gets (R + 1) / (R^2 + 1) of its due.

    Agents take turns in wanting one resource each, and `small`, near 0, of the others: the ratio is
    off by a few times R small. After R^2 of them all is given out that may be, and the last one
    gets its own 1 / (R^2 + 1) where DRF gives 1 / (R + 1). With q rounds in the place of R there
    are q R + 1 agents, and the ratio is (q + 1) / (q R + 1): 1 / R in the limit.
    """
    n_agents = (resources if rounds is None else rounds) * resources + 1
    demand = np.full((n_agents, resources), small)
    demand[np.arange(n_agents), np.arange(n_agents) % resources] = 1.0
    return demand


def worst_case_max_sum(resources: int, small: float) -> FloatArray:
    """Return (R + 1, R) the demands by which shares sum up to more than under DRF.

    One agent for each resource, and a last one that wants all: the first hold R / (R + 1) each and
    the last gets 1 / (R + 1), where DRF gives 1/2 to all: 2 (R^2 + 1) / (R + 1)^2 times as much.
    """
    one_each = np.where(np.eye(resources, dtype=bool), 1.0, small)
    return np.vstack([one_each, np.ones((1, resources))])

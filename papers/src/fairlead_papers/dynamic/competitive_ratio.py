"""Competitive ratios of dynamic DRF against DRF with full knowledge of all arrivals.

Li, Liu, Zhang and Zhang 2019, section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairlead.mechanisms.dynamic_run import full_knowledge_levels
from fairlead.model.cluster import FloatArray
from fairlead.solvers.level_raising import raise_by_water


@dataclass(frozen=True, eq=False)
class Ratios:
    """Dynamic DRF over DRF with full knowledge of the N arrivals."""

    max_min: FloatArray  # (N,): the least levels; at most 1
    max_sum: FloatArray  # (N,): the sums of dominant shares; may exceed 1
    bound: FloatArray  # (N,): least `max_min` with equal weights, ceil(k / R) / k


def competitive_ratios(
    demand: FloatArray,
    weight: FloatArray,
    total_weight: float,
    shares_at: Callable[[int], FloatArray],
) -> Ratios:
    """Compare shares of dynamic DRF with those of DRF with full knowledge, step by step.

    Parameters
    ----------
    demand : (N, R) float
        Demand per unit of dominant share.
    weight : (N,) float
    total_weight : float
        Weight of all agents that were announced.
    shares_at : callable
        The dominant shares, (k,), after step k.

    Returns
    -------
    Ratios

    Notes
    -----
    Li, Liu, Zhang and Zhang 2019, section 4. With zero demands DRF is the lexicographic one.
    O(N^2 R).
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
    """Return demands (R^2 + 1, R) that give the last agent (R + 1) / (R^2 + 1) of its DRF share.

    Agents in turn demand one resource at 1, and `small`, near 0, of the others: the ratio is off by
    a few times R small. After R^2 of them the budget is used up, and the last agent gets 1 / (R^2 +
    1) where DRF gives 1 / (R + 1). With q `rounds` in the place of R there are q R + 1 agents, and
    the ratio is (q + 1) / (q R + 1): 1 / R in the limit.
    """
    n_agents = (resources if rounds is None else rounds) * resources + 1
    demand = np.full((n_agents, resources), small)
    demand[np.arange(n_agents), np.arange(n_agents) % resources] = 1.0
    return demand


def worst_case_max_sum(resources: int, small: float) -> FloatArray:
    """Return demands (R + 1, R) by which shares add up to more than under DRF.

    One agent for each resource, and a last one that demands all. The first hold R / (R + 1) each
    and the last 1 / (R + 1), where DRF gives 1/2 to all: 2 (R^2 + 1) / (R + 1)^2 times as much.
    """
    one_each = np.where(np.eye(resources, dtype=bool), 1.0, small)
    return np.vstack([one_each, np.ones((1, resources))])

"""Competitive ratios of dynamic DRF against DRF with full knowledge of all arrivals.

Li, Liu, Zhang and Zhang 2019, section 4.
"""

from __future__ import annotations

import numpy as np

from fairlead.mechanisms.dynamic_run import full_knowledge_levels
from fairlead.model.cluster import FloatArray
from fairlead_papers.dynamic._agent_sequences import divide


def competitive_ratios(demand: FloatArray) -> FloatArray:
    """Return (N,) the least share over that of DRF with full knowledge, after each arrival.

    `demand` (N, R) is per unit of dominant share, in order of arrival. All weights are equal. With
    zero demands DRF is the lexicographic one. O(N R).
    """
    _, least = divide(demand)
    n = len(demand)
    ratios: FloatArray = least / full_knowledge_levels(demand, np.ones(n), float(n))
    return ratios


def bound_of_ratios(agents: int, resources: int) -> FloatArray:
    """Return (N,) what these ratios are at least after each of N arrivals: ``ceil(k / R) / k``."""
    steps = np.arange(1, agents + 1)
    return np.ceil(steps / resources) / steps


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

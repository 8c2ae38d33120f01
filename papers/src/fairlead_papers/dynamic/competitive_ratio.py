"""Compute competitive ratios of dynamic DRF to DRF with full knowledge of all arrivals.

Li, Liu, Zhang and Zhang 2019, section 4.
"""

from __future__ import annotations

import numpy as np

from fairlead.mechanisms.dynamic_drf import DynamicDRF
from fairlead.mechanisms.dynamic_run import full_knowledge_levels
from fairlead.model.cluster import FloatArray

# Fraction of sequences whose demands are small whole numbers, so that they tie.
TIES = 0.3
SMALLEST = 1e-3


def draw_demands(
    random: np.random.Generator, largest: int, resources: int | None = None
) -> FloatArray:
    """Draw (N, R) positive demands of 2 to `largest` agents, the largest of each row being 1.

    Without `resources` there are 2 to 4. Some sequences have similar agents, some very different.
    """
    agents = int(random.integers(2, largest + 1))
    n_resources = int(random.integers(2, 5)) if resources is None else resources
    demand = random.uniform(SMALLEST, 1.0, (agents, n_resources)) ** random.integers(1, 5)
    if random.random() < TIES:
        demand = random.integers(1, 4, (agents, n_resources)).astype(np.float64)
    normalised: FloatArray = demand / demand.max(axis=1, keepdims=True)
    return normalised


def divide(demand: FloatArray, solver: str = "stack") -> tuple[DynamicDRF, FloatArray]:
    """Return the agents of a sequence after the last step, and the least share after each, (N,)."""
    agents = DynamicDRF(*demand.shape, solver=solver)
    return agents, agents.arrive_all(demand)


def competitive_ratios(demand: FloatArray) -> FloatArray:
    """Return the least share over that of DRF with full knowledge, after each arrival, (N,).

    `demand` (N, R) is per unit of dominant share, in order of arrival. Weights are equal. With zero
    demands DRF is the lexicographic one. O(N R).
    """
    _, least = divide(demand)
    n = len(demand)
    ratios: FloatArray = least / full_knowledge_levels(demand, np.ones(n), float(n))
    return ratios


def bound_of_ratios(agents: int, resources: int) -> FloatArray:
    """Return lower bounds of these ratios after k = 1 to N arrivals, ``ceil(k / R) / k``, (N,)."""
    steps = np.arange(1, agents + 1)
    return np.ceil(steps / resources) / steps


def worst_case_max_min(resources: int, small: float, rounds: int | None = None) -> FloatArray:
    """Return demands, (R^2 + 1, R), with the ratio (R + 1) / (R^2 + 1) after the last agent.

    Agent k demands 1 of resource k mod R, and `small`, near 0, of the others; the ratio is off by a
    few times R small. The last agent gets 1 / (R^2 + 1), where DRF gives 1 / (R + 1). With q
    `rounds` instead of R there are q R + 1 agents, and the ratio is (q + 1) / (q R + 1), which goes
    to 1 / R.
    """
    n_agents = (resources if rounds is None else rounds) * resources + 1
    demand = np.full((n_agents, resources), small)
    demand[np.arange(n_agents), np.arange(n_agents) % resources] = 1.0
    return demand


def worst_case_max_sum(resources: int, small: float) -> FloatArray:
    """Return demands, (R + 1, R), for which dynamic DRF gives a larger sum of shares than DRF.

    There is one agent for each resource, and a last one that demands all. Under dynamic DRF the
    first get R / (R + 1) each and the last 1 / (R + 1), where DRF gives all 1/2: the ratio of the
    sums is 2 (R^2 + 1) / (R + 1)^2.
    """
    one_each = np.where(np.eye(resources, dtype=bool), 1.0, small)
    return np.vstack([one_each, np.ones((1, resources))])

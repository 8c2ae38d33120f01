"""Draw random sequences of agents with positive demands, and divide by dynamic DRF."""

from __future__ import annotations

import numpy as np

from fairlead.mechanisms.dynamic_drf import DynamicDRF
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

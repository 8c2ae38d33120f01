"""Random sequences of arrivals: from a seeded generator, and drawn by Hypothesis."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairlead.mechanisms.dynamic_drf import DynamicDRF
from fairlead.properties.dynamic import DynamicShares


class Sequence(NamedTuple):
    """Demands (N, R), the largest of each row being 1, and weights (N,)."""

    demand: NDArray[np.float64]
    weight: NDArray[np.float64]

    def run(self, solver: str = "stack") -> DynamicDRF:
        agents = DynamicDRF(
            len(self.demand),
            self.demand.shape[1],
            total_weight=float(self.weight.sum()),
            solver=solver,
        )
        agents.arrive_all(self.demand, self.weight)
        return agents


def history_of(demand: NDArray[np.float64], shares: NDArray[np.float64]) -> DynamicShares:
    """Return the history of shares (N, N) of equal weights; row k - 1 holds those after step k."""
    n = len(demand)
    return DynamicShares(demand, np.ones(n), float(n), lambda step: shares[step - 1, :step])


def random_sequence(
    rng: np.random.Generator, zeros: float, largest: int = 12, weighted: bool | None = None
) -> Sequence:
    n, m = int(rng.integers(1, largest + 1)), int(rng.integers(1, 5))
    demand = rng.uniform(0.001, 1, (n, m)) ** rng.integers(1, 5)
    if rng.random() < 0.3:  # many ties
        demand = rng.integers(1, 4, (n, m)).astype(float)
    demand[rng.random((n, m)) < zeros] = 0.0
    demand[~(demand > 0).any(axis=1), 0] = 1.0
    weighted = rng.random() < 0.5 if weighted is None else weighted
    weight = rng.choice([0.5, 1.0, 2.0, 3.7], n) if weighted else np.ones(n)
    return Sequence(demand / demand.max(axis=1, keepdims=True), weight)


@st.composite
def sequences(
    draw: st.DrawFn, zeros: bool = True, weighted: bool = True, largest: int = 9
) -> Sequence:
    m = draw(st.integers(1, 4))
    n = draw(st.integers(1, largest))
    positive = st.one_of(
        st.integers(1, 4).map(float), st.integers(1, 9_973).map(lambda k: k / 9_973)
    )
    cell = st.one_of(positive, positive, st.just(0.0)) if zeros else positive
    row = st.lists(cell, min_size=m, max_size=m).filter(any)
    demand = np.array([draw(row) for _ in range(n)])
    weights = st.sampled_from([0.5, 1.0, 1.0, 3.0]) if weighted else st.just(1.0)
    weight = np.array([draw(weights) for _ in range(n)])
    return Sequence(demand / demand.max(axis=1, keepdims=True), weight)

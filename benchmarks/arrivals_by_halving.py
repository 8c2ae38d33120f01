"""Algorithm 1 of Li et al. 2019, put right and compiled: what the stack of stairs is beside.

The same steps as `fairlead.optimize.rising`, with its whole loop over the arrivals
compiled, so that no Python stands between the two algorithms that are compared. All agents weigh
the same and demand some of everything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


def arrive_by_halving(demand: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (N,) dominant shares after all of the agents of an (N, R) demand have come."""
    level = np.zeros(len(demand))
    _arrive_all(demand / demand.max(axis=1, keepdims=True), level)
    return level


@njit(cache=True)
def _add_levels(use: Any, level: Any, begin: int, end: int, total: Any) -> None:
    for k in range(begin, end):
        for r in range(total.size):
            total[r] += level[k] * use[k, r]


@njit(cache=True)
def _add_use(use: Any, begin: int, end: int, total: Any) -> None:
    for k in range(begin, end):
        for r in range(total.size):
            total[r] += use[k, r]


@njit(cache=True)
def _fits(kept: Any, rising: Any, level: float, budget: float) -> bool:
    for r in range(kept.size):  # noqa: SIM110 (numba knows no generators)
        if kept[r] + rising[r] * level > budget:
            return False
    return True


@njit(cache=True)
def _arrive_all(use: Any, level: Any) -> None:
    n_agents, n_resources = use.shape
    kept, rising = np.empty(n_resources), np.empty(n_resources)
    before, beyond = np.empty(n_resources), np.empty(n_resources)
    for k in range(n_agents):
        budget = (k + 1) / n_agents
        kept[:] = 0.0
        rising[:] = 0.0
        _add_use(use, 0, k + 1, rising)
        if not _fits(kept, rising, level[0], budget):
            low, high = 0, k
            kept[:] = level[0] * use[0]
            rising[:] = use[high]
            while high - low > 1:
                middle = (low + high + 1) // 2
                before[:] = kept
                _add_levels(use, level, low + 1, middle, before)
                beyond[:] = rising
                _add_use(use, middle, high, beyond)
                if _fits(before, beyond, level[middle], budget):
                    high = middle
                    rising[:] = beyond
                else:
                    low = middle
                    kept[:] = before + level[middle] * use[middle]
        common = np.inf
        for r in range(n_resources):
            common = min(common, (budget - kept[r]) / rising[r])
        for j in range(k, -1, -1):
            if level[j] >= common:
                break
            level[j] = common

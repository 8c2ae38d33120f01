"""Metin's Tables 1 and 2: how far PDRF's formula is from DRF, for random demands and reserves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairlead.mechanisms.pdrf import precompute_tasks
from fairlead.model.problem import Problem
from fairlead.model.whole_pool import to_whole_pool
from fairlead.optimize.whole_tasks import serve_by_turns, top_up

N_USERS = 1_000


@dataclass(frozen=True)
class Row:
    """A row of the tables: means and standard deviations over 1,000 runs."""

    table: int
    n_resources: int
    demands: tuple[int, int]
    under: tuple[float, float]
    over: tuple[float, float]
    most_over: int
    reserves: tuple[int, int] = (50_000, 100_000)


ROWS = (
    Row(1, 10, (1, 10), (477.623, 86.373), (0.694, 2.137), 2),
    Row(1, 10, (1, 20), (474.932, 38.381), (0.192, 0.526), 2),
    Row(1, 10, (10, 20), (486.521, 50.526), (0.0, 0.0), 0),
    Row(2, 2, (1, 100), (423.517, 36.429), (50.407, 25.814), 3),
    Row(2, 2, (1, 1_000), (407.902, 26.373), (83.959, 36.376), 32),
)
# With the reserves that are printed, fewer users have any task than the last row says are short of
# one; with ten times as much it is like the row before it.
UNLIKELY = ROWS[-1]
LIKELIER = replace(UNLIKELY, reserves=(500_000, 1_000_000))


@dataclass(frozen=True)
class Deviations:
    """Tasks by the formula less tasks by turns; one row a run, one column a user.

    `first_misfit` compares with DRF's Algorithm 1, `exact` is the tasks by turns themselves.
    """

    formula: NDArray[np.int64]
    topped_up: NDArray[np.int64]
    first_misfit: NDArray[np.int64]
    exact: NDArray[np.int64]


def draw_pool(rng: np.random.Generator, row: Row) -> Problem:
    """Draw whole demands and reserves, uniformly, as the paper does."""
    low, high = row.demands
    return Problem.from_arrays(
        rng.integers(row.reserves[0], row.reserves[1] + 1, (1, row.n_resources)),
        rng.integers(low, high + 1, (N_USERS, row.n_resources)),
    )


def measure(rng: np.random.Generator, row: Row, runs: int) -> Deviations:
    """Compare PDRF with exact DRF on random pools."""
    formula, topped_up, first_misfit, turns = np.zeros((4, runs, N_USERS), dtype=np.int64)
    for k in range(runs):
        pool = to_whole_pool(draw_pool(rng, row))
        exact, base = serve_by_turns(pool, stops=False), precompute_tasks(pool)
        formula[k] = base - exact
        topped_up[k] = top_up(pool, base) - exact
        first_misfit[k] = base - serve_by_turns(pool, stops=True)
        turns[k] = exact
    return Deviations(formula, topped_up, first_misfit, turns)


def mean_and_sd(counts: NDArray[np.int64]) -> tuple[float, float]:
    """Return mean and standard deviation over the runs."""
    return float(counts.mean()), float(counts.std(ddof=1))

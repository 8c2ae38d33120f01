"""How far PDRF's formula is from DRF, for random demands and reserves (Metin, 4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.mechanisms.pdrf import precompute_tasks
from fairlead.model.problem import Problem
from fairlead.model.whole_pool import to_whole_pool
from fairlead.optimize.whole_tasks import serve_by_turns, top_up
from fairlead.papers.pdrf.printed import N_USERS, Row

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Deviations:
    """Tasks by the formula less tasks by turns, (T, N): one row a run, one column a user.

    Attributes
    ----------
    formula : (T, N) int
        Of the formula, against turns in which users that do not fit leave.
    topped_up : (T, N) int
        The same after the top-up by one task each.
    first_misfit : (T, N) int
        Of the formula, against DRF's Algorithm 1, which ends with the first who does not fit.
    exact : (T, N) int
        The tasks by turns themselves.
    """

    formula: Counts
    topped_up: Counts
    first_misfit: Counts
    exact: Counts


def draw_pool(rng: np.random.Generator, row: Row) -> Problem:
    """Draw whole demands and reserves, uniformly, as the paper does."""
    low, high = row.demands
    return Problem.from_arrays(
        rng.integers(row.reserves[0], row.reserves[1] + 1, (1, row.n_resources)),
        rng.integers(low, high + 1, (N_USERS, row.n_resources)),
    )


def measure(
    rng: np.random.Generator, row: Row, runs: int, steps: Iterable[int] | None = None
) -> Deviations:
    """Compare PDRF with DRF on random pools; `steps` counts the runs, for a progress report."""
    formula, topped_up, first_misfit, turns = np.zeros((4, runs, N_USERS), dtype=np.int64)
    for k in range(runs) if steps is None else steps:
        pool = to_whole_pool(draw_pool(rng, row))
        exact, base = serve_by_turns(pool, stops=False), precompute_tasks(pool)
        formula[k] = base - exact
        topped_up[k] = top_up(pool, base) - exact
        first_misfit[k] = base - serve_by_turns(pool, stops=True)
        turns[k] = exact
    return Deviations(formula, topped_up, first_misfit, turns)


def mean_and_sd(counts: Counts) -> tuple[float, float]:
    """Return mean and standard deviation over the runs."""
    return float(counts.mean()), float(counts.std(ddof=1))

"""Metin's Tables 1 and 2: users whom PDRF's formula gives less or more than DRF does.

Run with ``make bench``; the figures are listed at the end, ours beside the paper's. What is
counted is users; standard deviations are in brackets, over 1,000 runs, the paper's number.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fairlead_papers.pdrf._runs_of_formula import LIKELIER, ROWS, PrintedRow, mean_and_sd, measure

RUNS = 1_000


def _users(deviating: NDArray[np.bool_]) -> str:
    mean, sd = mean_and_sd(deviating.sum(axis=1))
    return f"{mean:.3f} ({sd:.3f})"


@pytest.mark.parametrize("row", [*ROWS, LIKELIER], ids=lambda row: f"{row.demands}-{row.reserves}")
def test_tables(report: Callable[[str], None], row: PrintedRow) -> None:
    start = time.perf_counter()
    found = measure(np.random.default_rng(1), row, RUNS)
    seconds = time.perf_counter() - start
    formula, topped_up, early = found.formula, found.topped_up, found.first_misfit
    # Users with less than by Algorithm 1 have less by one task, in the paper and here.
    assert early.min() == -1
    report(
        f"Metin, Table {row.table}, demands {row.demands[0]}-{row.demands[1]}, "
        f"{row.n_resources} resources, reserves {row.reserves[0]}-{row.reserves[1]}, "
        f"{RUNS} runs in {seconds:.1f} s: "
        f"under {_users(formula < 0)}, paper {row.under[0]} ({row.under[1]}); "
        f"over {_users(formula > 0)}, paper {row.over[0]} ({row.over[1]}), "
        f"by at most {max(formula.max(), 0)}, paper {row.most_over}"
    )
    report(
        f"    over by 1, 2, more: {(formula == 1).sum() / RUNS:.3f}, "
        f"{(formula == 2).sum() / RUNS:.3f}, {(formula > 2).sum() / RUNS:.3f}; "
        f"after the top-up: under {_users(topped_up < 0)}, over {_users(topped_up > 0)}, "
        f"by {topped_up.min()} to {topped_up.max()}; "
        f"against Algorithm 1: under {_users(early < 0)}, over {_users(early > 0)}; "
        f"users with a task {(found.exact > 0).sum(axis=1).mean():.0f}"
    )

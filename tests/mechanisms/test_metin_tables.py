"""A few runs of Metin's tables; all of them are in benchmarks/test_pdrf_tables.py."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead_papers.pdrf._runs_of_formula import (
    LIKELIER,
    ROWS,
    UNLIKELY,
    PrintedRow,
    mean_and_sd,
    measure,
)

RUNS = 15


@pytest.mark.parametrize("row", ROWS[:-1], ids=lambda row: f"{row.demands[0]}-{row.demands[1]}")
def test_means_are_the_papers_within_its_standard_deviations(row: PrintedRow) -> None:
    found = measure(np.random.default_rng(15), row, RUNS)
    for deviating, (mean, sd) in (
        ((found.formula < 0), row.under),
        ((found.formula > 0), row.over),
    ):
        ours, _ = mean_and_sd(deviating.sum(axis=1))
        # Four standard errors of the difference to a mean over 1,000 runs.
        assert abs(ours - mean) <= 4 * sd * np.sqrt(1 / RUNS + 1 / 1_000)
    assert found.first_misfit.min() == -1


def test_the_last_row_cannot_be_of_the_reserves_it_prints() -> None:
    printed_under, _ = UNLIKELY.under
    served = (measure(np.random.default_rng(17), UNLIKELY, RUNS).exact > 0).sum(axis=1)
    assert served.max() < printed_under
    ten_times = measure(np.random.default_rng(17), LIKELIER, RUNS)
    ours, _ = mean_and_sd((ten_times.formula < 0).sum(axis=1))
    assert abs(ours - printed_under) <= 0.2 * printed_under


def test_the_top_up_takes_most_of_the_underallocations_back() -> None:
    found = measure(np.random.default_rng(16), ROWS[0], RUNS)
    before, after = (found.formula < 0).sum(), (found.topped_up < 0).sum()
    assert after <= 0.1 * before

"""Tables and examples of PDRF: verdicts, claims on made-up numbers, and misprints."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.pdrf._runs_of_formula import (
    ROWS,
    Deviations,
    Sample,
    count_row,
)
from fairlead_papers.pdrf._tables_1_and_2 import (
    find_sums,
)
from fairlead_papers.reproduction import DIFFERS, EQUAL, SHAPE, WITHIN
from fairlead_papers.setting import Setting


@pytest.fixture(scope="module")
def setting() -> Setting:
    """The setting of all tests of this file, which share its runs."""
    return Setting(seed=0, quick=True)


@pytest.mark.parametrize(
    ("key", "verdict", "finding"),
    [
        ("pdrf/section-3", EQUAL, "the cycle has 3 tasks of A and 2 of B, and runs once"),
        ("pdrf/table-1", SHAPE, ""),
        ("pdrf/table-2", DIFFERS, "printed is 50.407"),
        ("pdrf/section-6.1", EQUAL, "gives 5, 2, 1: 28 units, 7 left, and then cycles of 1."),
        ("pdrf/section-6.2", EQUAL, "and 1 is left, in which one more task of the first user fits"),
    ],
)
def test_verdicts(setting: Setting, key: str, verdict: str, finding: str) -> None:
    entry = CATALOGUE[key]
    found = reproduce(entry, setting)
    # A mean of Table 1 may be off by chance or not; its maxima are those of other runs.
    allowed = (SHAPE, WITHIN) if verdict == SHAPE else (verdict,)
    assert found.verdict in allowed
    assert entry.known_to_differ == (verdict == DIFFERS)
    assert any(finding in each.found for each in found.findings)


def test_means_of_table_1_come_out(setting: Setting) -> None:
    found = reproduce(CATALOGUE["pdrf/table-1"], setting)
    means = [reading for reading in found.readings if reading.what.endswith(", users")]
    assert len(means) == 6
    assert all(abs(r.ours - r.paper) <= 2 * (r.interval or 0) for r in means)
    assert all(claim.holds for claim in found.claims)


def test_users_are_counted_by_run() -> None:
    # Two runs of three users.
    difference = np.array([[-1, 0, 3], [2, 1, 1]])
    exact = np.array([[0, 4, 5], [0, 4, 5]])
    found = Deviations(np.array([[0, -2, 1], [0, 0, 0]]), difference, exact)
    counted = count_row(ROWS[0], found)
    assert counted.under.values.tolist() == [1, 0]
    assert counted.over.values.tolist() == [1, 3]
    assert [sample.values.tolist() for sample in counted.over_by] == [[0, 2], [0, 1], [1, 0]]
    assert (counted.most_under, counted.most_over) == (1, 3)
    assert counted.served.values.tolist() == [2, 2]
    assert (counted.still_under.values.tolist(), counted.most_still_under) == ([1, 0], 2)


def test_only_table_2_has_wrong_sums() -> None:
    wrong = find_sums(ROWS, "x")
    assert wrong is not None
    assert "add up to 50.757" in wrong.found
    assert "add up to 84.049" in wrong.found


def test_the_error_of_a_deviation_matches_many_samples() -> None:
    random = np.random.default_rng(4)
    for draw in (random.poisson(0.2, (2_000, 400)), random.integers(0, 2, (2_000, 400))):
        seen = draw.std(axis=1, ddof=1).std()
        said = np.mean([Sample(row).error_of_sd for row in draw]) / np.sqrt(400)
        # The fourth moment of rare counts is known only roughly.
        assert said == pytest.approx(seen, rel=0.12, abs=1e-3)
    assert Sample(np.full(5, 7)).error_of_sd == 0

"""Claims about dynamic DRF hold on random sequences, and fail on made-up numbers."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead_papers.dynamic._dynamic_properties import (
    failing_properties,
    find_lie_with_zero_demands,
    lemmas_missed,
)
from fairlead_papers.dynamic._solvers_compared import (
    overuse,
    printed_algorithm_1,
)
from fairlead_papers.dynamic.competitive_ratio import draw_demands
from oracles.dynamic import exact_levels


def test_a_lie_that_pays_is_found_where_demands_are_zero() -> None:
    demand = np.array([[1, 0.5, 0.5], [1, 0, 0.5], [0, 1, 0.5], [0.5, 0.5, 1]])
    assert failing_properties(demand, 300, 1) == ["strategy-proofness"]
    assert "ends with 0.375, and with 0.4 " in find_lie_with_zero_demands().found


def test_lemmas() -> None:
    """Three agents: the first holds 1/2, the others 1/3 after the last step."""
    least = np.array([1 / 3, 1 / 2, 1 / 3])
    first, second = np.array([1 / 3]), np.array([1 / 2, 1 / 2])
    assert lemmas_missed([first, second, np.array([1 / 2, 1 / 2, 1 / 3])], least) == []
    # The first got more in the last step although it has more than the newest.
    given = lemmas_missed([first, second, np.array([2 / 3, 1 / 2, 1 / 3])], least)
    assert given == ["lemma 1", "lemma 3"]
    later = lemmas_missed([first, second, np.array([1 / 2, 1 / 2, 2 / 3])], least)
    assert later == ["lemma 1", "lemma 2", "lemma 3"]
    assert lemmas_missed([first, second, np.array([1 / 2, 1 / 2, 1 / 4])], least) == ["lemma 1"]


def test_corrected_algorithm_1_is_exact_water_filling() -> None:
    for seed in range(20):
        demand = draw_demands(np.random.default_rng(seed), 6).tolist()
        exact = exact_levels(demand, [1.0] * len(demand))
        for ours, theirs in zip(printed_algorithm_1(demand, corrected=True), exact, strict=True):
            assert [float(x) for x in ours] == pytest.approx([float(x) for x in theirs])


def test_overuse() -> None:
    demand = np.array([[1.0, 0.25], [0.25, 1.0], [1.0, 1.0]])
    assert overuse(demand, printed_algorithm_1(demand.tolist())) == pytest.approx(1 / 9)
    right = printed_algorithm_1(demand.tolist(), corrected=True)
    assert overuse(demand, right) == pytest.approx(0, abs=1e-12)

"""Claims about dynamic DRF hold on random sequences, and fail on made-up numbers."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead_papers.dynamic._dynamic_properties import (
    LEMMAS,
    PROPERTIES,
    failing_properties,
    find_lie_with_zero_demands,
    judge_failures,
    lemmas_missed,
)
from fairlead_papers.dynamic._full_knowledge import final_shares, judge_sums
from fairlead_papers.dynamic._solvers_compared import (
    OTHERS,
    judge_algorithm,
    judge_solvers,
    overuse,
    printed_algorithm_1,
)
from fairlead_papers.dynamic.competitive_ratio import draw_demands
from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.reproduction import DIFFERS, SHAPE, WITHIN, PrintedClaim
from fairlead_papers.setting import Setting
from oracles.dynamic import exact_levels


def held(claims: tuple[PrintedClaim, ...]) -> list[bool]:
    return [claim.holds for claim in claims]


@pytest.mark.parametrize(
    ("key", "verdict"),
    [
        ("dynamic/section-2", SHAPE),
        ("dynamic/theorem-1", SHAPE),
        ("dynamic/algorithm-1", DIFFERS),
        ("dynamic/section-4", WITHIN),
    ],
)
def test_verdicts(key: str, verdict: str) -> None:
    entry = CATALOGUE[key]
    found = reproduce(entry, Setting(quick=True, seed=1))
    assert found.verdict == verdict, found.reason
    assert entry.known_to_differ == (verdict == DIFFERS)


def test_properties_and_lemmas_that_fail_are_named() -> None:
    assert held(judge_failures({}, 10, 5)) == [True] * 7
    for k, name in enumerate([*PROPERTIES, *LEMMAS]):
        assert held(judge_failures({name: 1}, 10, 5)) == [j != k for j in range(7)]


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


def test_claims_about_algorithms() -> None:
    none, some = np.zeros(3), np.array([0.0, 1e-6, 0.0])
    assert held(judge_algorithm(none, none, none)) == [True, True]
    assert held(judge_algorithm(some, none, none)) == [False, True]
    assert held(judge_algorithm(none, some, none)) == [True, False]
    agreeing = dict.fromkeys(OTHERS, none)
    assert held(judge_solvers(agreeing, none)) == [True] * 4
    assert held(judge_solvers(agreeing, some)) == [True, True, True, False]
    for k, name in enumerate(OTHERS):
        assert held(judge_solvers(agreeing | {name: some}, none)) == [j != k for j in range(4)]


def test_sums() -> None:
    assert held(judge_sums({2: (1.7, 1.5), 3: (2.5, 2.0)})) == [True]
    assert held(judge_sums({2: (1.7, 1.5), 3: (1.9, 2.0)})) == [False]
    # With equal agents, far from the limit, all have their shares under DRF.
    alike = final_shares(3, 1.0)
    assert alike.sums[0] == pytest.approx(alike.sums[1])
    coarse = final_shares(3, 0.1)
    assert abs(coarse.last - 1 / 4) < 1e-9
    assert abs(coarse.first[0] - 3 / 4) > 6e-6

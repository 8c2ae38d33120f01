"""The examples and Table I of the PS-DSF paper: as printed, and wrong numbers are noticed."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.mechanisms.catalogue import solve
from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.psdsf import _two_servers, four_classes
from fairlead_papers.psdsf._compared_properties import TICKS, Count, judge_table
from fairlead_papers.psdsf._two_servers import example_of_figure_1, possible_tasks
from fairlead_papers.psdsf.four_classes import (
    CPU_OF_USER_2,
    PRINTED_GAMMA,
    PRINTED_PS_DSF,
    cluster_of_section_5,
)
from fairlead_papers.reproduction import DIFFERS, EQUAL, FARTHER, SHAPE, PrintedClaim, Reproduction
from fairlead_papers.setting import Setting


def found(key: str) -> Reproduction:
    return reproduce(CATALOGUE[key], Setting(quick=True))


def held(claims: tuple[PrintedClaim, ...]) -> list[bool]:
    return [claim.holds for claim in claims]


@pytest.mark.parametrize("key", ["psdsf/figure-1", "psdsf/figure-4", "psdsf/table-3"])
def test_all_numbers_are_as_printed(key: str) -> None:
    reproduction = found(key)
    assert reproduction.verdict == EQUAL, reproduction.reason


def test_figure_1_with_another_mechanisms_answer_differs() -> None:
    problem = example_of_figure_1()
    answers = {
        called: solve(problem, name) for name, called, _, _ in _two_servers.PRINTED_OF_FIGURE_1
    }
    wrong = answers | {"PS-DSF": answers["TSF"]}
    assert {r.verdict for r in _two_servers.compare_figure_1(answers, problem)} == {EQUAL}
    differ = [r.what for r in _two_servers.compare_figure_1(wrong, problem) if r.verdict == FARTHER]
    assert differ == [
        *(f"tasks of user {n}, PS-DSF" for n in (1, 2, 3)),
        "tasks of user 3 on server 1, PS-DSF",
    ]


def test_figure_1_claims() -> None:
    fair = {"PS-DSF": True, "C-DRFH": False, "TSF": False}
    dominant = ("bandwidth", "memory", "memory")
    assert held(_two_servers.judge_fairness(fair, dominant, ("memory",))) == [True] * 5
    upside_down = {name: not value for name, value in fair.items()}
    assert held(_two_servers.judge_fairness(upside_down, ("memory",) * 3, ())) == [False] * 5


def test_figure_3_has_one_misprint() -> None:
    reproduction = found("psdsf/figure-3")
    assert reproduction.verdict == SHAPE
    (odd,) = [r for r in reproduction.readings if r.verdict != EQUAL]
    assert odd.what == "virtual dominant share of user 4 on server 1"
    # 8 tasks of 1 core each, on 9 cores.
    assert odd.ours == pytest.approx(8 / 9)
    assert "8/9 = 0.8889" in reproduction.findings[0].found


def test_figure_3_claims() -> None:
    shares = np.array([[0.6, np.inf], [0.6, np.inf], [8 / 12, 8 / 12], [8 / 9, 8 / 12]])
    assert held(_two_servers.judge_levels(shares, 0.0)) == [True, True, True]
    assert held(_two_servers.judge_levels(shares, 0.01)) == [False, True, True]
    uneven = shares + np.array([[0.0, 0], [0.01, 0], [0, 0.01], [0, 0]])
    assert held(_two_servers.judge_levels(uneven, 0.0)) == [True, False, False]
    low = shares - np.array([[0.0, 0], [0, 0], [0.1, 0], [0, 0]])
    assert held(_two_servers.judge_levels(low, 0.0)) == [True, False, True]


def test_channels_divided_differently_fail_the_claims() -> None:
    time = np.array(_two_servers.PRINTED_TIME)
    assert held(_two_servers.judge_channels(time, 0.0)) == [True, True]
    assert held(_two_servers.judge_channels(time[::-1], 0.01)) == [False, False]


def test_gamma_does_not_determine_the_cpu_of_user_2() -> None:
    gamma = np.array(PRINTED_GAMMA)
    changed = gamma.copy()
    changed[1, 3] -= 0.4
    assert held(four_classes.judge_freedom([gamma, gamma], changed)) == [True]
    assert held(four_classes.judge_freedom([gamma, gamma], gamma)) == [False]
    assert held(four_classes.judge_freedom([gamma, changed, gamma], changed)) == [False]


def test_table_4_is_as_printed_except_one_rounding() -> None:
    reproduction = found("psdsf/table-4")
    assert reproduction.verdict == SHAPE
    differ = [r.what for r in reproduction.readings if r.verdict == FARTHER]
    assert differ == ["TSF, total of user 3", "TSF, user 3 on class C"]
    assert all(r.verdict == EQUAL for r in reproduction.readings if r.what.startswith("PS-DSF"))
    # Of C's memory, 0.1 x and 0.3 (195 x / 320 - 27.5) are used, since x / 320 is user 4's level.
    by_hand = (8.25 + 0.3 * 27.5) / (0.1 + 0.3 * 195 / 320)
    assert next(r.ours for r in reproduction.readings if r.what == differ[0]) == pytest.approx(
        by_hand
    )


def test_printed_tsf_tasks_have_unequal_shares() -> None:
    """TSF gives users 1 and 2 equal shares, and users 3 and 4; the printed ones differ."""
    problem = cluster_of_section_5()
    alone = problem.unconstrained_gamma.sum(axis=1) * problem.weight
    ours = solve(problem, "tsf").user_tasks / alone
    printed = four_classes.tsf_shares_as_printed(problem)
    for pair in ([0, 1], [2, 3]):
        assert np.ptp(ours[pair]) < 1e-9
        assert np.ptp(printed[pair]) > 1e-5


def test_the_cpu_of_classes_a_and_b_is_not_used_up() -> None:
    """User 1 takes 0.1 and user 2 2/15 of CPU a task; A and B have 42."""
    problem = cluster_of_section_5(CPU_OF_USER_2)
    part = four_classes.cpu_of_a_and_b(problem, np.array([210.0, 105.0, 0, 0]))
    assert part == pytest.approx((21 + 14) / 42)
    for name in ("ps-dsf", "tsf", "drfh"):
        assert four_classes.cpu_of_a_and_b(problem, solve(problem, name).user_tasks) < 0.85


def test_table_4_claims() -> None:
    tasks, totals = np.array(PRINTED_PS_DSF), np.array([205, 107.5, 58.33, 35.55])
    ends = np.zeros((4, 4, 2))
    ends[:2, :2] = [[[0, 80], [125, 205]], [[0, 40], [67, 107]]]
    assert held(four_classes.judge_table(tasks, totals, ends)) == [True] * 5
    moved = tasks.copy()
    moved[0, 2], moved[3, 2] = 1.0, 1.0
    elsewhere = ends.copy()
    elsewhere[1, 3, 1] = 1.0
    elsewhere[0, 0] = [0, 30]  # 35 is printed
    assert held(four_classes.judge_table(moved, tasks.sum(axis=1), elsewhere)) == [False] * 5


def test_the_range_of_tasks_for_given_totals() -> None:
    """Users 1 and 2 may divide A and B in many ways; user 3 must have all of C."""
    problem = cluster_of_section_5()
    ends = possible_tasks(problem, solve(problem, "ps-dsf").user_tasks)
    assert ends[2, 2] == pytest.approx([82.5, 82.5], abs=1e-4)
    assert ends[0, 0] == pytest.approx([0, 80], abs=1e-4)
    assert ends[0, 1] == pytest.approx([130, 210], abs=1e-4)


NONE_FOUND = {
    (name, property_name): Count(0, 10) for name, ticks in TICKS.items() for property_name in ticks
}
BLANKS = {
    ("drfh", "sharing-incentive"): 0.5,
    ("drfh", "bottleneck-fairness"): 0.1,
    ("tsf", "bottleneck-fairness"): 0.3,
    ("ps-dsf", "pareto-optimality"): 0.1,
    ("ps-dsf", "strategy-proofness"): 0.01,
}
REFUTED = "TSF has sharing incentive"


def failing(**changes: object) -> list[str]:
    given = {"counts": NONE_FOUND, "witnesses": BLANKS, "tsf_severity": 0.0} | changes
    return [claim.sentence for claim in judge_table(**given) if not claim.holds]


def test_only_tsfs_sharing_incentive_is_refuted() -> None:
    reproduction = found("psdsf/table-1")
    assert reproduction.verdict == DIFFERS
    assert CATALOGUE["psdsf/table-1"].known_to_differ
    assert [claim.sentence for claim in reproduction.claims if not claim.holds] == [REFUTED]
    assert "runs 1.778 tasks" in reproduction.findings[0].found  # 16/9
    assert "would run 2." in reproduction.findings[0].found


def test_claims_follow_counts_and_witnesses() -> None:
    assert failing() == []
    assert failing(tsf_severity=0.1) == [REFUTED]
    for (name, property_name), sentence in {
        ("tsf", "sharing-incentive"): REFUTED,
        ("ps-dsf", "envy-freeness"): "PS-DSF has envy-freeness",
        ("drfh", "strategy-proofness"): "C-DRFH has strategy-proofness",
        ("ps-dsf-tdm", "pareto-optimality"): "PS-DSF under TDM has Pareto optimality",
    }.items():
        for count in (Count(1, 10), Count(0, 0)):  # an untested property did not hold either
            assert failing(counts=NONE_FOUND | {(name, property_name): count}) == [sentence]
    without = BLANKS | {("ps-dsf", "strategy-proofness"): 0.0}
    assert failing(witnesses=without) == ["PS-DSF lacks strategy-proofness"]

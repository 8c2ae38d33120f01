"""The examples and Table I of the PS-DSF paper: as printed, and wrong numbers are noticed."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.mechanisms.catalogue import solve
from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.psdsf import four_classes
from fairlead_papers.psdsf._two_servers import possible_tasks
from fairlead_papers.psdsf.four_classes import (
    cluster_of_section_5,
)
from fairlead_papers.reproduction import DIFFERS, EQUAL, FARTHER, SHAPE, Reproduction
from fairlead_papers.setting import Setting


def found(key: str) -> Reproduction:
    return reproduce(CATALOGUE[key], Setting(quick=True))


def test_figure_3_has_one_misprint() -> None:
    reproduction = found("psdsf/figure-3")
    assert reproduction.verdict == SHAPE
    (odd,) = [r for r in reproduction.readings if r.verdict != EQUAL]
    assert odd.what == "virtual dominant share of user 4 on server 1"
    # 8 tasks of 1 core each, on 9 cores.
    assert odd.ours == pytest.approx(8 / 9)
    assert "8/9 = 0.8889" in reproduction.findings[0].found


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


def test_the_range_of_tasks_for_given_totals() -> None:
    """Users 1 and 2 may divide A and B in many ways; user 3 must have all of C."""
    problem = cluster_of_section_5()
    ends = possible_tasks(problem, solve(problem, "ps-dsf").user_tasks)
    assert ends[2, 2] == pytest.approx([82.5, 82.5], abs=1e-4)
    assert ends[0, 0] == pytest.approx([0, 80], abs=1e-4)
    assert ends[0, 1] == pytest.approx([130, 210], abs=1e-4)


def test_only_tsfs_sharing_incentive_is_refuted() -> None:
    reproduction = found("psdsf/table-1")
    assert reproduction.verdict == DIFFERS
    assert CATALOGUE["psdsf/table-1"].known_to_differ
    assert [claim.sentence for claim in reproduction.claims if not claim.holds] == [
        "TSF has sharing incentive"
    ]
    assert "runs 1.778 tasks" in reproduction.findings[0].found  # 16/9
    assert "would run 2." in reproduction.findings[0].found

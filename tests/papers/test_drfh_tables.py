"""Verdicts on DRFH's example, Table I and section IV."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.traces.google_park import TABLE_I
from fairlead_papers.drfh._drfh_examples import (
    DRFH,
    PER_SERVER_TASKS,
    PROVED,
    TOGETHER_TASKS,
    judge_division,
    judge_draw,
    judge_properties,
)
from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.reproduction import EQUAL, SHAPE
from fairlead_papers.setting import Setting
from fairlead_papers.violations import Count

PRINTED = np.array([count for count, _, _ in TABLE_I])


@pytest.mark.parametrize(
    ("key", "verdict"),
    [("drfh/figure-3", EQUAL), ("drfh/table-1", SHAPE), ("drfh/section-4", SHAPE)],
)
def test_verdicts(key: str, verdict: str) -> None:
    assert reproduce(CATALOGUE[key], Setting(quick=True)).verdict == verdict


def test_all_users_gain_under_drfh() -> None:
    assert judge_division(PER_SERVER_TASKS, TOGETHER_TASKS)[0].holds
    for together in (PER_SERVER_TASKS, [[10, 0], [0, 6]], [[6, 0], [0, 10]]):
        assert not judge_division(PER_SERVER_TASKS, np.array(together, float))[0].holds


def test_draws_in_other_proportions_are_rejected() -> None:
    assert judge_draw(PRINTED, PRINTED)[0].holds
    assert judge_draw(np.round(PRINTED / 5).astype(int), PRINTED)[0].holds
    drawn = np.random.default_rng(1).multinomial(2000, PRINTED / PRINTED.sum())
    assert judge_draw(drawn, PRINTED)[0].holds
    assert not judge_draw(np.full(10, 200), PRINTED)[0].holds
    drawn[[0, 1]] = drawn[[1, 0]]
    assert not judge_draw(drawn, PRINTED)[0].holds


def test_a_property_that_fails_or_was_not_checked_does_not_hold() -> None:
    counts = {(DRFH, property_name): Count(0, 9) for property_name in PROVED}
    assert all(claim.holds for claim in judge_properties(counts))
    for k, property_name in enumerate(PROVED):
        for spoilt in (Count(1, 9), Count(0, 0)):
            claims = judge_properties(counts | {(DRFH, property_name): spoilt})
            assert [claim.holds for claim in claims] == [i != k for i in range(len(PROVED))]

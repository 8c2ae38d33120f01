"""Lemma 1 of the PS-DSF paper: it holds for lies about demands, not for those about servers."""

from __future__ import annotations

import pytest

from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.psdsf._theorem_and_lemma import (
    DEMANDS,
    SERVERS,
    LieEffect,
    judge_lies,
    measure_lie,
    useless_server_claim,
)
from fairlead_papers.reproduction import DIFFERS
from fairlead_papers.setting import Setting

HARMLESS = [
    LieEffect(DEMANDS, -0.1, -0.2),
    LieEffect(SERVERS, 0.1, 0.0),
    LieEffect(DEMANDS, 0.0, -1e-6),
]


@pytest.mark.filterwarnings("error")
def test_the_lemma_does_not_cover_servers() -> None:
    found = reproduce(CATALOGUE["psdsf/lemma-1"], Setting(quick=True, seed=2))
    assert [claim.holds for claim in found.claims] == [True, False]
    assert found.verdict == DIFFERS
    assert CATALOGUE["psdsf/lemma-1"].known_to_differ
    assert "falls from 3 tasks to 2" in found.findings[0].found


def test_the_counterexample() -> None:
    effect = measure_lie(*useless_server_claim(), SERVERS)
    assert effect.own == pytest.approx(0, abs=1e-9)
    assert effect.others == pytest.approx(-1 / 3)
    assert effect.harms_for_nothing


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([], [True, True]),
        ([LieEffect(DEMANDS, 0.0, -0.1)], [False, True]),
        ([LieEffect(SERVERS, 0.2, -0.1)], [True, False]),
        ([LieEffect(SERVERS, -0.01, -0.1)], [True, True]),
    ],
)
def test_claims(more: list[LieEffect], expected: list[bool]) -> None:
    assert [claim.holds for claim in judge_lies([*HARMLESS, *more])] == expected


def test_without_lies_no_claim_holds() -> None:
    assert [claim.holds for claim in judge_lies([])] == [False, False]

"""Table I of the PS-DSF paper: one tick is refuted, and claims follow from the counts."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead import load
from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.psdsf._compared_properties import (
    TICKS,
    Count,
    judge_table,
    measure_blanks,
    tsf_witness,
)
from fairlead_papers.reproduction import DIFFERS
from fairlead_papers.setting import Setting

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
    found = reproduce(CATALOGUE["psdsf/table-1"], Setting(quick=True))
    assert found.verdict == DIFFERS
    assert CATALOGUE["psdsf/table-1"].known_to_differ
    assert [claim.sentence for claim in found.claims if not claim.holds] == [REFUTED]
    assert "runs 1.778 tasks" in found.findings[0].found  # 16/9
    assert "would run 2." in found.findings[0].found


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


def test_every_blank_has_a_witness() -> None:
    found = measure_blanks(seed=0)
    assert set(found) == set(BLANKS)
    assert all(severity > 0.005 for severity in found.values()), found


def test_the_witness_is_that_of_the_example_file(pytestconfig: pytest.Config) -> None:
    path = pytestconfig.rootpath / "examples" / "refuted" / "tsf-sharing-incentive.yaml"
    written, here = load(path), tsf_witness()
    for values in ("demand", "group_capacity", "gamma"):
        assert np.array_equal(getattr(written, values), getattr(here, values))

"""The competitive ratio of dynamic DRF: printed bounds, tighter ones, and a gap in the proof."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynamic_sequences import history_of
from fairlead.errors import NoConvergenceError
from fairlead.mechanisms.dynamic_run import full_knowledge_levels
from fairlead.properties.dynamic import check_dynamic
from fairlead_papers.dynamic._full_knowledge import (
    SMALL,
    WorstCase,
    best_shares,
    judge_ratios,
    newest_resources,
)
from fairlead_papers.dynamic.competitive_ratio import competitive_ratios, worst_case_max_min
from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.reproduction import WITHIN
from fairlead_papers.setting import Setting

# Two resources: 2/5 each after 4 agents, 1/5 for the last, 1/3 under DRF.
AS_PRINTED = WorstCase(0.4, 0.2, 1 / 3, ratio=0.6, longer=0.51, random=0.7, above=1.0, slack=0.0)


def test_numbers_are_the_printed_limits_and_all_claims_hold() -> None:
    found = reproduce(CATALOGUE["dynamic/theorem-2"], Setting(quick=True, seed=1))
    assert found.verdict == WITHIN, found.reason
    assert all(claim.holds for claim in found.claims)
    assert len(found.findings) == 2


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({}, []),
        ({"slack": -1e-6}, [0]),
        ({"above": 1.001}, [1]),
        ({"ratio": 0.601}, [2]),
        ({"longer": 0.499}, [3]),
        ({"random": 0.499}, [3]),
    ],
)
def test_claims(changed: dict[str, float], failing: list[int]) -> None:
    claims = judge_ratios({2: replace(AS_PRINTED, **changed)})
    assert [k for k, claim in enumerate(claims) if not claim.holds] == failing


@pytest.mark.parametrize("m", [2, 3, 5])
def test_longer_sequences_come_closer_to_one_over_m(m: int) -> None:
    """With q rounds the last agent has 1 / (q m + 1) where DRF gives 1 / (q + 1)."""
    ratios = [competitive_ratios(worst_case_max_min(m, 1e-8, q)).min() for q in (m, 4 * m, 40 * m)]
    expected = [(q + 1) / (q * m + 1) for q in (m, 4 * m, 40 * m)]
    assert ratios == pytest.approx(expected, abs=1e-6)
    assert ratios[0] > ratios[1] > ratios[2] > 1 / m
    assert ratios[2] < 1.02 / m


@pytest.mark.parametrize(("m", "at_least"), [(2, 0.857), (3, 0.8), (4, 0.769)])
def test_other_pareto_optimal_shares_beat_the_proofs_instance(m: int, at_least: float) -> None:
    demand = worst_case_max_min(m, SMALL)
    n = len(demand)
    ratio, shares = best_shares(demand, newest_resources(m))
    assert ratio > at_least > (m + 1) / (m * m + 1)
    verdicts = {v.name: v.verdict for v in check_dynamic(history_of(demand, shares))}
    for k in range(1, n + 1):
        assert (shares[k - 1, :k] @ demand[:k]).max() <= k / n + 1e-9
        assert (shares[k - 1, : k - 1] >= shares[k - 2, : k - 1] - 1e-9).all()
    for name in ("sharing-incentive", "dynamic-pareto-optimality"):
        assert verdicts[name] == "holds"
    level = full_knowledge_levels(demand, np.ones(n), float(n))
    least = [shares[k - 1, :k].min() / level[k - 1] for k in range(1, n + 1)]
    assert min(least) == pytest.approx(ratio)
    # The first m^2 agents do not get all: the last one has more than the proof says.
    assert shares[-1, -1] > 1.25 / n


def test_the_bound_holds_when_the_last_agents_resource_is_full() -> None:
    """The proof's bound needs a last agent that demands the used-up resource."""
    demand = worst_case_max_min(2, SMALL)
    ratio, _ = best_shares(demand, [0, 1, 0, 0, 0])
    assert ratio == pytest.approx(0.6, abs=1e-5)


def test_a_resource_that_cannot_be_used_up_raises_an_error() -> None:
    demand = worst_case_max_min(2, SMALL)
    with pytest.raises(NoConvergenceError):
        best_shares(demand, [1, 1, 1, 1, 1])

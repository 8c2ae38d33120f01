"""The cautious LP keeps envy-freeness possible, and gives up dynamic Pareto optimality for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from dynamic_sequences import Sequence, history_of, random_sequence, sequences
from fairlead.errors import RefusalError
from fairlead.mechanisms.dynamic_drf import DynamicDRF
from fairlead.mechanisms.dynamic_run import full_knowledge_levels
from fairlead.properties.dynamic import (
    check_pareto_optimality,
    check_sharing_incentive,
)
from fairlead_papers.dynamic.cautious_lp import cautious_shares


@settings(max_examples=8)
@given(sequences(zeros=False, weighted=False))
def test_no_agent_envies_another_and_shares_never_shrink(
    sequence: Sequence,
) -> None:
    """Later agents do not envy earlier ones, either, which dynamic DRF does not guarantee."""
    shares = cautious_shares(sequence.demand)
    for k in range(1, len(shares) + 1):
        bundles = shares[k - 1, :k, None] * sequence.demand[:k]
        for i in range(k):
            worth = (bundles / sequence.demand[i]).min(axis=1)
            assert (worth <= shares[k - 1, i] + 1e-7).all()
        assert bundles.sum(axis=0).max() <= 1 + 1e-7
        assert (shares[k - 1, : k - 1] >= shares[k - 2, : k - 1] - 1e-9).all()
    course = history_of(sequence.demand, shares * (1 + 1e-7))
    assert check_sharing_incentive(course).verdict == "holds"


def test_it_leaves_some_of_the_budget_before_the_end() -> None:
    demand = np.array([[1.0, 0.1], [0.1, 1.0], [1.0, 0.1]])
    shares = cautious_shares(demand)
    verdict = check_pareto_optimality(history_of(demand, shares))
    assert verdict.verdict == "fails"
    assert verdict.witness["step"] == 2
    assert verdict.witness["left"] == pytest.approx(2 / 3 - shares[1, :2] @ demand[:2, 0])


def test_the_last_step_is_nearer_to_drf_than_dynamic_drf() -> None:
    rng = np.random.default_rng(4)
    cautious, dynamic = [], []
    for _ in range(8):
        demand, weight = random_sequence(rng, 0.0, 9, weighted=False)
        known = full_knowledge_levels(demand, weight, len(demand))[-1]
        cautious.append(cautious_shares(demand)[-1].min() / known)
        agents = DynamicDRF(*demand.shape)
        dynamic.append(agents.arrive_all(demand)[-1] / known)
    assert max(cautious) <= 1 + 1e-7
    assert np.mean(cautious) > np.mean(dynamic)
    assert np.mean(cautious) > 0.97


@pytest.mark.parametrize(
    ("demand", "weights", "reason"),
    [
        ([[1, 0]], None, "positive demands"),
        ([[1, float("nan")]], None, "positive demands"),
        ([[1, 1], [1, 1]], [1, 2], "equal weights"),
    ],
)
def test_zero_demands_and_unequal_weights_are_refused(
    demand: object, weights: object, reason: str
) -> None:
    with pytest.raises(RefusalError, match=f"cautious: is defined for {reason} only"):
        cautious_shares(demand, weights)  # type: ignore[arg-type]

"""The competitive ratio of dynamic DRF: printed bounds, tighter ones, and a gap in the proof."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from dynamic_sequences import Sequence, history_of, sequences
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
from fairlead_papers.dynamic.competitive_ratio import (
    bound_of_ratios,
    competitive_ratios,
    worst_case_max_min,
)
from oracles.dynamic import exact_levels

# Two resources: 2/5 each after 4 agents, 1/5 for the last, 1/3 under DRF.
AS_PRINTED = WorstCase(0.4, 0.2, 1 / 3, ratio=0.6, longer=0.51, random=0.7, above=1.0, slack=0.0)


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


@given(sequences(weighted=False))
def test_the_ratio_is_at_most_1_and_at_least_the_bound(sequence: Sequence) -> None:
    ratios, bound = competitive_ratios(sequence.demand), bound_of_ratios(*sequence.demand.shape)
    assert (ratios <= 1 + 1e-12).all()
    assert (ratios >= bound * (1 - 1e-12)).all()
    assert (bound >= 1 / sequence.demand.shape[1]).all()


@given(sequences(largest=5))
def test_full_knowledge_is_drf_among_those_present(sequence: Sequence) -> None:
    total = float(sequence.weight.sum())
    levels = full_knowledge_levels(sequence.demand, sequence.weight, total)
    for k in range(1, len(levels) + 1):
        # Divide a whole pool among these agents only.
        together = np.vstack([sequence.demand[:k]])
        alone = exact_levels(together.tolist(), sequence.weight[:k].tolist())
        scale = sequence.weight[:k].sum() / total
        use = (sequence.weight[:k, None] * together).sum(axis=0).max()
        assert levels[k - 1] == pytest.approx(scale / use)
        assert levels[k - 1] >= float(min(alone[-1])) * scale * (1 - 1e-9)

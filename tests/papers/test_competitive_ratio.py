"""Competitive ratios of dynamic DRF to DRF with full knowledge (Li et al. 2019, section 4)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from dynamic_sequences import Sequence, sequences
from fairlead.mechanisms.dynamic_drf import DynamicDRF
from fairlead.mechanisms.dynamic_run import full_knowledge_levels
from fairlead_papers.dynamic._full_knowledge import final_shares
from fairlead_papers.dynamic.competitive_ratio import (
    bound_of_ratios,
    competitive_ratios,
    worst_case_max_min,
    worst_case_max_sum,
)
from oracles.dynamic import exact_levels


@pytest.mark.parametrize("m", [2, 5])
def test_the_worst_case_of_the_least_share(m: int) -> None:
    demand = worst_case_max_min(m, 1e-6)
    assert demand.shape == (m * m + 1, m)
    agents = DynamicDRF(*demand.shape)
    agents.arrive_all(demand)
    assert agents.shares_at(m * m) == pytest.approx([m / (m * m + 1)] * m * m, abs=1e-3)
    assert agents.shares[-1] == pytest.approx(1 / (m * m + 1), abs=1e-3)
    assert competitive_ratios(demand)[-1] == pytest.approx((m + 1) / (m * m + 1), abs=1e-3)


@pytest.mark.parametrize("m", [2, 5])
def test_the_sum_of_shares_can_exceed_that_of_drf(m: int) -> None:
    demand = worst_case_max_sum(m, 1e-6)
    agents = DynamicDRF(*demand.shape)
    agents.arrive_all(demand)
    assert agents.shares == pytest.approx([m / (m + 1)] * m + [1 / (m + 1)], abs=1e-3)
    ratio = 2 * (m * m + 1) / (m + 1) ** 2
    dynamic, known = final_shares(m, 1e-6).sums
    assert dynamic / known == pytest.approx(ratio, abs=1e-3)
    assert ratio > 1


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

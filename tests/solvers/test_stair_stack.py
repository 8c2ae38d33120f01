"""The stairs that dynamic DRF keeps are its agents, taken together by kind and level."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from numpy.testing import assert_allclose

from dynamic_sequences import Sequence, sequences

# Levels this close, relative, are equal but for rounding.
SAME = 1e-9


@given(sequences(largest=30))
def test_stairs_are_the_agents_of_one_level(sequence: Sequence) -> None:
    agents = sequence.run()
    staircase, levels = agents._solver._stacks, agents.levels
    of_kind = np.array(list(staircase.kind_of))
    n_agents = len(of_kind)
    use = sequence.demand / sequence.demand.max(axis=1, keepdims=True) * sequence.weight[:, None]
    kept = 0
    for kind in staircase.kinds:
        heights = np.array(list(kind.levels))[::-1]
        stairs = np.array(list(kind.use)).reshape(-1, use.shape[1])[: len(heights)][::-1]
        kept += len(stairs)
        assert (np.diff(heights) >= 0).all()
        # Two stairs that met just when there was no more room are not merged before the next step.
        is_higher = np.diff(heights) > SAME * heights[1:]
        floor = np.concatenate([[0], np.cumsum(is_higher)])
        mine = of_kind == kind.number
        nearest = floor[np.abs(levels[mine][:, None] - heights).argmin(axis=1)]
        for k in range(floor[-1] + 1):
            members = nearest == k
            assert members.any()
            assert_allclose(levels[mine][members], heights[floor == k][0], rtol=2 * SAME)
            assert_allclose(
                stairs[floor == k].sum(axis=0), use[mine][members].sum(axis=0), rtol=1e-9
            )
    # Every arrival adds a stair and a merge takes one away: there were fewer merges than arrivals.
    assert 0 <= n_agents - kept < n_agents

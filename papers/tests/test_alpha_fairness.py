"""The cost of alpha-fairness: tasks, shares and envy for each alpha."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead import Problem, solve
from fairlead_papers.trade_off.alpha_fairness import measure_trade_off
from oracles import examples


def test_points_are_those_of_the_mechanism():
    problem = examples.ps_dsf_section_v()
    trade_off = measure_trade_off(problem, [2, 0, 1, 1])
    assert [point.alpha for point in trade_off.points] == [0, 1, 2]
    weight = problem.weight / problem.weight.mean()
    for point in trade_off.points:
        allocation = solve(problem, "alpha-fair", alpha=point.alpha)
        assert point.tasks == pytest.approx(allocation.user_tasks.sum())
        assert point.least_share == pytest.approx((allocation.dominant_share / weight).min())
        assert point.violation <= 1e-9
    assert not trade_off.unproved


def test_one_resource_by_hand():
    # Demands 1 and 4 of 10. Alpha 0: 10 and 0 tasks; alpha 1: 5 and 1.25, no envy; alpha 2: 10/3
    # and 5/3, so that the first could run 20/3 with the second's bundle.
    trade_off = measure_trade_off(Problem.from_arrays([[10.0]], [[1.0], [4.0]]), [0, 1, 2])
    nothing, fair, even = trade_off.points
    assert [nothing.tasks, fair.tasks, even.tasks] == pytest.approx([10, 6.25, 5])
    assert [nothing.least_share, fair.least_share, even.least_share] == pytest.approx(
        [0, 0.5, 1 / 3], abs=1e-9
    )
    assert [nothing.envious, fair.envious, even.envious] == [1, 0, 1]
    assert nothing.largest_envy == np.inf
    assert nothing.to_dict()["largest_envy"] is None
    assert fair.largest_envy == 0
    assert even.largest_envy == pytest.approx(1)

"""Where mechanisms must coincide: on one server, and with one resource."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.mechanisms.catalogue import CONSTRAINTS, solve
from oracles import leximax
from strategies import problems


@settings(max_examples=8)
@given(problem=problems(largest_groups=1))
def test_on_one_server_everything_is_drf(problem):
    drf = solve(problem, "drf").user_tasks
    for mechanism in ("drf-per-server", "drfh", "cdrf", "tsf", "ps-dsf"):
        totals = solve(problem, mechanism).user_tasks
        np.testing.assert_allclose(totals, drf, rtol=1e-6, err_msg=mechanism)


@settings(max_examples=6)
@given(problem=problems(largest_groups=1))
def test_on_one_server_time_goes_by_weight(problem):
    time = problem.weight / problem.weight.sum()
    tasks = solve(problem, "ps-dsf-tdm").tasks[:, 0]
    np.testing.assert_allclose(tasks, time * problem.gamma[:, 0], rtol=1e-6)


@pytest.mark.parametrize("mechanism", ["drfh", "ps-dsf", "ps-dsf-tdm"])
@settings(max_examples=6)
@given(problem=problems(features=(CONSTRAINTS,), largest_resources=1))
def test_one_resource_is_shared_max_min_fairly(mechanism, problem):
    amount = problem.demand[:, 0]
    fair = leximax.leximax_totals(problem, amount)
    np.testing.assert_allclose(solve(problem, mechanism).user_tasks, fair, rtol=1e-6)


@pytest.mark.parametrize("mechanism", ["drfh", "cdrf", "tsf", "ps-dsf", "ps-dsf-tdm"])
@settings(max_examples=4)
@given(problem=problems(largest_resources=2), times=st.integers(2, 4))
def test_equal_users_get_equal_totals_of_servers_in_proportion(mechanism, problem, times):
    # All users alike: each gets its weight's part of what one would have alone.
    alike = type(problem).from_arrays(
        problem.cluster.capacity,
        np.repeat(problem.demand[:1], times, axis=0),
        count=problem.count,
        weight=np.arange(1.0, times + 1),
    )
    alone = alike.gamma[0].sum()
    part = alike.weight / alike.weight.sum()
    np.testing.assert_allclose(solve(alike, mechanism).user_tasks, part * alone, rtol=1e-6)

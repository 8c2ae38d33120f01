"""The checks of `Problem.from_arrays` against what gamma says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import ProblemError
from fairlead.model.problem import Problem
from faults import fault_of


def test_one_row_is_of_the_only_group_or_user() -> None:
    problem = Problem.from_arrays([9, 18], [1, 4])
    assert problem.cluster.capacity.tolist() == [[9, 18]]
    assert problem.demand.tolist() == [[1, 4]]
    with pytest.raises(ProblemError):
        Problem.from_arrays([9, 18], [[1], [4]])  # not two groups of one resource


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), with_rates=st.booleans())
def test_users_are_refused_exactly_when_gamma_is_zero_everywhere(
    seed: int, with_rates: bool
) -> None:
    rng = np.random.default_rng(seed)
    n_users, n_groups, n_resources = rng.integers(1, 4, 3)
    capacity = rng.integers(0, 2, (n_groups, n_resources)).astype(float)
    demand = rng.integers(0, 2, (n_users, n_resources)).astype(float)
    demand[:, 0] = 1
    eligible = rng.random((n_users, n_groups)) < 0.7
    count = rng.integers(0, 3, n_groups)
    count[0] = max(count[0], 1)
    rates = None
    if with_rates:
        rates = rng.integers(0, 2, (n_users, n_groups)).astype(float)
        rates[rng.random(n_users) < 0.5] = np.nan
    placeable = np.zeros(n_users, dtype=bool)
    for n in range(n_users):
        runs = (capacity[:, demand[n] > 0] > 0).all(axis=1)
        if rates is not None and not np.isnan(rates[n, 0]):
            runs = rates[n] > 0
        placeable[n] = (runs & eligible[n] & (count > 0)).any()
    if placeable.all():
        Problem.from_arrays(capacity, demand, count=count, eligible=eligible, rates=rates)
    else:
        with pytest.raises(ProblemError, match="fits no server") as caught:
            Problem.from_arrays(capacity, demand, count=count, eligible=eligible, rates=rates)
        assert caught.value.place == f"users[{placeable.argmin()}]"


def test_a_large_task_is_no_reason_that_a_user_fits_no_server() -> None:
    assert Problem.from_arrays([[4]], [[9]]).gamma.tolist() == [[4 / 9]]
    fault = fault_of(Problem.from_arrays, [[4, 0]], [[9, 1]])
    assert fault == "users[0]: user 'u1' fits no server: no server has r2"


@pytest.mark.parametrize("count", [-1, 1.5, np.nan, np.inf])
def test_counts_that_are_none(count: float) -> None:
    fault = fault_of(Problem.from_arrays, [[1]], [[1]], count=[count])
    assert fault == f"servers[0].count: must be a whole number from 0, not {count:g}"

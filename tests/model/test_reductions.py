"""Problems with fewer rows: restricted to some of them, and with identical ones merged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from fairlead import Problem
from fairlead.errors import ProblemError
from fairlead.model.reductions import (
    merge_groups,
    merge_users,
    restrict,
    spread_groups,
    spread_users,
)
from strategies import ALL_FEATURES, problems


def some(data, length):
    """Draw some of a number of rows, in any order."""
    return data.draw(st.lists(st.integers(0, length - 1), min_size=1, unique=True))


@given(data=st.data())
def test_what_stays_is_as_it_was(data):
    problem = data.draw(problems(features=ALL_FEATURES))
    units = tuple(f"unit {k}" for k in range(problem.n_resources))
    labels = tuple({"number": str(k)} for k in range(problem.n_groups))
    problem = replace(problem, cluster=replace(problem.cluster, units=units, labels=labels))
    sizes = {
        "users": problem.n_users, "groups": problem.n_groups, "resources": problem.n_resources
    }  # fmt: skip
    chosen = {what: some(data, size) for what, size in sizes.items() if data.draw(st.booleans())}
    try:
        small = restrict(problem, **chosen)
    except ProblemError:  # as `test_problem_checks` has it
        reject()
    n, g, r = (chosen.get(what, range(size)) for what, size in sizes.items())
    cluster, users = problem.cluster, problem.users
    assert small.users.names == tuple(users.names[k] for k in n)
    assert small.cluster.groups == tuple(cluster.groups[k] for k in g)
    assert small.cluster.resources == tuple(cluster.resources[k] for k in r)
    assert small.cluster.units == tuple(cluster.units[k] for k in r)
    assert small.cluster.labels == tuple(cluster.labels[k] for k in g)
    for ours, whole in (
        (small.count, problem.count[g]),
        (small.cluster.capacity, cluster.capacity[np.ix_(g, r)]),
        (small.demand, problem.demand[np.ix_(n, r)]),
        (small.task_limit, problem.task_limit[n]),
        (small.users.eligible, users.eligible[np.ix_(n, g)]),
    ):
        np.testing.assert_array_equal(ours, whole)
    if users.rates is not None and small.users.rates is not None:
        np.testing.assert_array_equal(small.users.rates, users.rates[np.ix_(n, g)])
    if users.resource_weight is None:
        np.testing.assert_array_equal(small.weight, problem.weight[n])
    else:
        expected = users.resource_weight[np.ix_(n, r)]
        are_alike = (expected == expected[:, :1]).all()  # one weight for all resources
        assert (small.users.resource_weight is None) == are_alike
        weight = small.weight[:, None] if are_alike else small.users.resource_weight
        np.testing.assert_array_equal(np.broadcast_to(weight, expected.shape), expected)


EXAMPLE = Problem.from_arrays(
    [[4.0, 0.0], [3.0, 5.0]],
    [[1.0, 0.0], [0.0, 2.0]],
    count=[2, 1],
    weight=[[1.0, 2.0], [3.0, 4.0]],
    resources=["cpu", "memory"],
    users=["ana", "bo"],
)


@pytest.mark.parametrize(
    "left",
    [
        {"users": []},
        {"groups": []},
        {"resources": []},
        {"resources": [0]},  # bo demands nothing any more
        {"groups": [0]},  # bo fits nowhere any more
    ],
)
def test_what_makes_no_problem_is_refused(left):
    with pytest.raises(ProblemError):
        restrict(EXAMPLE, **left)


@st.composite
def repetitive_problems(draw: st.DrawFn) -> Problem:
    """Small problems in which equal rows are common."""
    n_users, n_groups = draw(st.integers(1, 6)), draw(st.integers(1, 8))
    amount = st.sampled_from([1.0, 2.0])

    def row(length: int, cell: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(cell, min_size=length, max_size=length))

    eligible = None
    if draw(st.booleans()):
        eligible = np.array([row(n_groups, st.booleans()) for _ in range(n_users)])
        eligible[:, 0] = True
    rates = None
    if draw(st.booleans()):
        rates = np.array([row(n_groups, amount) for _ in range(n_users)])
        rates[np.array(row(n_users, st.booleans()))] = np.nan
    return Problem.from_arrays(
        [row(2, amount) for _ in range(n_groups)],
        [row(2, amount) for _ in range(n_users)],
        count=row(n_groups, st.integers(1, 5)),
        weight=row(n_users, amount),
        task_limit=row(n_users, st.sampled_from([1.0, 2.0, 4.0, np.inf])),
        eligible=eligible,
        rates=rates,
    )


def _rates(problem: Problem) -> np.ndarray:
    rates = problem.users.rates
    return np.zeros(problem.gamma.shape) if rates is None else np.nan_to_num(rates, nan=-1)


def _group_key(problem: Problem, g: int) -> tuple[object, ...]:
    columns = problem.cluster.capacity[g], problem.users.eligible[:, g], _rates(problem)[:, g]
    return tuple(tuple(column.tolist()) for column in columns)


def _user_key(problem: Problem, n: int) -> tuple[object, ...]:
    rows = problem.demand[n], problem.users.eligible[n], _rates(problem)[n]
    return (*(tuple(row.tolist()) for row in rows), problem.task_limit[n] / problem.weight[n])


@settings(max_examples=30, deadline=None)
@given(repetitive_problems())
def test_groups_merge_exactly_when_identical(problem: Problem) -> None:
    merged, index = merge_groups(problem)
    keys = [_group_key(problem, g) for g in range(problem.n_groups)]
    distinct = list(dict.fromkeys(keys))
    assert [distinct.index(key) for key in keys] == index.tolist()
    assert [_group_key(merged, m) for m in range(merged.n_groups)] == distinct
    for m, key in enumerate(distinct):
        members = [g for g, other in enumerate(keys) if other == key]
        assert merged.count[m] == problem.count[members].sum()
        assert merged.cluster.groups[m] == problem.cluster.groups[members[0]]
    np.testing.assert_allclose(merged.total_capacity, problem.total_capacity)
    tasks = np.random.default_rng(1).random((problem.n_users, merged.n_groups))
    spread = spread_groups(tasks, problem.count, index)
    for m in range(merged.n_groups):
        np.testing.assert_allclose(spread[:, index == m].sum(axis=1), tasks[:, m])
    np.testing.assert_allclose(spread / problem.count, (tasks / merged.count)[:, index])


@settings(max_examples=30, deadline=None)
@given(repetitive_problems())
def test_users_merge_exactly_when_identical(problem: Problem) -> None:
    merged, index, share = merge_users(problem)
    keys = [_user_key(problem, n) for n in range(problem.n_users)]
    distinct = list(dict.fromkeys(keys))
    assert [distinct.index(key) for key in keys] == index.tolist()
    assert [_user_key(merged, m) for m in range(merged.n_users)] == distinct
    for m, key in enumerate(distinct):
        members = [n for n, other in enumerate(keys) if other == key]
        assert merged.weight[m] == problem.weight[members].sum()
        assert merged.task_limit[m] == problem.task_limit[members].sum()
        np.testing.assert_allclose(share[members] * merged.weight[m], problem.weight[members])
    tasks = np.arange(merged.n_users * problem.n_groups, dtype=float)
    tasks = tasks.reshape(merged.n_users, problem.n_groups)
    spread = spread_users(tasks, index, share)
    np.testing.assert_allclose(spread.sum(axis=0), tasks.sum(axis=0))


def test_users_with_weights_per_resource_stay_apart() -> None:
    problem = Problem.from_arrays([[4, 4]], [[1, 1], [1, 1]], weight=[[1, 2], [1, 2]])
    merged, index, share = merge_users(problem)
    assert merged is problem
    assert index.tolist() == [0, 1]
    assert share.tolist() == [1.0, 1.0]


def test_unlike_rows_stay_and_there_is_one_zero() -> None:
    problem = Problem.from_arrays([[1, 2], [2, 1]], [[1, 1], [1, 0]])
    assert merge_groups(problem)[0] is problem
    assert merge_users(problem)[0] is problem
    zeros = Problem.from_arrays([[1, 0.0], [1, -0.0]], [[1, 0]])
    assert merge_groups(zeros)[0].count.tolist() == [2]

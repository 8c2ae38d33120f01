"""Merging: identical rows become one, totals are kept, and nothing else changes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.problem import Problem
from fairlead.model.reductions import merge_groups, merge_users, spread_groups, spread_users


@st.composite
def problems(draw: st.DrawFn) -> Problem:
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


def _group_key(problem: Problem, g: int) -> tuple[object, ...]:
    rates = problem.users.rates
    return (
        tuple(problem.cluster.capacity[g]),
        tuple(problem.users.eligible[:, g]),
        None if rates is None else tuple(np.nan_to_num(rates[:, g], nan=-1).tolist()),
    )


def _user_key(problem: Problem, n: int) -> tuple[object, ...]:
    rates = problem.users.rates
    return (
        tuple(problem.demand[n]),
        tuple(problem.users.eligible[n]),
        problem.task_limit[n] / problem.weight[n],
        None if rates is None else tuple(np.nan_to_num(rates[n], nan=-1).tolist()),
    )


@settings(max_examples=30, deadline=None)
@given(problems())
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


@settings(max_examples=20, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_spreading_keeps_each_users_tasks_and_each_servers_load(
    problem: Problem, random: Random
) -> None:
    merged, index = merge_groups(problem)
    rng = np.random.default_rng(random.getrandbits(32))
    tasks = rng.random((problem.n_users, merged.n_groups))
    spread = spread_groups(tasks, problem.count, index)
    for m in range(merged.n_groups):
        np.testing.assert_allclose(spread[:, index == m].sum(axis=1), tasks[:, m])
    np.testing.assert_allclose(spread / problem.count, (tasks / merged.count)[:, index])


@settings(max_examples=30, deadline=None)
@given(problems())
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


def test_nothing_to_merge_gives_the_same_problem() -> None:
    problem = Problem.from_arrays([[1, 2], [2, 1]], [[1, 1], [1, 0]])
    assert merge_groups(problem)[0] is problem
    assert merge_users(problem)[0] is problem


def test_there_is_one_zero() -> None:
    problem = Problem.from_arrays([[1, 0.0], [1, -0.0]], [[1, 0]])
    assert merge_groups(problem)[0].count.tolist() == [2]

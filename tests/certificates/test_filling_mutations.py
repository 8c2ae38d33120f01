"""A filling that was tampered with does not pass for one, whatever the policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlead.certificates.filling_replay import certify_filling
from fairlead.model.cluster import IntArray
from fairlead.model.problem import Problem
from fairlead.scheduler.policies import Policy, find_policy
from fairlead.simulation.filling import fill_by
from filling_problems import POLICIES, filling_problems
from oracles.plain_replay import is_filling

PROBLEM = Problem.from_arrays(
    [[20, 9], [7, 25], [12, 12]],
    [[3, 1], [1, 4], [2, 2], [1, 0]],
    count=[2, 1, 2],
    weight=[1, 2, 1, 3],
    eligible=[[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 0]],
    task_limit=[np.inf, np.inf, np.inf, 6],
)
by_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)


def rows(order: IntArray) -> list[tuple[int, int]]:
    return [(n, i) for n, i in order.tolist()]


def certified(policy: Policy, order: IntArray) -> bool:
    return certify_filling(PROBLEM, policy.criterion, policy.select, policy.residual, order).holds


@by_policy
def test_unknown_users_and_servers_fail(policy: Policy) -> None:
    order = fill_by(PROBLEM, policy).order
    assert certified(policy, order)
    for column, n_rows in ((0, PROBLEM.n_users), (1, PROBLEM.count.sum())):
        last = int(order[:, column].max())
        for wrong in (last - n_rows, last + n_rows, 10**12):
            named = order.copy()
            named[named[:, column] == last, column] = wrong
            assert not certified(policy, named)


@by_policy
def test_one_task_beyond_the_limit_fails(policy: Policy) -> None:
    """The order is that with one task more, so nothing but the limit is broken."""
    name = (policy.criterion, policy.select, policy.residual)
    for tasks in (1, 2, 3):
        more, fewer = (
            Problem.from_arrays([[2, 2], [6, 6]], [[1, 1]], task_limit=[limit])
            for limit in (tasks + 1, tasks)
        )
        order = fill_by(more, policy).order
        assert len(order) == tasks + 1
        assert certify_filling(more, *name, order).holds
        assert not certify_filling(fewer, *name, order).holds


FACTORS = [1.0, 1.0, 1 / 3, 0.7, np.pi, 1e-9, 1e12]
WEIGHTS = [1.0, 1 / 3, 0.1, 2.0, 1e-30, 1e30, 0.0, 0.0]


@st.composite
def wild_problems(draw: st.DrawFn) -> Problem:
    """Draw a small problem with decimal, inexact and huge amounts, and any weights."""
    problem = draw(filling_problems(largest_servers=5, largest_capacity=8))
    factors = draw(st.lists(st.sampled_from(FACTORS), min_size=3, max_size=3))
    factor = factors[: problem.n_resources]
    cluster = replace(problem.cluster, capacity=problem.cluster.capacity * factor)
    users = replace(problem.users, demand=problem.demand * factor)
    if draw(st.booleans()):
        size = problem.n_users
        weights = draw(st.lists(st.sampled_from(WEIGHTS), min_size=size, max_size=size))
        users = replace(users, weight=np.array(weights))
    return Problem(cluster, users)


def spoil(rng: np.random.Generator, order: IntArray, n_users: int, n_servers: int) -> IntArray:
    """Move a task, exchange two tasks or parts of them, leave out the last, or add one."""
    order = order.copy()
    how, k, other = rng.integers(6), *rng.integers(len(order), size=2)
    if how == 0:
        order[k, 1] = rng.integers(n_servers)
    elif how == 1:
        order[[k, other], 1] = order[[other, k], 1]
    elif how == 2:
        order[[k, other]] = order[[other, k]]
    elif how == 3:
        other = min(k + 1, len(order) - 1)
        order[[k, other]] = order[[other, k]]
    elif how == 4:
        order = order[:-1]
    else:
        row = [rng.integers(n_users), rng.integers(n_servers)]
        order = np.insert(order, rng.integers(len(order) + 1), row, axis=0)
    return order


@by_policy
@settings(deadline=None, max_examples=8)
@given(problem=wild_problems(), seed=st.integers(0, 999))
def test_orders_of_the_core_hold(policy: Policy, problem: Problem, seed: int) -> None:
    """The scheduler's order holds; spoiled a little, it is judged as by the definition."""
    name = (policy.criterion, policy.select, policy.residual)
    order = fill_by(problem, policy, seed).order
    assert certify_filling(problem, *name, order).violation == 0.0
    assert is_filling(problem, policy.name, rows(order))
    for number in range(4 if len(order) else 0):
        rng = np.random.default_rng([seed, number])
        spoiled = spoil(rng, order, problem.n_users, int(problem.count.sum()))
        expected = is_filling(problem, policy.name, rows(spoiled))
        assert certify_filling(problem, *name, spoiled).holds == expected


BEST_FIT_FIRST = find_policy("drf", "best-fit-first")


@settings(deadline=None, max_examples=40)
@example(  # servers that are equally good, the first of which takes the task
    problem=Problem.from_arrays([[5], [2]], [[1], [4], [1]], eligible=[[1, 0], [1, 1], [0, 1]]),
    policies=(find_policy("drf", "first-fit"), BEST_FIT_FIRST),
    seed=1,
)
@given(
    problem=wild_problems(),
    policies=st.sampled_from(
        [(a, b) for a in POLICIES for b in POLICIES if a.criterion == b.criterion]
    ),
    seed=st.integers(0, 999),
)
def test_orders_of_other_policies_are_told_apart(
    problem: Problem, policies: tuple[Policy, Policy], seed: int
) -> None:
    filler, policy = policies
    order = fill_by(problem, filler, seed).order
    name = (policy.criterion, policy.select, policy.residual)
    expected = is_filling(problem, policy.name, rows(order))
    assert certify_filling(problem, *name, order).holds == expected

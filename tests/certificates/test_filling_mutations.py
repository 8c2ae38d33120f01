"""A filling that was tampered with does not pass for one, whatever the policy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlead.certificates.filling import certify_filling
from fairlead.core.policies import Policy, find_policy
from fairlead.model.cluster import IntArray
from fairlead.model.problem import Problem
from fairlead.simulation.filling import fill_by
from filling_problems import POLICIES, filling_problems, random_filling_problem
from oracles.plain_filling import is_admissible

PROBLEM = Problem.from_arrays(
    [[20, 9], [7, 25], [12, 12]],
    [[3, 1], [1, 4], [2, 2], [1, 0]],
    count=[2, 1, 2],
    weight=[1, 2, 1, 3],
    eligible=[[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 0]],
    task_limit=[np.inf, np.inf, np.inf, 6],
)
pytestmark = pytest.mark.usefixtures("uncompiled")
by_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)


def certified(policy: Policy, order: IntArray) -> bool:
    return certify_filling(PROBLEM, policy.criterion, policy.select, policy.residual, order).holds


@by_policy
def test_what_was_placed_holds(policy: Policy) -> None:
    assert certified(policy, fill_by(PROBLEM, policy).order)


@by_policy
def test_a_task_left_out_is_noticed(policy: Policy) -> None:
    assert not certified(policy, fill_by(PROBLEM, policy).order[:-1])


@by_policy
def test_a_task_too_many_is_noticed(policy: Policy) -> None:
    order = fill_by(PROBLEM, policy).order
    assert not certified(policy, np.concatenate([order, order[-1:]]))


@by_policy
def test_a_task_where_its_user_may_not_run_is_noticed(policy: Policy) -> None:
    order = fill_by(PROBLEM, policy).order.copy()
    k = int(np.flatnonzero(order[:, 0] == 2)[0])
    order[k, 1] = 2  # the one server of the second group
    assert not certified(policy, order)


@by_policy
def test_a_user_or_server_that_is_none_is_noticed(policy: Policy) -> None:
    order = fill_by(PROBLEM, policy).order
    for column, n_rows in ((0, PROBLEM.n_users), (1, PROBLEM.count.sum())):
        last = int(order[:, column].max())
        for wrong in (last - n_rows, last + n_rows, 10**12):
            named = order.copy()
            named[named[:, column] == last, column] = wrong
            assert not certified(policy, named)


@by_policy
def test_a_user_served_beyond_its_tasks_is_noticed(policy: Policy) -> None:
    order = fill_by(PROBLEM, policy).order
    extra = order[order[:, 0] == 3][:1]
    assert (order[:, 0] == 3).sum() == PROBLEM.task_limit[3]
    without_last = order[:-1]
    assert not certified(policy, np.concatenate([extra, without_last]))


@by_policy
def test_serving_one_user_to_the_end_first_is_noticed(policy: Policy) -> None:
    order = fill_by(PROBLEM, policy).order
    one_first = order[np.argsort(order[:, 0] != 0, kind="stable")]
    assert not certified(policy, one_first)


@by_policy
def test_one_task_more_than_its_user_has_is_noticed(policy: Policy) -> None:
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


@pytest.mark.parametrize("criterion", ["drf", "tsf", "ps-dsf"])
def test_an_order_of_one_selection_does_not_pass_for_that_of_another(criterion: str) -> None:
    rng = np.random.default_rng(6)
    for _ in range(5):
        problem = random_filling_problem(rng, 6, 9, 2)
        orders = {
            policy.select: fill_by(problem, policy).order
            for policy in POLICIES
            if policy.criterion == criterion and not policy.residual
        }
        for select, order in orders.items():
            for other, its_order in orders.items():
                certificate = certify_filling(problem, criterion, select, False, its_order)
                assert certificate.holds is np.array_equal(order, its_order), (select, other)


def spoil(rng: np.random.Generator, order: IntArray, n_servers: int) -> IntArray:
    """Move a task, or exchange two tasks, their servers or their moments; or leave all as it is."""
    order = order.copy()
    how, k, other = rng.integers(5), *rng.integers(len(order), size=2)
    if how == 1:
        order[k, 1] = rng.integers(n_servers)
    elif how == 2:
        order[[k, other], 1] = order[[other, k], 1]
    elif how == 3:
        order[[k, other]] = order[[other, k]]
    elif how == 4:
        other = min(k + 1, len(order) - 1)
        order[[k, other]] = order[[other, k]]
    return order


BEST_FIT_FIRST = find_policy("drf", "best-fit-first")


@settings(deadline=None, max_examples=40)
@example(  # servers that are equally good, the first of which takes the task
    problem=Problem.from_arrays([[5], [2]], [[1], [4], [1]], eligible=[[1, 0], [1, 1], [0, 1]]),
    policies=(find_policy("drf", "first-fit"), BEST_FIT_FIRST),
    seed=1,
)
@given(
    problem=filling_problems(largest_servers=5, largest_capacity=8),
    policies=st.sampled_from(
        [(a, b) for a in POLICIES for b in POLICIES if a.criterion == b.criterion]
    ),
    seed=st.integers(0, 999),
)
def test_an_order_holds_if_the_policy_may_place_so(
    problem: Problem, policies: tuple[Policy, Policy], seed: int
) -> None:
    """An order of one policy, or of another, spoiled a little: judged as the definition does."""
    filler, policy = policies
    order = fill_by(problem, filler, seed).order
    if not len(order):
        return
    name = (policy.criterion, policy.select, policy.residual)
    for number in range(4):
        spoiled = spoil(np.random.default_rng([seed, number]), order, int(problem.count.sum()))
        rows = [tuple(row) for row in spoiled.tolist()]
        expected = is_admissible(problem, *name, rows)
        assert certify_filling(problem, *name, spoiled).holds == expected

"""A filling that was tampered with does not pass for one, whatever the policy."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.certificates.filling import certify_filling
from fairlead.model.cluster import IntArray
from fairlead.model.problem import Problem
from fairlead.scheduler.filling import fill_by
from fairlead.scheduler.policy import Policy
from filling_problems import POLICIES

PROBLEM = Problem.from_arrays(
    [[20, 9], [7, 25], [12, 12]],
    [[3, 1], [1, 4], [2, 2], [1, 0]],
    count=[2, 1, 2],
    weight=[1, 2, 1, 3],
    eligible=[[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 0]],
    task_limit=[np.inf, np.inf, np.inf, 6],
)
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

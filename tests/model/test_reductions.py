"""Problems with fewer users, groups or resources: the same numbers, and the names that go along."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Problem
from fairlead.errors import ProblemError
from fairlead.model.reductions import restrict
from strategies import ALL_FEATURES, problems


def some(data, length):
    """Draw some of a number of rows, in any order."""
    return data.draw(st.lists(st.integers(0, length - 1), min_size=1, unique=True))


@given(data=st.data())
def test_what_stays_is_as_it_was(data):
    problem = data.draw(problems(features=ALL_FEATURES))
    n = some(data, problem.n_users)
    g = some(data, problem.n_groups)
    r = some(data, problem.n_resources)
    try:
        small = restrict(problem, users=n, groups=g, resources=r)
    except ProblemError:
        assert not all(can_run(problem, k, g, r) for k in n)
        return
    cluster, users = problem.cluster, problem.users
    assert small.users.names == tuple(users.names[k] for k in n)
    assert small.cluster.groups == tuple(cluster.groups[k] for k in g)
    assert small.cluster.resources == tuple(cluster.resources[k] for k in r)
    assert small.cluster.units == tuple(cluster.units[k] for k in r)
    for i, group in enumerate(g):
        assert small.cluster.labels[i] == cluster.labels[group]
        assert small.count[i] == problem.count[group]
        for j, resource in enumerate(r):
            assert small.cluster.capacity[i, j] == cluster.capacity[group, resource]
    for i, user in enumerate(n):
        assert small.task_limit[i] == problem.task_limit[user]
        for j, resource in enumerate(r):
            assert small.demand[i, j] == problem.demand[user, resource]
            if users.resource_weight is not None:
                weight = small.users.resource_weight
                kept = small.weight[i] if weight is None else weight[i, j]
                assert kept == users.resource_weight[user, resource]
        if users.resource_weight is None:
            assert small.weight[i] == problem.weight[user]
        for j, group in enumerate(g):
            assert small.users.eligible[i, j] == users.eligible[user, group]
            if users.rates is not None and not np.isnan(users.rates[user, group]):
                assert small.users.rates[i, j] == users.rates[user, group]


def can_run(problem, user, groups, resources):
    """Whether some group that stays serves the user with the resources that stay."""
    rates = problem.users.rates
    rated = rates is not None and not np.isnan(rates[user, 0])
    asks = [r for r in resources if problem.demand[user, r] > 0]
    if not asks and not rated:
        return False
    for g in groups:
        if problem.users.eligible[user, g] and (
            rates[user, g] > 0 if rated else (problem.cluster.capacity[g, asks] > 0).all()
        ):
            return True
    return False


@given(problem=problems(features=ALL_FEATURES))
def test_all_of_it_is_the_same_problem(problem):
    for same in (restrict(problem), restrict(problem, users=range(problem.n_users))):
        np.testing.assert_array_equal(same.gamma, problem.gamma)
        np.testing.assert_array_equal(same.weight, problem.weight)
        np.testing.assert_array_equal(same.task_limit, problem.task_limit)
        assert same.users.names == problem.users.names


EXAMPLE = Problem.from_arrays(
    [[4.0, 0.0], [3.0, 5.0]],
    [[1.0, 0.0], [0.0, 2.0]],
    count=[2, 1],
    weight=[[1.0, 2.0], [3.0, 4.0]],
    resources=["cpu", "memory"],
    units=["cores", "GiB"],
    groups=["old", "new"],
    users=["ana", "bo"],
    labels=[{"zone": "a"}, {}],
)


def test_by_hand():
    small = restrict(EXAMPLE, users=[1], groups=[1], resources=[1])
    assert small.cluster.units == ("GiB",)
    assert small.weight.tolist() == [4]
    assert small.gamma.tolist() == [[2.5]]
    turned = restrict(EXAMPLE, users=[1, 0], groups=[1, 0])
    assert turned.users.names == ("bo", "ana")
    assert turned.gamma.tolist() == [[2.5, 0], [3, 8]]
    assert turned.cluster.labels == ({}, {"zone": "a"})


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


def test_columns_of_weights_that_become_alike_are_one_weight():
    three = Problem.from_arrays(
        [[1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0]] * 2, weight=[[2.0, 2.0, 1.0], [3.0, 3.0, 5.0]]
    )
    small = restrict(three, resources=[0, 1])
    assert small.users.resource_weight is None
    assert small.weight.tolist() == [2, 3]

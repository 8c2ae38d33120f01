"""What must not matter: units, the scale of weights, how servers are listed, and in what order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.mechanisms.catalogue import CATALOGUE, CONSTRAINTS, DIVISIBLE, solve
from fairlead.model.problem import Problem
from oracles import answers
from strategies import admitted_by

CONSTRAINED = [name for name, mechanism in CATALOGUE.items() if CONSTRAINTS in mechanism.accepts]
EXACT = ("whole", "few")  # amounts that stay exact when they are added up


def rebuilt(problem, **changed):
    """Return the problem again, validated, with some of its arrays replaced."""
    users = problem.users
    weight = users.weight if users.resource_weight is None else users.resource_weight
    arrays = {
        "capacity": problem.cluster.capacity,
        "demand": users.demand,
        "count": problem.count,
        "weight": weight,
        "eligible": users.eligible,
        "task_limit": users.task_limit,
        "rates": users.rates,
    }
    return Problem.from_arrays(**(arrays | changed))


def regrouped(problem, rows, count):
    """Return the problem with these rows of servers, so many in each."""
    rates = problem.users.rates
    return rebuilt(
        problem,
        capacity=problem.cluster.capacity[rows],
        count=count,
        eligible=problem.users.eligible[:, rows],
        rates=None if rates is None else rates[:, rows],
    )


def assert_same_totals(problem, changed, mechanism, order=slice(None), rtol=1e-6):
    before = solve(problem, mechanism).user_tasks[order]
    after = solve(changed, mechanism).user_tasks
    np.testing.assert_allclose(after, before, rtol=rtol)


def assert_same_totals_where_unique(problem, changed, mechanism, order=slice(None)):
    """Compare totals, or only check the other answer where the definition leaves several."""
    if answers.has_unique_totals(problem, mechanism):
        assert_same_totals(problem, changed, mechanism, order)
    else:
        other = solve(changed, mechanism)
        assert answers.violation(other.problem, mechanism, other.tasks) <= 1e-6


@pytest.mark.parametrize("mechanism", CATALOGUE)
@settings(max_examples=25)
@given(data=st.data())
def test_the_unit_of_a_resource(mechanism, data):
    problem = data.draw(admitted_by(mechanism))
    power = st.integers(-20, 20).map(lambda k: 2.0**k)
    unit = np.array([data.draw(power) for _ in range(problem.n_resources)])
    changed = rebuilt(
        problem, capacity=problem.cluster.capacity * unit, demand=problem.demand * unit
    )
    assert_same_totals(problem, changed, mechanism, rtol=1e-9)


@pytest.mark.parametrize("mechanism", CATALOGUE)
@settings(max_examples=25)
@given(data=st.data())
def test_the_scale_of_weights(mechanism, data):
    problem = data.draw(admitted_by(mechanism))
    scale = 2.0 ** data.draw(st.integers(-10, 10))
    table = problem.users.resource_weight
    weight = problem.weight if table is None else table
    assert_same_totals(problem, rebuilt(problem, weight=weight * scale), mechanism, rtol=1e-9)


@pytest.mark.parametrize("mechanism", CATALOGUE)
@settings(max_examples=25)
@given(data=st.data())
def test_servers_listed_one_by_one(mechanism, data):
    # Equal totals even where the definition leaves several: identical servers are one group.
    problem = data.draw(admitted_by(mechanism, kinds=EXACT, largest_groups=4))
    rows = np.repeat(np.arange(problem.n_groups), problem.count)
    assert_same_totals(problem, regrouped(problem, rows, np.ones(len(rows))), mechanism)


@pytest.mark.parametrize("mechanism", CATALOGUE)
@settings(max_examples=25)
@given(data=st.data())
def test_a_group_in_two_rows(mechanism, data):
    # As above. (The sweeps of the oracle do not merge rows, and do fail here for ps-dsf.)
    problem = data.draw(admitted_by(mechanism, kinds=EXACT))
    doubled = rebuilt(problem, count=problem.count * 3)
    g = data.draw(st.integers(0, problem.n_groups - 1))
    rows = np.append(np.arange(problem.n_groups), g)
    count = np.append(doubled.count, problem.count[g])
    count[g] -= problem.count[g]
    assert_same_totals(doubled, regrouped(problem, rows, count), mechanism)


# Whole tasks are not here: the order of users breaks their ties.
@pytest.mark.parametrize("mechanism", DIVISIBLE)
@settings(max_examples=25)
@given(data=st.data())
def test_the_order_of_users(mechanism, data):
    problem = data.draw(admitted_by(mechanism))
    order = np.array(data.draw(st.permutations(range(problem.n_users))))
    users = problem.users
    table = users.resource_weight
    changed = rebuilt(
        problem,
        demand=users.demand[order],
        weight=users.weight[order] if table is None else table[order],
        eligible=users.eligible[order],
        task_limit=users.task_limit[order],
        rates=None if users.rates is None else users.rates[order],
    )
    assert_same_totals_where_unique(problem, changed, mechanism, order)


@pytest.mark.parametrize("mechanism", CATALOGUE)
@settings(max_examples=25)
@given(data=st.data())
def test_the_order_of_groups(mechanism, data):
    problem = data.draw(admitted_by(mechanism))
    rows = np.array(data.draw(st.permutations(range(problem.n_groups))))
    changed = regrouped(problem, rows, problem.count[rows])
    assert_same_totals_where_unique(problem, changed, mechanism)


@pytest.mark.parametrize("mechanism", CATALOGUE)
@settings(max_examples=25)
@given(data=st.data())
def test_the_order_of_resources(mechanism, data):
    problem = data.draw(admitted_by(mechanism))
    columns = np.array(data.draw(st.permutations(range(problem.n_resources))))
    table = problem.users.resource_weight
    changed = rebuilt(
        problem,
        capacity=problem.cluster.capacity[:, columns],
        demand=problem.demand[:, columns],
        weight=problem.weight if table is None else table[:, columns],
    )
    assert_same_totals_where_unique(problem, changed, mechanism)


@pytest.mark.parametrize("mechanism", CONSTRAINED)
@settings(max_examples=25)
@given(data=st.data())
def test_a_constraint_on_servers_of_no_use(mechanism, data):
    problem = data.draw(admitted_by(mechanism))
    of_no_use = problem.unconstrained_gamma == 0
    allowed = rebuilt(problem, eligible=problem.users.eligible | of_no_use)
    barred = Problem(
        problem.cluster,
        replace(problem.users, eligible=problem.users.eligible & ~of_no_use),
    )
    assert_same_totals(allowed, barred, mechanism, rtol=1e-9)

"""Bottleneck and single-resource fairness, and DRF on one server, against plain definitions."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fairlead import Problem
from fairlead.mechanisms.catalogue import CONSTRAINTS, LIMITS, RESOURCE_WEIGHTS
from fairlead.model.holdings import Holdings
from fairlead.properties.special_cases import (
    check_bottleneck_fairness,
    check_single_resource_fairness,
    check_single_server_drf,
    fair_amounts,
    find_bottleneck,
    find_single_resource,
)
from fairlead.properties.subject import Subject, subject_of
from oracles import fairness
from oracles.drf import drf_totals
from random_holdings import any_tasks
from strategies import problems

SURELY = 2e-5
HARDLY = 1e-7


def subject(problem, tasks, *, time_shared=False, whole=False):
    holdings = Holdings(problem, np.asarray(tasks, dtype=float), "by hand", whole_tasks=whole)
    return Subject("by hand", holdings, problem, time_shared=time_shared)


@st.composite
def problems_with_a_bottleneck(draw, features=(CONSTRAINTS, LIMITS)):
    """Raise one demand of each user until it is dominant wherever that may run."""
    drawn = draw(problems(features=features, zeros=False))
    r = draw(st.integers(0, drawn.n_resources - 1))
    demand = drawn.demand.copy()
    for n in range(drawn.n_users):
        for g in np.flatnonzero(drawn.users.eligible[n]):
            server = drawn.cluster.capacity[g]
            demand[n, r] = max(demand[n, r], *(demand[n] / server * server[r]))
    return Problem.from_arrays(
        drawn.cluster.capacity,
        demand,
        count=drawn.count,
        weight=drawn.weight,
        eligible=drawn.users.eligible,
        task_limit=drawn.task_limit,
    )


@given(problem=problems(features=(CONSTRAINTS,), kinds=("whole", "few")))
def test_the_premise_is_the_papers(problem):
    found = fairness.common_bottlenecks(problem)
    assert find_bottleneck(problem) == (found[0] if found else None)
    demanded = np.flatnonzero(problem.demand.any(axis=0))
    assert find_single_resource(problem) == (demanded[0] if len(demanded) == 1 else None)


@pytest.mark.parametrize("mechanism", ["ps-dsf", "tsf", "ps-dsf-tdm"])
@settings(max_examples=5)
@given(data=st.data())
def test_verdicts_follow_the_definition(mechanism, data):
    problem = data.draw(problems_with_a_bottleneck())
    tasks = data.draw(any_tasks(problem, mechanism))
    assume(np.isfinite(tasks).all())
    resource = find_bottleneck(problem)
    assume(resource is not None)  # rounding may undo a tie
    fair = fairness.max_min_amounts(problem, resource)
    np.testing.assert_allclose(fair_amounts(problem, resource), fair, rtol=1e-6)
    verdict = check_bottleneck_fairness(subject(problem, tasks))
    json.dumps(verdict.to_dict(), allow_nan=False)
    held = tasks.sum(axis=1) * problem.demand[:, resource]
    off = np.abs(held / fair - 1)
    if off.max() > SURELY:
        assert verdict.verdict == "fails"
    if off.max() <= HARDLY:
        assert verdict.verdict == "holds"
    if verdict.verdict == "fails":
        witness = verdict.witness
        n = problem.users.names.index(witness["user"])
        assert witness["held"] == pytest.approx(held[n])
        assert witness["fair"] == pytest.approx(fair[n], rel=1e-6)
        assert witness["tasks"] == tasks[n].sum()
        assert witness["fair_tasks"] == pytest.approx(fair[n] / problem.demand[n, resource])
        assert abs(witness["held"] / witness["fair"] - 1) > 1e-6


@given(data=st.data())
def test_on_one_server_the_definition_is_drf(data):
    problem = data.draw(problems(features=(LIMITS,), largest_groups=1))
    if data.draw(st.booleans()):
        problem = data.draw(problems(features=(LIMITS,), force=(RESOURCE_WEIGHTS,))).pooled()
    tasks = data.draw(any_tasks(problem, "drf"))
    assume(np.isfinite(tasks).all())
    verdict = check_single_server_drf(subject(problem, tasks))
    json.dumps(verdict.to_dict(), allow_nan=False)
    drf = drf_totals(problem)
    off = np.abs(tasks.sum(axis=1) / drf - 1)
    if off.max() > SURELY:
        assert verdict.verdict == "fails"
    if off.max() <= HARDLY:
        assert verdict.verdict == "holds"
    if verdict.verdict == "fails":
        n = problem.users.names.index(verdict.witness["user"])
        assert verdict.witness["tasks"] == tasks[n].sum()
        assert verdict.witness["drf"] == pytest.approx(drf[n], rel=1e-6)


def test_more_than_fair_is_not_fair_either():
    """No user falls short, but one holds more than the capacity."""
    problem = Problem.from_arrays([[10.0]], [[1.0], [1.0]])
    for check in (check_bottleneck_fairness, check_single_resource_fairness):
        assert check(subject(problem, [[5.0], [5.0]])).verdict == "holds"
        assert check(subject(problem, [[5.0], [6.0]])).witness["user"] == "u2"


def test_problems_without_the_premise():
    two = Problem.from_arrays([[10.0, 10.0]], [[1.0, 2.0], [2.0, 1.0]])
    rated = Problem.from_arrays([[1.0]], [[1.0]], rates=[[5.0]])
    for check in (check_bottleneck_fairness, check_single_resource_fairness):
        assert not check(subject(two, [[0.0], [0.0]])).applies
        assert not check(subject(rated, [[0.0]], time_shared=True)).applies
    assert not check_single_server_drf(subject(rated, [[0.0]], time_shared=True)).applies
    apart = Problem.from_arrays([[1.0], [1.0]], [[1.0]])
    assert not check_single_server_drf(subject(apart, [[0.0, 0.0]])).applies
    assert check_single_server_drf(subject_of(apart, "drf")).applies  # all as one pool
    whole = Problem.from_arrays([[10.0]], [[3.0], [3.0]])
    assert (
        check_bottleneck_fairness(subject(whole, [[2.0], [1.0]], whole=True)).verdict == "unknown"
    )
    weighted = Problem.from_arrays([[10.0, 10.0]], [[3.0, 1.0]] * 2, weight=[[1, 2], [2, 1]])
    assert check_bottleneck_fairness(subject(weighted, [[1.0], [1.0]])).verdict == "unknown"

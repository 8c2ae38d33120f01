"""Pareto optimality, against one plain linear programme for each user."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fairlead import Problem
from fairlead.mechanisms.catalogue import CONSTRAINTS, LIMITS, RATES
from fairlead.model.holdings import Holdings
from fairlead.properties.efficiency import check_pareto_optimality
from fairlead.properties.subject import Subject, subject_of
from oracles import fairness
from oracles.definitions import feasibility_violation
from random_holdings import any_tasks
from strategies import problems

SURELY = 1e-5
HARDLY = 1e-9


def check(problem, tasks, *, time_shared=False, whole=False):
    holdings = Holdings(problem, np.asarray(tasks, dtype=float), "by hand", whole_tasks=whole)
    subject = Subject("by hand", holdings, problem, time_shared=time_shared)
    return check_pareto_optimality(subject)


def check_witness(verdict, problem, tasks, time_shared=False):
    """The witness is feasible, better for one user and worse for none."""
    json.dumps(verdict.to_dict(), allow_nan=False)
    users, groups = problem.users.names, problem.cluster.groups
    better = np.zeros_like(tasks)
    for user, held in verdict.witness["better"].items():
        for group, amount in held.items():
            better[users.index(user), groups.index(group)] = amount
    before = feasibility_violation(problem, tasks, time_shared)
    assert feasibility_violation(problem, better, time_shared) <= max(before, 0) + 1e-8
    gain = better.sum(axis=1) - tasks.sum(axis=1)
    n = users.index(verdict.witness["user"])
    assert verdict.witness["tasks"] == pytest.approx(tasks[n].sum())
    assert verdict.witness["could"] == pytest.approx(better[n].sum())
    assert gain[n] > 1e-8 * fairness.alone(problem, n)
    for m in range(problem.n_users):
        assert gain[m] >= -1e-6 * max(tasks[m].sum(), 1e-3 * fairness.alone(problem, m))


@pytest.mark.parametrize("mechanism", ["ps-dsf", "max-tasks", "ps-dsf-tdm"])
@settings(max_examples=8)
@given(data=st.data())
def test_verdicts_follow_the_definition(mechanism, data):
    time_shared = mechanism == "ps-dsf-tdm"
    features = (CONSTRAINTS, LIMITS, RATES) if time_shared else (CONSTRAINTS, LIMITS)
    problem = data.draw(problems(features=features, largest_users=5, largest_groups=4))
    tasks = data.draw(any_tasks(problem, mechanism))
    verdict = check(problem, tasks, time_shared=time_shared)
    if feasibility_violation(problem, tasks, time_shared) > 2e-6:
        assert verdict.verdict == "unknown"
        return
    assume(feasibility_violation(problem, tasks, time_shared) <= HARDLY)
    most = max(
        fairness.possible_gain(problem, tasks, n, time_shared) / fairness.alone(problem, n)
        for n in range(problem.n_users)
    )
    if most > SURELY:
        assert verdict.verdict == "fails"
    if verdict.verdict == "fails":
        assert most > HARDLY
        check_witness(verdict, problem, tasks, time_shared)
    assert verdict.verdict != "unknown"


def test_few_tasks_count_in_a_large_cluster():
    problem = Problem.from_arrays([[1e9]], [[1.0]], task_limit=[5.0])
    verdict = check(problem, np.zeros((1, 1)))
    assert verdict.witness["could"] == pytest.approx(5)


def test_one_more_whole_task_in_a_large_pool_is_not_rounding():
    problem = Problem.from_arrays([[1e8]], [[1.0]])
    verdict = check(problem, np.array([[1e8 - 1]]), whole=True)
    assert verdict.witness["could"] == 1e8
    assert check(problem, np.array([[1e8]]), whole=True).verdict == "holds"


def test_one_more_whole_task_on_large_servers_is_not_ruled_out():
    problem = Problem.from_arrays([[1e8], [1e8]], [[1.0]])
    assert check(problem, np.array([[1e8, 1e8 - 1]]), whole=True).verdict != "holds"
    assert check(problem, np.array([[1e8, 1e8]]), whole=True).verdict == "holds"


def test_room_in_the_sum_of_two_servers_is_no_room():
    problem = Problem.from_arrays([[1.5]], [[1.0]], count=[2])
    assert check(problem, np.array([[2.0]]), whole=True).verdict == "unknown"


def test_what_others_lose_in_rounding_is_no_gain():
    """The third user needs next to nothing of what the first one does not notice to lose."""
    problem = Problem.from_arrays(
        [[0.06, 40, 600, 0.09], [1e-3, 0.02, 7e3, 0.2], [5, 9e4, 7, 9e-4]],
        [[2e3, 0.07, 0.5, 7], [2, 0.1, 1e4, 0.04], [7e-3, 100, 0.03, 8e4]],
        count=[10, 3, 4],
        weight=[
            [1.39563748, 0.39563748, 1.0, 1.63318206],
            [2.0, 1.0001, 7.81578601, 5.27706852],
            [2.0, 1.0, 2.0, 1.0],
        ],
        task_limit=[0.00020395, np.inf, np.inf],
    )
    assert check_pareto_optimality(subject_of(problem, "drf")).verdict != "fails"


def test_large_programmes_and_many_shapes_are_left_open():
    problem = Problem.from_arrays([[2.0]], [[1.0]])
    amounts = np.ones((1, 1, 1))
    holdings = Holdings(problem, np.ones((1, 1)), amounts=amounts)
    verdict = check_pareto_optimality(Subject("file", holdings, problem))
    assert verdict.verdict == "unknown"
    assert "shapes" in verdict.sentence


def test_waste_of_whole_tasks_proves_a_failure():
    """One of two servers has room for a whole task."""
    problem = Problem.from_arrays([[3.0], [2.0]], [[1.0]])
    verdict = check(problem, np.array([[3.0, 1.0]]), whole=True)
    assert (verdict.verdict, verdict.witness["could"]) == ("fails", 5)
    assert check(problem, np.array([[3.0, 2.0]]), whole=True).verdict == "holds"

"""Envy, by hand and against the definition server by server."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Problem, solve
from fairlead.mechanisms.catalogue import CONSTRAINTS, LIMITS, RATES
from fairlead.properties.envy import measure_envy
from strategies import problems


def plain_tasks_with(problem, tasks, n, m, *, time_shared):
    """Tasks that user n could run with the bundle of m, its limit and weights aside."""
    could = 0.0
    for g in range(problem.n_groups):
        if not problem.runnable[n, g] or tasks[m, g] == 0:
            continue
        if time_shared:
            could += tasks[m, g] / problem.gamma[m, g] * problem.gamma[n, g]
            continue
        asks = problem.demand[n] > 0
        could += (tasks[m, g] * problem.demand[m, asks] / problem.demand[n, asks]).min()
    return could


@pytest.mark.parametrize("time_shared", [False, True])
@given(data=st.data())
def test_gains_are_what_the_definition_says(time_shared, data):
    features = (CONSTRAINTS, LIMITS, RATES) if time_shared else (CONSTRAINTS, LIMITS)
    problem = data.draw(problems(features=features))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    tasks = rng.random((problem.n_users, problem.n_groups)) * problem.gamma / problem.n_users
    tasks *= np.minimum(problem.task_limit / tasks.sum(axis=1), 1.0)[:, None]
    envy = measure_envy(problem, tasks, time_shared=time_shared)
    for n in range(problem.n_users):
        own = tasks[n].sum()
        best = own
        for m in range(problem.n_users):
            if m != n:
                could = plain_tasks_with(problem, tasks, n, m, time_shared=time_shared)
                could *= problem.weight[n] / problem.weight[m]
                best = max(best, min(could, problem.task_limit[n]))
        assert envy.gain[n] == pytest.approx(best / own - 1, rel=1e-9, abs=1e-12)
        assert (envy.envied[n] == n) == (envy.gain[n] == 0)


def test_who_has_nothing_envies_without_bounds():
    problem = Problem.from_arrays([[10.0]], [[1.0], [1.0]])
    envy = measure_envy(problem, np.array([[10.0], [0.0]]))
    assert envy.gain.tolist() == [0, np.inf]
    assert envy.envied.tolist() == [0, 0]
    assert envy.count(1e-6) == 1


def test_a_bundle_on_forbidden_servers_is_worth_nothing():
    problem = Problem.from_arrays(
        [[10.0], [10.0]], [[1.0], [1.0]], eligible=[[True, False], [True, True]]
    )
    assert measure_envy(problem, np.array([[1.0, 0.0], [0.0, 10.0]])).gain.tolist() == [0, 0]


@given(problem=problems(features=(CONSTRAINTS,)))
def test_ps_dsf_leaves_no_envy(problem):
    assert measure_envy(problem, solve(problem, "ps-dsf").tasks).gain.max() <= 1e-5

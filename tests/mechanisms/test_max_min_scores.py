"""Max-min of a score of one's choice: the named ones, others, and Definition 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from fairlead import InputError, Problem, RefusalError, solve
from fairlead.certificates.max_min_duality import measure_unfair_neighbours
from fairlead.mechanisms.catalogue import CONSTRAINTS, LIMITS
from fairlead.mechanisms.max_min import score_ps_dsf
from oracles import definitions, examples, leximax
from strategies import problems


def plain_ps_dsf_score(problem):
    """Eq. 12, server by server."""
    score = np.zeros(problem.n_users)
    for n in range(problem.n_users):
        for g in range(problem.n_groups):
            if problem.runnable[n, g]:
                asks = problem.demand[n] > 0
                on_one = (problem.demand[n, asks] / problem.cluster.capacity[g, asks]).max()
                score[n] += problem.count[g] * on_one
    return score


@settings(max_examples=8)
@given(problem=problems(features=(CONSTRAINTS, LIMITS)))
def test_named_scores(problem):
    for name, mechanism in (("drf", "drfh"), ("tsf", "tsf")):
        tasks = solve(problem, "max-min", score=name).user_tasks
        np.testing.assert_allclose(tasks, solve(problem, mechanism).user_tasks, rtol=1e-7)
    score = plain_ps_dsf_score(problem)
    np.testing.assert_allclose(score_ps_dsf(problem), score, rtol=1e-12)
    allocation = solve(problem, "max-min", score="ps-dsf")
    assert definitions.max_min_violation(problem, allocation.tasks, score) <= 1e-6
    np.testing.assert_allclose(
        allocation.user_tasks, leximax.leximax_totals(problem, score), rtol=1e-6
    )


@settings(max_examples=8)
@given(problem=problems(features=(CONSTRAINTS,)), seed=st.integers(0, 99))
def test_a_score_per_user_or_the_same_on_every_server(problem, seed):
    # Two solvers: prices for scores per user, linear programmes for scores per server.
    rng = np.random.default_rng(seed)
    score = rng.uniform(0.5, 2, problem.n_users)
    one = solve(problem, "max-min", score=score)
    table = np.repeat(score[:, None], problem.n_groups, axis=1)
    np.testing.assert_allclose(
        solve(problem, "max-min", score=table).user_tasks, one.user_tasks, rtol=1e-9
    )
    assert definitions.max_min_violation(problem, one.tasks, score) <= 1e-6


@settings(max_examples=8)
@given(
    problem=problems(features=(CONSTRAINTS,), zeros=False, kinds=("whole", "any")),
    seed=st.integers(0, 99),
)
def test_scores_that_differ_by_server(problem, seed):
    rng = np.random.default_rng(seed)
    score = rng.uniform(0.5, 2, (problem.n_users, problem.n_groups))
    allocation = solve(problem, "max-min", score=score)
    assert allocation.certificate.holds
    assert measure_unfair_neighbours(problem, allocation.tasks, score) <= 1e-6
    level = (allocation.tasks * score).sum(axis=1) / problem.weight
    assert level.min() == pytest.approx(largest_least_level(problem, score), rel=1e-6)


def largest_least_level(problem, score):
    """Return the largest least level, by one plain linear programme."""
    n_users, n_groups = score.shape
    of_user = np.kron(np.eye(n_users), np.ones(n_groups)) * score.ravel()
    rows = [np.column_stack([-of_user / problem.weight[:, None], np.ones(n_users)])]
    for g in range(n_groups):
        split = np.zeros((n_users, n_groups, problem.n_resources))
        split[:, g] = problem.demand
        used = split.reshape(-1, problem.n_resources).T
        rows.append(np.column_stack([used, np.zeros(problem.n_resources)]))
    most = np.concatenate([np.zeros(n_users), problem.group_capacity.ravel()])
    bounds = [(0, None if run else 0) for run in problem.runnable.ravel()] + [(0, None)]
    objective = np.append(np.zeros(score.size), -1.0)
    return -linprog(objective, np.vstack(rows), most, bounds=bounds).fun


def test_definition_1_sees_the_rich_beside_the_poor():
    # One server of 10, demands of 1: user 1 has 6 and user 2 has 4.
    problem = Problem.from_arrays([[10.0]], [[1.0], [1.0]])
    ones = np.ones(2)
    assert measure_unfair_neighbours(problem, np.array([[6.0], [4.0]]), ones) == pytest.approx(0.5)
    assert measure_unfair_neighbours(problem, np.array([[5.0], [5.0]]), ones) == 0
    # Not where nothing is used up, nor where the poor has all it wants, ...
    assert measure_unfair_neighbours(problem, np.array([[6.0], [3.0]]), ones) == 0
    limited = Problem.from_arrays([[10.0]], [[1.0], [1.0]], task_limit=[np.inf, 4])
    assert measure_unfair_neighbours(limited, np.array([[6.0], [4.0]]), ones) == 0
    # ... nor where the rich does not use what keeps the poor back.
    problem = Problem.from_arrays([[4.0, 10.0]], [[0.0, 1.0], [1.0, 1.0]])
    assert measure_unfair_neighbours(problem, np.array([[6.0], [4.0]]), ones) == 0


def test_faults_of_scores():
    problem = examples.ps_dsf_figure_1()
    with pytest.raises(InputError, match="score: no score is named 'x'; known: drf, tsf, ps-dsf"):
        solve(problem, "max-min", score="x")
    with pytest.raises(InputError, match=r"score\[2\]\[0\]: must be a positive number, not 0"):
        solve(problem, "max-min", score=[1, 1, 0])
    for score in ([1], [[1, 1]]):
        with pytest.raises(InputError, match=r"must be a number, or of shape \(3,\) or \(3, \d\)"):
            solve(problem, "max-min", score=score)
    limited = Problem.from_arrays([[4.0], [2.0]], [[1.0]], task_limit=[2])
    with pytest.raises(RefusalError, match="finite tasks with scores that differ by server"):
        solve(limited, "max-min", score=[[1, 2]])

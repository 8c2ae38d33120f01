"""The oracles give the papers' printed numbers, and agree with each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from fairlead.mechanisms import catalogue
from fairlead.model.problem import Problem
from oracles import answers, definitions, drf, examples, leximax, sweeps
from random_problems import google_park, random_problem
from strategies import ALL_FEATURES, problems

CONSTRAINTS_AND_LIMITS = (catalogue.CONSTRAINTS, catalogue.LIMITS)


@pytest.mark.parametrize(("example", "mechanism"), examples.PRINTED_TOTALS)
def test_printed_totals(example, mechanism):
    printed, tolerance = examples.PRINTED_TOTALS[example, mechanism]
    problem = example()
    totals = answers.oracle_totals(problem, mechanism)
    np.testing.assert_allclose(totals, printed, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("example", "mechanism"), examples.PRINTED_TASKS)
def test_printed_splits_satisfy_the_definitions(example, mechanism):
    problem = example()
    tasks = np.array(examples.PRINTED_TASKS[example, mechanism], dtype=float)
    assert answers.violation(problem, mechanism, tasks) <= 1e-12


@given(problems(features=CONSTRAINTS_AND_LIMITS, largest_users=6))
def test_leximax_is_max_min_fair(problem):
    for score in (leximax.drfh_score(problem), leximax.tsf_score(problem)):
        tasks = answers.split_totals(problem, leximax.leximax_totals(problem, score))
        assert definitions.max_min_violation(problem, tasks, score) <= 1e-6


@given(problems(features=(catalogue.LIMITS,), largest_groups=1))
def test_rounds_on_one_pool_are_leximax(problem):
    rounds = drf.drf_totals(problem)
    programmes = leximax.leximax_totals(problem, leximax.drfh_score(problem))
    np.testing.assert_allclose(rounds, programmes, rtol=1e-7)


@settings(max_examples=10)
@given(problems(features=ALL_FEATURES[:3]))
def test_sweeps_settle_where_the_theorems_hold(problem):
    for mechanism in ("ps-dsf", "ps-dsf-tdm"):
        tasks = answers.swept_tasks(problem, mechanism)
        assert answers.violation(problem, mechanism, tasks) <= 1e-9


def halve(tasks):
    tasks[int(tasks.sum(axis=1).argmax())] *= 0.5


def add_to_a_full_server(tasks):
    n, g = np.unravel_index(tasks.argmax(), tasks.shape)
    tasks[n, g] *= 1.01


@pytest.mark.parametrize("spoil", [halve, add_to_a_full_server])
@pytest.mark.parametrize("mechanism", ["drfh", "tsf", "ps-dsf", "ps-dsf-tdm"])
def test_definitions_see_a_spoiled_answer(mechanism, spoil):
    rng = np.random.default_rng(5)
    for _ in range(4):
        problem = random_problem(rng, 5, 3, 2, constrained=0.3, weighted=True)
        tasks = answers.oracle_tasks(problem, mechanism)
        assert answers.violation(problem, mechanism, tasks) <= 1e-7
        spoil(tasks)
        assert answers.violation(problem, mechanism, tasks) >= 1e-3


def test_definitions_see_tasks_on_forbidden_servers():
    problem = examples.ps_dsf_section_v()
    tasks = np.array(examples.PRINTED_TASKS[examples.ps_dsf_section_v, "ps-dsf"])
    tasks[3, 0], tasks[3, 3] = 1.0, 26.5
    assert definitions.feasibility_violation(problem, tasks) >= 0.5


def test_definitions_ignore_rounding_at_different_scales():
    # The last user has 3e-4 tasks that take a 100th of r1 each, so the rounding errors of others
    # are 1e-6 of its tasks.
    demand = [[1, 1]] * 4 + [[1e-2, 1e4]]
    problem = Problem.from_arrays([[1, 1], [1, 1], [1, 10]], demand)
    tasks = answers.oracle_tasks(problem, "drfh")
    assert answers.violation(problem, "drfh", tasks) <= 1e-7


def test_the_google_park_has_the_printed_servers():
    problem = google_park(np.random.default_rng(0), 12, constrained=0.5, limited=0.5)
    assert problem.count.sum() == 12_583
    assert problem.has_constraints
    assert np.isfinite(problem.task_limit).any()
    assert np.isinf(problem.task_limit).any()
    tasks = sweeps.ps_dsf_tasks(problem, time_shared=True, still=1e-9)
    assert definitions.theorem_2_violation(problem, tasks) <= 1e-7

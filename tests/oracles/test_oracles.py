"""The checks of the definitions see a spoiled answer, and the park is the printed one."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead import solve
from oracles import answers
from random_problems import google_park, random_problem


def halve(tasks):
    tasks[int(tasks.sum(axis=1).argmax())] *= 0.5


def add_to_a_full_server(tasks):
    n, g = np.unravel_index(tasks.argmax(), tasks.shape)
    tasks[n, g] *= 1.01


@pytest.mark.parametrize("spoil", [halve, add_to_a_full_server])
@pytest.mark.parametrize("mechanism", ["drfh", "tsf", "ps-dsf", "ps-dsf-tdm"])
def test_definitions_see_a_spoiled_answer(mechanism, spoil):
    rng = np.random.default_rng(5)
    for _ in range(2):
        problem = random_problem(rng, 5, 3, 2, constrained=0.3, weighted=True)
        tasks = solve(problem, mechanism).tasks.copy()
        assert answers.violation(problem, mechanism, tasks) <= 1e-7
        spoil(tasks)
        assert answers.violation(problem, mechanism, tasks) >= 1e-3


def test_the_google_park_has_the_printed_servers():
    problem = google_park(np.random.default_rng(0), 12, constrained=0.5, limited=0.5)
    assert problem.count.sum() == 12_583
    assert problem.has_constraints
    assert np.isfinite(problem.task_limit).any()
    assert np.isinf(problem.task_limit).any()

"""PS-DSF with finite tasks: many users, and which of several answers is given."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.certificates.bottleneck_theorems import certify_bottleneck
from fairlead.mechanisms import psdsf
from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from random_problems import random_problem

ENDLESS = np.inf


@pytest.mark.parametrize("limited", [0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_soft_levels_alone_come_close_with_finite_tasks(seed: int, limited: float) -> None:
    """What is left to sweeps is little, whatever the number of users."""
    problem = random_problem(
        np.random.default_rng(seed), 100, 12, 4, limited=limited, constrained=0.3
    )
    sweeps = psdsf.prepare_sweeps(problem, "ps-dsf")
    *_, tasks = psdsf._soft_tasks(sweeps)
    assert certify_bottleneck(problem, tasks).violation <= 1e-6
    assert (tasks.sum(axis=1) <= problem.task_limit * (1 + 1e-6)).all()


@pytest.mark.parametrize("seed", range(4))
def test_where_one_resource_binds_it_is_the_proportional_answer(seed: int) -> None:
    """Who has all its tasks may run them anywhere; soft levels run them where least is wanted."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 8, 4, 1, limited=0.5, constrained=0.5, weighted=True)
    expected = solve(problem, "proportional-tdm").user_tasks
    np.testing.assert_allclose(solve(problem, "ps-dsf").user_tasks, expected, rtol=1e-6)


def test_with_zero_demands_the_answer_is_proportional() -> None:
    """Users 1 and 3 run half a task each, wherever; where they leave most to user 2."""
    problem = Problem.from_arrays(
        [[6, 5], [5, 5]],
        [[0, 1], [2, 2], [3, 0]],
        eligible=[[1, 1], [1, 0], [1, 1]],
        task_limit=[0.5, ENDLESS, 0.5],
    )
    tasks = solve(problem, "ps-dsf").user_tasks
    assert tasks == pytest.approx([0.5, 2.5, 0.5], rel=1e-6)
    worse = np.array([[0.5, 0], [2.25, 0], [0.5, 0]])
    assert certify_bottleneck(problem, worse).holds

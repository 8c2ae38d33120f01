"""PS-DSF: finite tasks, zero demands, and independence of the order of servers."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.certificates.bottleneck_theorems import certify_bottleneck
from fairlead.mechanisms import psdsf
from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from fairlead.solvers.level_path import follow_level_path
from fairlead.solvers.soft_max_newton import follow_soft_levels
from oracles.definitions import theorem_1_violation
from random_problems import random_problem


@pytest.mark.parametrize("limited", [0.3, 1.0])
def test_soft_levels_alone_come_close_with_finite_tasks(limited: float) -> None:
    """Few sweeps are left, whatever the number of users."""
    problem = random_problem(np.random.default_rng(0), 100, 12, 4, limited=limited, constrained=0.3)
    sweeps = psdsf.prepare_sweeps(problem, "ps-dsf")
    *_, tasks = psdsf.level_tasks(sweeps, follow_soft_levels, psdsf.SOFT_TEMPERATURES)
    assert certify_bottleneck(problem, tasks).violation <= 1e-6
    assert (tasks.sum(axis=1) <= problem.task_limit * (1 + 1e-6)).all()


@pytest.mark.parametrize("seed", range(2))
def test_where_one_resource_binds_it_is_the_proportional_answer(seed: int) -> None:
    """A user with all its tasks may run anywhere; soft levels choose the least wanted servers."""
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
        task_limit=[0.5, np.inf, 0.5],
    )
    tasks = solve(problem, "ps-dsf").user_tasks
    assert tasks == pytest.approx([0.5, 2.5, 0.5], rel=1e-6)
    worse = np.array([[0.5, 0], [2.25, 0], [0.5, 0]])
    assert certify_bottleneck(problem, worse).holds


@pytest.mark.parametrize("limited", [0.0, 0.5])
def test_half_of_the_demands_are_zero(limited: float) -> None:
    rng = np.random.default_rng(0)
    problem = random_problem(
        rng, 40, 8, 4, zero_demand=0.5, limited=limited, constrained=0.3, weighted=True
    )
    assert solve(problem, "ps-dsf").certificate.violation <= 1e-8


@pytest.mark.parametrize("seed", range(3))
def test_the_curve_ends_at_what_the_definition_asks(seed: int) -> None:
    """Small problems by the curve alone, judged by the definition, entry by entry."""
    problem = random_problem(
        np.random.default_rng(seed), 12, 4, 4, zero_demand=0.5, limited=0.3, constrained=0.3
    )
    sweeps = psdsf.prepare_sweeps(problem, "ps-dsf")
    answers = psdsf.level_tasks(sweeps, follow_level_path, psdsf.PATH_TEMPERATURES)
    found = [theorem_1_violation(problem, x) for x in answers]
    assert min(found, default=1.0) <= 1e-8


@pytest.mark.parametrize("mechanism", ["ps-dsf", "ps-dsf-tdm"])
def test_the_order_of_servers_does_not_matter(mechanism: str) -> None:
    """Sweeps alone would end elsewhere under resource division."""
    for seed in range(2):
        problem = random_problem(np.random.default_rng(seed), 24, 8, 2, weighted=True)
        cluster = problem.cluster
        turned = Problem.from_arrays(
            cluster.capacity[::-1],
            problem.demand,
            count=cluster.count[::-1],
            weight=problem.weight,
        )
        ours, ours_turned = (solve(p, mechanism).user_tasks for p in (problem, turned))
        np.testing.assert_allclose(ours, ours_turned, rtol=1e-6)

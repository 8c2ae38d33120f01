"""Rounds over the servers, as published, end where their order leads; ours knows no order."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.mechanisms import psdsf
from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from random_problems import random_problem


def in_reverse(problem: Problem) -> Problem:
    cluster = problem.cluster
    return Problem.from_arrays(
        cluster.capacity[::-1], problem.demand, count=cluster.count[::-1], weight=problem.weight
    )


def totals_by_rounds(problem: Problem, mechanism: str) -> np.ndarray:
    sweeps = psdsf.prepare_sweeps(problem, mechanism)
    assert sweeps.run(np.zeros((problem.n_users, problem.n_groups)), 10**8, 1e-9)
    return sweeps.best.sum(axis=1)


@pytest.mark.parametrize(("mechanism", "differs"), [("ps-dsf", True), ("ps-dsf-tdm", False)])
def test_the_order_of_servers(mechanism: str, differs: bool) -> None:
    apart = 0.0
    for seed in range(4):
        problem = random_problem(np.random.default_rng(seed), 60, 10, 2, weighted=True)
        turned = in_reverse(problem)
        one, other = (totals_by_rounds(p, mechanism) for p in (problem, turned))
        apart = max(apart, float(np.abs(one / other - 1.0).max()))
        ours, ours_turned = (solve(p, mechanism).user_tasks for p in (problem, turned))
        np.testing.assert_allclose(ours, ours_turned, rtol=1e-6)
    assert (apart > 1e-4) is differs

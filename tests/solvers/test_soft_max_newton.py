"""Soft levels: what makes them solvable holds everywhere, and they lead to PS-DSF."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.certificates.bottleneck_theorems import certify_bottleneck
from fairlead.mechanisms import psdsf
from fairlead.solvers import soft_max_newton
from fairlead.solvers.level_path import LevelProblem
from random_problems import random_problem


def soft_problem(seed: int, n_users: int = 12, limited: float = 0.0) -> LevelProblem:
    rng = np.random.default_rng(seed)
    problem = random_problem(
        rng, n_users, 4, 3, constrained=0.4, limited=limited, weighted=True, decades=1.5
    )
    return psdsf.level_problem(psdsf.prepare_sweeps(problem, "ps-dsf"))


def jacobian(problem: LevelProblem, levels: np.ndarray, tau: float) -> np.ndarray:
    """By central differences, independent of the formula that the solver uses."""
    columns = []
    for g in range(len(levels)):
        step = np.zeros(len(levels))
        step[g] = 1e-6 * tau
        ahead = soft_max_newton._evaluate(problem, levels + step, tau).error
        behind = soft_max_newton._evaluate(problem, levels - step, tau).error
        columns.append((ahead - behind) / (2e-6 * tau))
    return np.array(columns).T


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    tau=st.sampled_from([0.9, 0.3, 0.05]),
    levels=st.lists(st.floats(-1, 1), min_size=4, max_size=4),
    limited=st.sampled_from([0.0, 0.5]),
)
def test_the_jacobian_is_an_m_matrix(seed, tau, levels, limited):
    problem = soft_problem(seed, limited=limited)
    matrix = jacobian(problem, np.array(levels), tau)
    off_diagonal = matrix - np.diag(matrix.diagonal())
    assert (off_diagonal <= 1e-4).all()
    assert (matrix.sum(axis=1) >= -1e-4).all()
    if not limited:
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-4)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), tau=st.sampled_from([0.5, 0.1]))
def test_newton_uses_that_jacobian(seed, tau):
    problem = soft_problem(seed)
    state = soft_max_newton._evaluate(problem, np.zeros(4), tau)
    direction = soft_max_newton._newton_direction(problem, state)
    residual = jacobian(problem, np.zeros(4), tau) @ direction + state.error
    assert np.abs(residual).max() <= 1e-3 * max(1.0, np.abs(state.error).max())


@pytest.mark.parametrize("temperature", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("seed", range(5))
def test_the_violation_follows_the_temperature(seed, temperature):
    problem = random_problem(np.random.default_rng(seed), 40, 6, 2, constrained=0.3, weighted=True)
    soft = psdsf.level_problem(psdsf.prepare_sweeps(problem, "ps-dsf"))
    (tasks,) = soft_max_newton.follow_soft_levels(soft, [temperature])
    violation = certify_bottleneck(problem, tasks).violation
    assert violation <= 40 * temperature

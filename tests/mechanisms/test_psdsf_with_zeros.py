"""PS-DSF where users of one server demand different resources."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.mechanisms import psdsf
from fairlead.mechanisms.catalogue import solve
from oracles.definitions import theorem_1_violation
from random_problems import random_problem


@pytest.mark.parametrize("limited", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_half_of_the_demands_are_zero(seed: int, limited: float) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(
        rng, 100, 14, 4, zero_demand=0.5, limited=limited, constrained=0.3, weighted=True
    )
    assert solve(problem, "ps-dsf").certificate.violation <= 1e-8


@pytest.mark.parametrize("seed", range(3))
def test_the_curve_ends_at_what_the_definition_asks(seed: int) -> None:
    """Small problems by the curve alone, judged by the definition, entry by entry."""
    problem = random_problem(
        np.random.default_rng(seed), 12, 4, 4, zero_demand=0.5, limited=0.3, constrained=0.3
    )
    sweeps = psdsf.prepare_sweeps(problem, "ps-dsf")
    found = [theorem_1_violation(problem, x) for x in psdsf._path_tasks(sweeps)]
    assert min(found, default=1.0) <= 1e-8

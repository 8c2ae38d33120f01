"""Several levels per server: derivatives, and tasks where the curve ends."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.certificates.bottleneck_theorems import certify_bottleneck
from fairlead.mechanisms import psdsf
from fairlead.solvers import level_path
from random_problems import random_problem


@pytest.mark.parametrize("seed", range(3))
def test_slopes_are_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 8, 3, 4, zero_demand=0.5, limited=0.5, constrained=0.3)
    levels = psdsf.level_problem(psdsf.prepare_sweeps(problem, "ps-dsf"))
    at = rng.normal(-2, 0.3, 13)
    here = level_path._evaluate(levels, at)
    for k, step in enumerate(1e-6 * np.eye(13)):
        ahead = level_path._evaluate(levels, at + step).error
        behind = level_path._evaluate(levels, at - step).error
        np.testing.assert_allclose(here.slopes[:, k], (ahead - behind) / 2e-6, atol=1e-6)


@pytest.mark.parametrize("limited", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_the_curve_alone_comes_close(seed: int, limited: float) -> None:
    """Nothing is left to sweeps where half of the demands are zero."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 40, 8, 4, zero_demand=0.5, limited=limited, constrained=0.3)
    sweeps = psdsf.prepare_sweeps(problem, "ps-dsf")
    found = [certify_bottleneck(problem, x).violation for x in psdsf._path_tasks(sweeps)]
    assert min(found, default=1.0) <= 1e-8

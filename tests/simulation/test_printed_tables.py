"""Tables II to V of Kesidis et al.: two users with tasks (5, 1) and (1, 5) on two servers."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.model.problem import Problem
from fairlead.scheduler.policies import find_policy
from fairlead.simulation.filling import fill
from fairlead.simulation.trials import run_trials

PROBLEM = Problem.from_arrays([[100, 30], [30, 100]], [[5, 1], [1, 5]])


@pytest.mark.parametrize(
    ("criterion", "select", "residual", "tasks", "unused"),
    [
        ("drf", "best-fit-first", False, [[20, 2], [0, 19]], [[0, 10], [1, 3]]),
        ("ps-dsf", "joint", False, [[19, 0], [2, 20]], [[3, 1], [10, 0]]),
        ("ps-dsf", "joint", True, [[19, 2], [2, 19]], [[3, 1], [1, 3]]),
        # Not printed: the best among the servers that fit, as its authors define best-fit.
        ("drf", "best-fit", False, [[19, 2], [2, 19]], [[3, 1], [1, 3]]),
    ],
)
def test_rows_without_chance(
    criterion: str,
    select: str,
    residual: bool,
    tasks: list[list[int]],
    unused: list[list[int]],
) -> None:
    filled = fill(PROBLEM, criterion, select, residual=residual)
    assert filled.tasks.tolist() == tasks
    assert filled.unused.tolist() == unused
    assert filled.certificate.holds


def test_ps_dsf_in_rounds_is_as_printed() -> None:
    """Means within three standard errors of two samples of 200, deviations within a fifth."""
    result = run_trials(PROBLEM, find_policy("ps-dsf", "rrr"), 200, seed=1)
    printed = np.array([[19.44, 1.15], [1.07, 19.42]])
    printed_sd = np.array([[0.59, 0.99], [1.0, 0.49]])
    assert result.tasks.sd is not None
    assert (np.abs(result.tasks.mean - printed) < 3 * printed_sd * np.sqrt(2 / 200)).all()
    assert (np.abs(result.tasks.sd / printed_sd - 1) < 0.2).all()


def test_residual_ps_dsf_in_rounds_is_as_jointly_every_time() -> None:
    result = run_trials(PROBLEM, find_policy("ps-dsf", "rrr", residual=True), 50, seed=1)
    assert result.tasks.mean.tolist() == [[19, 2], [2, 19]]
    assert result.tasks.sd is not None
    assert not result.tasks.sd.any()


@pytest.mark.parametrize(("criterion", "printed"), [("drf", 22.48), ("tsf", 22.4)])
def test_drf_and_tsf_in_rounds_come_out_higher_than_printed(criterion: str, printed: float) -> None:
    """Ours gives 23.0 to 23.6 by the paper's definition; it drew a server for each task instead.

    That is in tests/papers/test_private_clouds_tables.py.
    """
    result = run_trials(PROBLEM, find_policy(criterion, "rrr"), 300, seed=1)
    assert result.total.margin is not None
    assert printed < 23.0 - result.total.margin < result.total.mean < 23.6 + result.total.margin


def test_servers_of_two_shapes_are_used_as_their_tasks_are() -> None:
    """Wang, Liang and Li, Fig. 3: ten tasks each, where per-server shares give six."""
    problem = Problem.from_arrays([[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]])
    assert fill(problem, "drf", "best-fit").tasks.tolist() == [[10, 0], [0, 10]]

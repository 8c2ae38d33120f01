"""A rich user with a choice of servers, and a poor one that gets the rest: both are served."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead import Problem
from fairlead.certificates.utility_prices import Stage, certify_in_stages, certify_largest_utility
from fairlead.mechanisms.proportional import AlphaUtility

# Two alike servers. The first user takes of both resources, the second of one; the poor third needs
# the other resource of the first server. So the first belongs on the second server.
NEED = 1e-3
PROBLEM = Problem.from_arrays(
    [[1, 1], [1, 1]], [[1, 0.5], [1, 0], [0, NEED]], eligible=[[1, 1], [1, 1], [1, 0]]
)
RIGHT = np.array([[0.0, 1.0], [1.0, 0.0], [1 / NEED, 0.0]])
SPOILED = np.array([[0.5, 0.5], [0.5, 0.5], [0.75 / NEED, 0.0]])


def of_utility(tasks, alpha):
    total = tasks.sum(axis=1)
    utility = AlphaUtility(alpha, PROBLEM.weight)
    return utility.log_marginal(total), utility.elasticity(total)


def stages_of(tasks, alpha):
    """Return the prices of the rich, and those beside which the poor one is seen."""
    spent = float((1 - alpha) * np.log(tasks[2].sum()))
    return [
        Stage(np.array([[1.0, 1.0], [0.0, 0.0]]), 0.0),
        Stage(np.array([[1.0, 1.0], [1.0 / (NEED * tasks[2].sum()), 0.0]]), spent),
    ]


@pytest.mark.parametrize("alpha", [8.0, 16.0, 32.0])
def test_a_rich_user_that_takes_what_a_poor_one_needs_fails(alpha):
    right = certify_in_stages(PROBLEM, RIGHT, *of_utility(RIGHT, alpha), stages_of(RIGHT, alpha))
    assert right.violation <= 1e-12
    for stages in (stages_of(RIGHT, alpha), stages_of(SPOILED, alpha)):
        wrong = certify_in_stages(PROBLEM, SPOILED, *of_utility(SPOILED, alpha), stages)
        assert wrong.violation >= 0.1


@pytest.mark.parametrize("alpha", [8.0, 16.0, 32.0])
def test_prices_that_agree_to_the_last_digit_are_no_proof(alpha):
    for tasks, holds in ((RIGHT, True), (SPOILED, False)):
        logs, bend = of_utility(tasks, alpha)
        prices = np.array([[1.0, 1.0], [np.exp(logs[2]) / NEED, 0.0]])
        assert certify_largest_utility(PROBLEM, tasks, logs, bend, prices).holds == holds


def test_nobody_is_left_out_and_each_fault_is_seen():
    stages, (logs, bend) = stages_of(RIGHT, 16.0), of_utility(RIGHT, 16.0)
    assert not certify_in_stages(PROBLEM, RIGHT, logs, bend, stages[:1]).holds
    assert not certify_in_stages(PROBLEM, RIGHT, logs, bend, stages[1:]).holds
    assert not certify_in_stages(PROBLEM, RIGHT, logs, bend, stages[::-1]).holds
    for n in range(3):
        less = RIGHT.copy()
        less[n] *= 1 - 1e-4
        assert not certify_in_stages(PROBLEM, less, *of_utility(less, 16.0), stages).holds

"""The proof by prices judges each user by itself, and checks the prices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import Problem
from fairlead.certificates.max_min_duality import certify_max_min
from fairlead.certificates.utility_prices import Stage, certify_largest_utility
from fairlead.mechanisms.utility import AlphaUtility
from oracles.steep import pool_totals
from strategies import problems

ALPHAS = (0.5, 1.0, 4.0, 32.0)


def certified(problem, tasks, prices, alpha):
    """Return the certificate of an alpha-fair answer at some prices, in units of the utility."""
    utility = AlphaUtility(alpha, problem.weight)
    total = tasks.sum(axis=1)
    with np.errstate(divide="ignore"):
        logs = utility.log_marginal(total)
    stages = [Stage(prices, 0.0)]
    return certify_largest_utility(problem, tasks, logs, utility.elasticity(total), stages)


def isolated(seed, alpha):
    """Return users of three pools that share nothing, their exact tasks, and the exact prices."""
    rng = np.random.default_rng(seed)
    home = np.concatenate([np.arange(3), rng.integers(0, 3, 4)])
    size, demand = 10.0 ** rng.uniform(-1, 1, 3), 10.0 ** rng.uniform(-1, 1, len(home))
    limit = np.where(rng.random(len(home)) < 0.3, 0.1 * size[home] / demand, np.inf)
    limit[:3] = np.inf
    tasks, prices = np.zeros((len(home), 3)), np.zeros((1, 3))
    for g in range(3):
        here = home == g
        tasks[here, g], prices[0, g] = pool_totals(
            size[g], demand[here], np.ones(here.sum()), limit[here], alpha
        )
    problem = Problem.from_arrays(
        size[:, None],
        demand[:, None],
        eligible=home[:, None] == np.arange(3),
        task_limit=limit,
    )
    return problem, tasks, prices


@pytest.mark.parametrize("alpha", ALPHAS)
def test_right_answers_pass_and_each_users_fault_is_seen(alpha):
    problem, tasks, prices = isolated(0, alpha)
    assert certified(problem, tasks, prices, alpha).violation <= 1e-9
    for n in range(problem.n_users):
        for factor in (0.5, 1 - 1e-4):
            less = tasks.copy()
            less[n] *= factor
            # Nor do prices help that are true of these tasks, or none.
            worth = less.sum(axis=1)[n] ** -alpha / problem.demand[n, 0]
            own = np.where(less[n] > 0, worth * problem.group_capacity.T, prices)
            none = np.where(less[n] > 0, 0.0, prices)
            for tried in (prices, own, none):
                assert not certified(problem, less, tried, alpha).holds


SIGNED = st.sampled_from([-1e6, -1.0, -0.055, -1e-9, 0.0, 1.0, np.inf, -np.inf, np.nan])


@settings(max_examples=15)
@given(problem=problems(zeros=False), alpha=st.sampled_from(ALPHAS), data=st.data())
def test_half_of_everything_is_proved_by_no_prices(problem, alpha, data):
    shape = (problem.n_groups, problem.n_resources)
    flat = data.draw(st.lists(SIGNED, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    prices = np.reshape(flat, shape)
    tasks = 0.5 * problem.gamma / problem.n_users
    assert not certified(problem, tasks, prices.T, alpha).holds
    assert not certify_max_min(problem, tasks, np.ones(problem.n_users), prices[None]).holds


def test_a_price_below_zero_is_no_price():
    # All that is used of the first resource seems worth no more than it costs: half is left.
    problem = Problem.from_arrays([[1, 10]], [[1, 1]])
    tasks = np.array([[0.5]])
    prices = np.array([[[1, -0.055]]])
    assert certify_max_min(problem, tasks, np.ones(1), prices).violation >= 0.5
    assert certified(problem, tasks, np.array([[1.0], [-0.055]]), 1.0).violation >= 0.5


@pytest.mark.parametrize(("alpha", "demand"), [(4.0, 1e-3), (32.0, 0.3)])
def test_a_price_may_be_little_to_one_user_and_all_to_another(alpha, demand):
    # User 0 can do without the second resource of the first server, of which user 2 lives.
    problem = Problem.from_arrays(
        [[1, 1], [1, 1]], [[1, 1], [1, 0], [0, demand]], eligible=[[1, 1], [1, 1], [1, 0]]
    )

    def prices(tasks):
        return np.array([[1.0, 1.0], [tasks**-alpha / demand, 0.0]])

    half = np.array([[0.5, 0.5], [0.5, 0.5], [0.5 / demand, 0.0]])
    assert certified(problem, half, prices(0.5 / demand), alpha).violation >= 0.1
    right = np.array([[0.0, 1.0], [1.0, 0.0], [1 / demand, 0.0]])
    assert certified(problem, right, prices(1 / demand), alpha).violation <= 1e-12


def test_what_many_users_have_too_much_is_added_up():
    # User 0 makes a hundred times as much of the server, and an unpaid price keeps it out.
    n_users = 1000
    problem = Problem.from_arrays([[1]], [[0.01]] + [[1]] * n_users)
    tasks = np.array([[0.0]] + [[1 / n_users]] * n_users)
    assert certified(problem, tasks, np.array([[1e9]]), 0.0).violation >= 0.9
    tasks = np.array([[100.0]] + [[0.0]] * n_users)
    assert certified(problem, tasks, np.array([[100.0]]), 0.0).violation <= 1e-12


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


@pytest.mark.parametrize("alpha", [8.0, 32.0])
def test_a_rich_user_that_takes_what_a_poor_one_needs_fails(alpha):
    right = certify_largest_utility(
        PROBLEM, RIGHT, *of_utility(RIGHT, alpha), stages_of(RIGHT, alpha)
    )
    assert right.violation <= 1e-12
    for stages in (stages_of(RIGHT, alpha), stages_of(SPOILED, alpha)):
        wrong = certify_largest_utility(PROBLEM, SPOILED, *of_utility(SPOILED, alpha), stages)
        assert wrong.violation >= 0.1


def test_a_user_that_no_stage_judges_fails():
    problem = Problem.from_arrays([[1.0]] * 3, [[1.0], [1e-3], [1e-6]], eligible=np.eye(3) > 0)
    tasks = np.diag([1.0, 1e3, 1e6])
    utility = AlphaUtility(16.0, problem.weight)
    logs, bend = utility.log_marginal(tasks.sum(axis=1)), utility.elasticity(tasks.sum(axis=1))
    spent = logs + np.log(tasks.sum(axis=1))
    stages = [Stage(np.exp(spent - unit)[None], float(unit)) for unit in spent]
    assert certify_largest_utility(problem, tasks, logs, bend, stages).violation <= 1e-12
    assert not certify_largest_utility(problem, tasks, logs, bend, stages[:2]).holds


def test_nobody_is_left_out_and_each_fault_is_seen():
    stages, (logs, bend) = stages_of(RIGHT, 16.0), of_utility(RIGHT, 16.0)
    assert not certify_largest_utility(PROBLEM, RIGHT, logs, bend, stages[:1]).holds
    assert not certify_largest_utility(PROBLEM, RIGHT, logs, bend, stages[1:]).holds
    assert not certify_largest_utility(PROBLEM, RIGHT, logs, bend, stages[::-1]).holds
    for n in range(3):
        less = RIGHT.copy()
        less[n] *= 1 - 1e-4
        assert not certify_largest_utility(PROBLEM, less, *of_utility(less, 16.0), stages).holds


@pytest.mark.parametrize("alpha", [8.0, 32.0])
def test_prices_that_agree_to_the_last_digit_are_no_proof(alpha):
    for tasks, holds in ((RIGHT, True), (SPOILED, False)):
        logs, bend = of_utility(tasks, alpha)
        prices = np.array([[1.0, 1.0], [np.exp(logs[2]) / NEED, 0.0]])
        assert (
            certify_largest_utility(PROBLEM, tasks, logs, bend, [Stage(prices, 0.0)]).holds == holds
        )

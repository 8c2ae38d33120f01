"""Certificates can fail: every spoiled answer is seen, every right one passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import Problem, solve
from fairlead.certificates.bottleneck_theorems import certify_bottleneck, certify_time_sharing
from fairlead.certificates.max_min_duality import certify_max_min
from oracles import answers, leximax
from oracles.plain_lp import Shares, prices_against
from spoilers import each_way
from strategies import admitted_by

CERTIFY = {"ps-dsf": certify_bottleneck, "ps-dsf-tdm": certify_time_sharing}


def divided(mechanism):
    """Problems whose servers are divided by resource, or by time; with rates it is by time."""
    by_time = CERTIFY[mechanism] is certify_time_sharing
    return admitted_by(mechanism).filter(lambda p: by_time or p.users.rates is None)


@pytest.mark.parametrize("mechanism", CERTIFY)
@settings(max_examples=15)
@given(data=st.data())
def test_right_answers_pass_and_spoiled_ones_fail(mechanism, data):
    problem = data.draw(divided(mechanism))
    right = solve(problem, mechanism).tasks
    assert answers.violation(problem, mechanism, right) <= 1e-7
    certificate = CERTIFY[mechanism](problem, right)
    assert certificate.holds
    assert certificate.tolerance <= 1e-6
    for name, tasks in each_way(data.draw, problem, right):
        # Some changes leave a right answer, as when a user with all its tasks is replaced.
        if answers.violation(problem, mechanism, tasks) >= 1e-4:
            certificate = CERTIFY[mechanism](problem, tasks)
            assert not certificate.holds, name
            assert not certificate.violation <= 1e-5, name


MECHANISMS = tuple(leximax.SCORES)


def best_prices(problem, totals, score):
    """Return (N, G, R): for each user the prices that prove best that it cannot rise."""
    shares = Shares(problem)
    level = totals * score / problem.weight
    proofs = []
    for n in range(problem.n_users):
        no_better = np.flatnonzero(level <= level[n] * (1 + 1e-9))
        floor = {int(m): totals[m] * (1 - 1e-12) for m in no_better}
        proofs.append(prices_against(shares, n, floor))
    return np.array(proofs)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=8)
@given(data=st.data())
def test_right_answers_have_a_proof_and_spoiled_ones_none(mechanism, data):
    problem = data.draw(admitted_by(mechanism))
    score = leximax.SCORES[mechanism](problem)
    right = solve(problem, mechanism).tasks
    assert answers.violation(problem, mechanism, right) <= 1e-6
    totals = right.sum(axis=1)
    best = best_prices(problem, totals, score)
    certificate = certify_max_min(problem, right, score, best)
    assert certificate.violation <= 1e-6
    assert certificate.tolerance <= 1e-6
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for name, tasks in each_way(data.draw, problem, right):
        if answers.violation(problem, mechanism, tasks) >= 1e-4:
            made_up = rng.choice([0.0, 1.0, 2.0, 1e6], (1, *best.shape[1:]))
            prices = np.concatenate([best, made_up])
            assert not certify_max_min(problem, tasks, score, prices).holds, name


@pytest.mark.parametrize("price", [5e-324, 1e-310, 1.0, 1e300, 1e308])
def test_no_unit_of_prices_makes_too_little_enough(price):
    one = Problem.from_arrays([[1]], [[0.6]])
    prices = np.full((1, 1, 1), price)
    assert certify_max_min(one, np.array([[0.6]]), np.ones(1), prices).violation >= 1.0
    assert certify_max_min(one, np.array([[1 / 0.6]]), np.ones(1), prices).violation <= 1e-12
    two = Problem.from_arrays([[100]], [[10], [10]])
    unequal = np.array([[1.0], [0.5]])
    assert certify_max_min(two, unequal, np.ones(2), prices).violation >= 1.0


def test_the_price_of_what_nobody_has_counts_for_nothing():
    problem = Problem.from_arrays([[1, 0]], [[1, 0]])
    prices = np.array([[[5e-324, 1.0]]])
    assert certify_max_min(problem, np.ones((1, 1)), np.ones(1), prices).holds
    assert not certify_max_min(problem, np.full((1, 1), 0.5), np.ones(1), prices).holds

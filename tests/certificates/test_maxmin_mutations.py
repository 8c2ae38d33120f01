"""The proof by prices: right answers have one, spoiled answers have none, whatever the prices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.certificates.maxmin import certify_maxmin
from oracles import answers, examples, leximax
from oracles.plain_lp import Shares, prices_against
from spoilers import SPOIL
from strategies import admitted_by

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
@given(data=st.data())
def test_right_answers_have_a_proof(mechanism, data):
    problem = data.draw(admitted_by(mechanism, kinds=("whole", "few")))
    score = leximax.SCORES[mechanism](problem)
    totals = leximax.leximax_totals(problem, score)
    tasks = answers.split_totals(problem, totals)
    certificate = certify_maxmin(problem, tasks, score, best_prices(problem, totals, score))
    assert certificate.violation <= 1e-6
    assert certificate.tolerance <= 1e-6


@pytest.mark.parametrize("spoil", SPOIL)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@given(data=st.data())
def test_spoiled_answers_have_none(mechanism, spoil, data):
    problem = data.draw(admitted_by(mechanism))
    score = leximax.SCORES[mechanism](problem)
    totals = leximax.leximax_totals(problem, score)
    tasks = answers.split_totals(problem, totals)
    spoil(data.draw, problem, tasks)
    assume(answers.violation(problem, mechanism, tasks) >= 1e-4)
    made_up = st.lists(
        st.sampled_from([0.0, 1.0, 2.0, 1e6]),
        min_size=problem.n_groups * problem.n_resources,
        max_size=problem.n_groups * problem.n_resources,
    ).map(lambda drawn: np.reshape(drawn, (1, problem.n_groups, problem.n_resources)))
    prices = np.concatenate([best_prices(problem, totals, score), data.draw(made_up)])
    assert not certify_maxmin(problem, tasks, score, prices).violation <= 1e-5


def test_no_prices_prove_nothing():
    problem = examples.drfh_figure_1()
    score = leximax.drfh_score(problem)
    tasks = np.array([[10.0, 0.0], [0.0, 10.0]])
    assert not certify_maxmin(problem, tasks, score, np.zeros((1, 2, 2))).holds
    assert not certify_maxmin(problem, tasks, score, np.zeros((0, 2, 2))).holds

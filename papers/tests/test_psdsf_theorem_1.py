"""Theorem 1 of the PS-DSF paper agrees with the definition; Lemma 1 leaves out some lies."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.certificates.bottleneck_theorems import certify_bottleneck
from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.psdsf._theorem_and_lemma import (
    two_answers,
)
from fairlead_papers.psdsf._two_servers import (
    example_of_figure_1,
    example_of_figure_2,
    largest_gain,
    virtual_shares,
)
from fairlead_papers.reproduction import DIFFERS
from fairlead_papers.setting import Setting


def test_two_answers_satisfy_theorem_1_with_other_totals() -> None:
    problem, (apart, together) = two_answers()
    assert apart.sum(axis=1).tolist() == [3, 3]
    assert together.sum(axis=1).tolist() == [4, 4]
    for tasks in (apart, together):
        assert certify_bottleneck(problem, tasks).violation == pytest.approx(0, abs=1e-12)
        assert largest_gain(problem, tasks) == pytest.approx(0, abs=1e-9)
    # By hand: equal servers have equal shares; users stop at their server's used-up resource.
    shares = virtual_shares(problem, apart)
    assert np.ptp(shares) == 0
    assert (apart.T @ problem.demand).tolist() == [[6, 3], [3, 6]]
    assert (together.T @ problem.demand).tolist() == [[6, 6], [6, 6]]
    assert solve(problem, "ps-dsf").user_tasks == pytest.approx([4, 4])


def test_gains_by_the_definition() -> None:
    """C-DRFH of Fig. 1 leaves user 1 below user 3 on server 1; PS-DSF of Figs. 1 and 2 is final."""
    for problem in (example_of_figure_1(), example_of_figure_2()):
        assert largest_gain(problem, solve(problem, "ps-dsf").tasks) <= 1e-9
    problem = example_of_figure_1()
    assert largest_gain(problem, solve(problem, "drfh").tasks) > 0.01
    # Without any tasks each user could get all that it can run alone.
    assert largest_gain(problem, np.zeros((3, 2))) == pytest.approx(1)


def test_no_gain_at_the_expense_of_shares_that_are_not_higher() -> None:
    """One server: the second user has the higher share, so only the first can gain from it."""
    problem = Problem.from_arrays([[10]], [[1], [1]])
    assert largest_gain(problem, np.array([[4.0], [6.0]])) == pytest.approx(0.6)
    assert largest_gain(problem, np.array([[5.0], [5.0]])) == pytest.approx(0)
    assert largest_gain(problem, np.array([[5.0], [4.0]])) == pytest.approx(0.6)


@pytest.mark.filterwarnings("error")
def test_the_lemma_does_not_cover_servers() -> None:
    found = reproduce(CATALOGUE["psdsf/lemma-1"], Setting(quick=True, seed=2))
    assert [claim.holds for claim in found.claims] == [True, False]
    assert found.verdict == DIFFERS
    assert CATALOGUE["psdsf/lemma-1"].known_to_differ
    assert "falls from 3 tasks to 2" in found.findings[0].found

"""Every mechanism, on random problems, against its definition and a slow, independent oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from fairlead.errors import CertificateError, RefusalError
from fairlead.mechanisms.catalogue import CATALOGUE, DIVISIBLE, solve
from oracles import answers, leximax
from strategies import ALL_FEATURES, admitted_by, problems

REFUSALS = [
    (name, feature)
    for name, mechanism in CATALOGUE.items()
    for feature in ALL_FEATURES
    if feature not in mechanism.accepts
]


def assert_well_formed(allocation, problem):
    """The shape that was promised, nothing negative, nothing where it cannot run."""
    solved = allocation.problem
    assert solved.users.names == problem.users.names
    assert allocation.tasks.shape == (problem.n_users, solved.n_groups)
    assert allocation.tasks.dtype == np.float64
    assert (allocation.tasks >= 0).all()
    assert (allocation.tasks[~solved.runnable] == 0).all()
    assert (allocation.user_tasks <= problem.task_limit * (1 + 1e-9)).all()


def assert_proven(allocation):
    """Its own certificate holds, and the definition, checked naively, agrees."""
    certificate = allocation.certificate
    assert certificate.holds
    assert 0 <= certificate.violation <= certificate.tolerance <= 1e-6
    naive = answers.violation(allocation.problem, allocation.mechanism, allocation.tasks)
    assert naive <= 1e-6


@pytest.mark.parametrize("mechanism", DIVISIBLE)
@settings(max_examples=8)
@given(data=st.data())
def test_answers_are_what_the_definition_asks(mechanism, data):
    problem = data.draw(admitted_by(mechanism))
    allocation = solve(problem, mechanism)
    assert allocation.mechanism == mechanism
    assert_well_formed(allocation, problem)
    assert_proven(allocation)
    if mechanism in answers.UNIQUE_TOTALS and answers.has_unique_totals(problem, mechanism):
        oracle = answers.oracle_totals(problem, mechanism)
        np.testing.assert_allclose(allocation.user_tasks, oracle, rtol=1e-6)


@pytest.mark.parametrize("mechanism", DIVISIBLE)
@settings(max_examples=5)
@given(data=st.data())
def test_wide_scales_are_proven_or_refused(mechanism, data):
    problem = data.draw(admitted_by(mechanism, kinds=("wide",)))
    try:
        allocation = solve(problem, mechanism)
    except CertificateError:
        reject()  # an honest refusal; Hypothesis complains if it meets little else
    assert_well_formed(allocation, problem)
    assert allocation.certificate.holds
    # Where levels compare users of unlike sizes, a rounding error of one user's tasks may be much
    # of another's: a plain linear programme cannot tell such a gain from an unfair one.
    if mechanism not in leximax.SCORES:
        naive = answers.violation(allocation.problem, mechanism, allocation.tasks)
        assert naive <= 1e-3


@pytest.mark.parametrize(("mechanism", "feature"), REFUSALS)
@settings(max_examples=3)
@given(data=st.data())
def test_what_the_definition_does_not_admit_is_refused(mechanism, feature, data):
    problem = data.draw(problems(features=CATALOGUE[mechanism].accepts, force=(feature,)))
    with pytest.raises(RefusalError, match=feature) as refusal:
        solve(problem, mechanism)
    assert refusal.value.mechanism == mechanism


@pytest.mark.parametrize("mechanism", CATALOGUE)
@settings(max_examples=2)
@given(data=st.data())
def test_the_same_problem_gets_the_same_answer(mechanism, data):
    problem = data.draw(admitted_by(mechanism))
    first, second = solve(problem, mechanism), solve(problem, mechanism)
    assert first.to_json() == second.to_json()

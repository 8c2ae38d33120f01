"""Every mechanism, on random problems, against its definition and a slow, independent oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairlead.errors import CertificateError, RefusalError
from fairlead.mechanisms.catalogue import (
    CATALOGUE,
    CONSTRAINTS,
    DIVISIBLE,
    LIMITS,
    RATES,
    RESOURCE_WEIGHTS,
    solve,
)
from fairlead.model.problem import Problem
from oracles import answers, leximax
from strategies import admitted_by


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
    oracle = answers.oracle_totals(problem, mechanism)
    if oracle is not None:
        np.testing.assert_allclose(allocation.user_tasks, oracle, rtol=1e-6)


@pytest.mark.parametrize("mechanism", ["drf", "drfh", "ps-dsf", "ps-dsf-tdm", "proportional"])
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


WITH_FEATURE = {
    CONSTRAINTS: {"eligible": [[True, False], [True, True]]},
    LIMITS: {"task_limit": [3, np.inf]},
    RATES: {"rates": [[1, 2], [2, 1]]},
    RESOURCE_WEIGHTS: {"weight": [[1, 2], [2, 1]]},
}


@pytest.mark.parametrize("feature", WITH_FEATURE)
def test_what_the_definition_does_not_admit_is_refused(feature):
    problem = Problem.from_arrays([[4, 4], [4, 4]], [[1, 2], [2, 1]], **WITH_FEATURE[feature])
    for mechanism, row in CATALOGUE.items():
        if feature not in row.accepts:
            with pytest.raises(RefusalError, match=feature) as refusal:
                solve(problem, mechanism)
            assert refusal.value.mechanism == mechanism


@pytest.mark.parametrize("mechanism", ["drf", "drfh", "ps-dsf", "alpha-fair", "pdrf"])
@settings(max_examples=2)
@given(data=st.data())
def test_the_same_problem_gets_the_same_answer(mechanism, data):
    problem = data.draw(admitted_by(mechanism))
    assert solve(problem, mechanism).to_json() == solve(problem, mechanism).to_json()


@pytest.mark.parametrize("mechanism", ["ps-dsf", "ps-dsf-tdm", "max-tasks", "max-tasks-tdm"])
@settings(max_examples=8)
@given(data=st.data())
def test_units_and_the_listing_of_servers_do_not_matter(mechanism, data):
    """Equal totals even where the definition leaves several: identical servers are one group.

    The totals of other mechanisms are unique, and compared with an oracle.
    """
    problem = data.draw(admitted_by(mechanism, kinds=("whole", "few"), largest_groups=4))
    rows, count = [], []
    for g, servers in enumerate(problem.count.astype(int).tolist()):
        first = data.draw(st.integers(0, servers - 1))
        parts = data.draw(st.sampled_from([[servers], [servers - first, first], [1] * servers]))
        rows += [g for part in parts if part]
        count += [part for part in parts if part]
    rates, of_no_use = problem.users.rates, problem.unconstrained_gamma == 0
    power = st.integers(-20, 20).map(lambda k: 2.0**k)
    unit = data.draw(arrays(float, problem.n_resources, elements=power, fill=st.nothing()))
    changed = Problem.from_arrays(
        problem.cluster.capacity[rows] * unit,
        problem.demand * unit,
        count=count,
        weight=problem.weight * 2.0 ** data.draw(st.integers(-10, 10)),
        eligible=(problem.users.eligible | of_no_use)[:, rows],
        task_limit=problem.task_limit,
        rates=None if rates is None else rates[:, rows],
    )
    before, after = (solve(p, mechanism).user_tasks for p in (problem, changed))
    np.testing.assert_allclose(after, before, rtol=1e-6)


ENDLESS = np.inf


def places(n_groups, *allowed):
    """Return the groups where each user may run as a mask."""
    return [[g in groups for g in range(n_groups)] for groups in allowed]


ONCE_FAILED = {
    "one place each, very different tasks": (
        "drfh",
        {
            "capacity": [[0.374123, 0.0372234, 4.382234]],
            "count": [3],
            "demand": [[7.641538, 7.641538, 0.132528], [0.374123, 0.0372234, 4.382234]],
            "weight": [6.914763, 1],
        },
    ),
    "one place each, two users limited": (
        "cdrf",
        {
            "capacity": [[10, 0, 0, 9], [2, 5, 8, 0]],
            "count": [2, 4],
            "demand": [[0, 0, 7, 0], [0, 7, 0, 0], [0, 0, 9, 0], [3, 0, 10, 0], [0, 0, 1, 0]],
            "task_limit": [ENDLESS, 0.2, ENDLESS, 2 / 3, ENDLESS],
        },
    ),
    "one place each, by constraint": (
        "tsf",
        {
            "capacity": [[6, 0, 0], [6, 0, 5]],
            "count": [3, 2],
            "demand": [[6, 0, 0], [1, 0, 0], [4, 0, 0], [6, 0, 0]],
            "weight": [1, 2, 2, 0.9074373450543564],
            "eligible": [[1, 0], [0, 1], [1, 0], [1, 0]],
            "task_limit": [ENDLESS, 27.22312035163069, 7.875, ENDLESS],
        },
    ),
    "a price that is a rounding error": (
        "tsf",
        {
            "capacity": [[2, 0, 2, 1], [1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 1]],
            "count": [4, 4, 1, 4, 3],
            "demand": [
                [0, 0, 0, 1],
                [0, 0, 1, 0],
                [1, 0, 2, 1],
                [0, 0, 1, 0],
                [2, 0, 2, 2],
                [2, 0, 2, 2],
                [1, 0, 0, 0],
                [1, 0, 2, 0],
            ],
            "eligible": places(5, [3, 4], [0, 1], [0, 1], [1], [0], [0, 1], [0], [0]),
        },
    ),
    "degenerate, solved only by linear programmes": (
        "drfh",
        {
            "capacity": [[1, 0, 0, 0], [1, 1, 0, 0], [0, 2, 1, 1], [1, 1, 1, 1], [0, 2, 0, 0]],
            "count": [3, 3, 3, 3, 9],
            "demand": [
                [1, 1, 1, 1],
                [1, 0, 0, 1],
                [0, 2, 1, 1],
                [0, 1, 0, 0],
                [1, 1, 1, 0],
                [1, 0, 1, 1],
                [1, 1, 0, 0],
            ],
            "eligible": places(5, [3], [3], [2], [2, 4], [3], [3], [1]),
            "task_limit": [ENDLESS, ENDLESS, 3, ENDLESS, ENDLESS, ENDLESS, ENDLESS],
        },
    ),
}


@pytest.mark.parametrize("case", ONCE_FAILED)
def test_what_once_failed(case):
    mechanism, arrays = ONCE_FAILED[case]
    problem = Problem.from_arrays(**arrays)
    allocation = solve(problem, mechanism)
    assert answers.violation(problem, mechanism, allocation.tasks) <= 1e-6
    totals = answers.oracle_totals(problem, mechanism)
    np.testing.assert_allclose(allocation.user_tasks, totals, rtol=1e-6)

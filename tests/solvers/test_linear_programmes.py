"""Gains of all and lexicographic max-min, beside plain linear programmes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from fairlead import Problem
from fairlead.certificates.max_min_duality import certify_max_min
from fairlead.errors import NoConvergenceError
from fairlead.mechanisms.catalogue import CONSTRAINTS, LIMITS
from fairlead.mechanisms.utility import AlphaUtility
from fairlead.model.fitting import use_per_task
from fairlead.solvers.concave_programme import ConcaveProgramme
from fairlead.solvers.leximax import lexicographic_max_min
from fairlead.solvers.linear_programmes import (
    improve,
    lexicographic_max_min_by_lp,
    maximize_linear,
    measure_progress,
)
from strategies import problems


@st.composite
def programmes(draw):
    """Draw what each uses, where it may, what it has (feasibly), and the most that it may have."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_resources, n_users, n_groups = rng.integers(1, 4), rng.integers(1, 6), rng.integers(1, 5)
    allowed = rng.random((n_users, n_groups)) < draw(st.sampled_from([1.0, 0.6]))
    allowed[np.arange(n_users), rng.integers(n_groups, size=n_users)] = True
    allowed[1:][rng.random(n_users - 1) < 0.1] = False  # users without a group
    use = rng.integers(0, 5, (n_resources, n_users, n_groups)).astype(float)
    use[0] += use.sum(axis=0) == 0  # everything takes something
    use[:, ~allowed] = 0.0
    capacity = rng.integers(1, 9, (n_resources, n_groups)).astype(float)
    split = rng.random((n_users, n_groups)) * allowed
    used = np.einsum("rng,ng->rg", use, split)
    split *= draw(st.sampled_from([0.0, 0.5, 1.0])) / max((used / capacity).max(), 1e-9)
    have = split.sum(axis=1)
    most = np.where(rng.random(n_users) < 0.4, have * rng.choice([1.0, 1.5], n_users), np.inf)
    return use, allowed, have, most, capacity


def largest_gain(use, allowed, have, most, capacity):
    """The same programme with dense rows, and nothing left out."""
    n_resources, n_users, n_groups = use.shape
    rows, limits = [], []
    for r in range(n_resources):
        for g in range(n_groups):
            row = np.zeros((n_users, n_groups))
            row[:, g] = use[r, :, g]
            rows.append(row.ravel())
            limits.append(capacity[r, g])
    for n in range(n_users):
        row = np.zeros((n_users, n_groups))
        row[n] = 1.0
        rows += [-row.ravel()] + [row.ravel()] * bool(np.isfinite(most[n]))
        limits += [-have[n]] + [most[n]] * bool(np.isfinite(most[n]))
    bounds = [(0, None if may else 0) for may in allowed.ravel()]
    found = linprog(-np.ones(use[0].size), np.array(rows), limits, bounds=bounds)
    assert found.status == 0, found.message
    return -found.fun - have.sum()


@given(programme=programmes())
def test_gain_and_bound_meet_at_the_optimum(programme):
    use, allowed, have, most, capacity = programme
    found = improve(*programme)
    gain = largest_gain(*programme)
    assert found.gain == pytest.approx(gain, abs=1e-7)
    assert found.bound == pytest.approx(gain, abs=1e-7)
    assert found.gain == pytest.approx(found.split.sum() - have.sum())
    assert (found.split >= 0).all()
    assert (found.split[~allowed] == 0).all()
    assert (found.split.sum(axis=1) >= have - 1e-8).all()
    assert (found.split.sum(axis=1) <= most + 1e-8).all()
    assert (np.einsum("rng,ng->rg", use, found.split) <= capacity + 1e-8).all()
    with pytest.raises(NoConvergenceError):  # nobody can have as much
        improve(use, allowed, have + 1e6, most + 1e6, capacity)


@given(programme=programmes())
def test_progress_is_made_exactly_where_there_is_a_gain(programme):
    use, allowed, have, most, capacity = programme
    best = improve(*programme)
    if best.gain > 1e-3:
        # On the way from any split with these totals to the best one.
        feasible = improve(use, allowed, have, have * (1 + 1e-12), capacity).split
        assert measure_progress(use, allowed, feasible, most, capacity) == pytest.approx(1)
    assert measure_progress(use, allowed, best.split, most, capacity) < 1e-2


@settings(max_examples=25)
@given(problems(features=(CONSTRAINTS, LIMITS)), st.sampled_from([0.0, 5.0]))
def test_linear_worth_is_largest_and_prices_prove_it(problem: Problem, decades: float) -> None:
    worth = 10.0 ** np.linspace(0.0, decades, problem.n_users)
    alone = problem.gamma.sum(axis=1)
    programme = ConcaveProgramme(
        use=use_per_task(problem) * alone[:, None],
        allowed=problem.runnable,
        limit=problem.task_limit / alone,
        start=np.full(problem.n_users, 0.5),
        utility=AlphaUtility(0.0, worth),
    )
    found = maximize_linear(programme, worth)
    total = found.split.sum(axis=1)
    assert (total <= programme.limit * (1 + 1e-8)).all()
    assert (np.einsum("rng,ng->rg", programme.use, found.split) <= 1 + 1e-8).all()
    # By duality no division is worth more than its capacities and limits at any prices.
    cost = np.where(problem.runnable, np.einsum("rg,rng->ng", found.prices, programme.use), np.inf)
    rest = np.maximum(worth - cost.min(axis=1), 0.0)
    most = np.where(np.isfinite(programme.limit), programme.limit, 1.0)
    assert worth @ total >= (found.prices.sum() + rest @ most) * (1 - 1e-7)


@settings(max_examples=25)
@given(problems(features=(CONSTRAINTS, LIMITS), kinds=("whole", "any"), zeros=False))
def test_totals_agree_and_are_proved(problem: Problem) -> None:
    total = problem.total_capacity
    share = problem.demand / total
    score = share.max(axis=1)
    data = {
        "demand": share / score[:, None],
        "allowed": problem.runnable,
        "need": problem.weight / problem.weight.sum(),
        "limit": problem.task_limit * score,
        "capacity": problem.group_capacity / total,
    }
    by_lp, by_levels = lexicographic_max_min_by_lp(**data), lexicographic_max_min(**data)
    totals = by_levels.split.sum(axis=1)
    assert np.allclose(by_lp.split.sum(axis=1), totals, rtol=1e-7)
    for found in (by_lp, by_levels):
        tasks = found.split / score[:, None]
        assert certify_max_min(problem, tasks, score, found.prices / total).holds

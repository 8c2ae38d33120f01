"""Gains of all, one level and lexicographic max-min, beside plain linear programmes."""

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
from fairlead.solvers._level_interior_point import LevelProgramme, raise_level
from fairlead.solvers.leximax import lexicographic_max_min
from fairlead.solvers.linear_programmes import (
    improve,
    lexicographic_max_min_by_lp,
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


def test_who_may_be_nowhere_has_nothing_to_gain():
    use = np.array([[[1.0], [0.0]]])
    allowed = np.array([[True], [False]])
    found = improve(use, allowed, np.zeros(2), np.full(2, np.inf), np.array([[3.0]]))
    assert found.split.tolist() == [[3.0], [0.0]]
    assert found.bound == pytest.approx(3)


def test_what_cannot_be_held_cannot_be_bettered():
    with pytest.raises(NoConvergenceError):
        improve(
            np.array([[[2.0]]]),
            np.array([[True]]),
            np.array([3.0]),
            np.array([np.inf]),
            np.array([[4.0]]),
        )


def test_a_little_is_gained_where_much_can_be():
    use, capacity = np.array([[[2.0], [1.0]]]), np.array([[4.0]])
    everywhere, endless = np.ones((2, 1), dtype=bool), np.full(2, np.inf)
    progress = [
        measure_progress(use, everywhere, np.array(split), endless, capacity)
        for split in ([[1.0], [1.0]], [[1.5], [1.0]], [[0.0], [4.0]])
    ]
    assert progress == pytest.approx([1, 0, 0], abs=1e-6)
    # Both are idle, but neither has more to do.
    none = measure_progress(use, everywhere, np.ones((2, 1)), np.ones(2), capacity)
    assert none == pytest.approx(0)


@given(programme=programmes())
def test_progress_is_made_exactly_where_there_is_a_gain(programme):
    use, allowed, have, most, capacity = programme
    best = improve(*programme)
    if best.gain > 1e-3:
        # On the way from any split with these totals to the best one.
        feasible = improve(use, allowed, have, have * (1 + 1e-12), capacity).split
        assert measure_progress(use, allowed, feasible, most, capacity) == pytest.approx(1)
    assert measure_progress(use, allowed, best.split, most, capacity) < 1e-2


def random_programme(seed: int) -> LevelProgramme:
    rng = np.random.default_rng(seed)
    n_users, n_groups, n_resources = rng.integers(1, 7), rng.integers(2, 5), rng.integers(1, 4)
    allowed = rng.random((n_users, n_groups)) < 0.7
    allowed[np.arange(n_users), rng.integers(n_groups, size=n_users)] = True
    demand = rng.uniform(0.1, 1.0, (n_users, n_resources)).round(2)
    capacity = rng.uniform(1.0, 4.0, (n_groups, n_resources)).round(1)
    rising = rng.random(n_users) < 0.7
    rising[0] = True
    return LevelProgramme(
        demand=demand,
        allowed=allowed,
        need=np.where(rising, rng.uniform(0.5, 2.0, n_users), 0.0),
        fixed=np.where(rising, 0.0, 0.05),
        capacity=capacity,
        slope=np.where(rng.random(capacity.shape) < 0.3, 0.2, 0.0),
        exhausted=np.zeros(capacity.shape, dtype=bool),
    )


@settings(max_examples=20)
@given(seed=st.integers(0, 100_000))
def test_prices_prove_it(seed):
    programme = random_programme(seed)
    solution = raise_level(programme)
    prices = solution.prices
    cost = np.where(programme.allowed, programme.demand @ prices.T, np.inf).min(axis=1)
    price_of_level = programme.need @ cost + (programme.slope * prices).sum()
    bound = ((programme.capacity * prices).sum() - programme.fixed @ cost) / price_of_level
    assert (prices >= 0).all()
    assert bound == pytest.approx(solution.level, rel=1e-7)
    needed = programme.need * solution.level + programme.fixed
    np.testing.assert_allclose(solution.split.sum(axis=1), needed, rtol=1e-8)
    used = solution.split.T @ programme.demand + programme.slope * solution.level
    assert (used <= programme.capacity * (1 + 1e-9)).all()


def test_a_programme_without_bounds_is_refused():
    nobody = np.zeros((0, 2), dtype=bool)
    nothing = np.zeros((2, 1))
    programme = LevelProgramme(
        demand=np.zeros((0, 1)),
        allowed=nobody,
        need=np.zeros(0),
        fixed=np.zeros(0),
        capacity=np.ones((2, 1)),
        slope=nothing,
        exhausted=nothing > 0,
    )
    with pytest.raises(NoConvergenceError):
        raise_level(programme)


@settings(max_examples=15)
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
    by_lp = lexicographic_max_min_by_lp(**data)
    totals = lexicographic_max_min(**data).split.sum(axis=1)
    assert np.allclose(by_lp.split.sum(axis=1), totals, rtol=1e-7)
    tasks = by_lp.split / score[:, None]
    assert certify_max_min(problem, tasks, score, by_lp.prices / total).holds

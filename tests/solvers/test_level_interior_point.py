"""One level by interior point, beside the same programme through a general solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import NoConvergenceError
from fairlead.solvers._level_interior_point import LevelProgramme, raise_level


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

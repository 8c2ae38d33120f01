"""One server filled by level, beside a plain bisection of the same definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead.solvers.water_filling import WaterFilling


def fill_plainly(start, rate, width, use):
    """Raise one level by bisection until a resource is used up; stop its users; go on."""
    n_users, n_resources = use.shape
    tasks, stopped = np.zeros(n_users), np.zeros(n_users, dtype=bool)
    open_resources = set(range(n_resources))

    def at(level):
        return np.where(stopped, tasks, rate * np.clip(level - start, 0.0, width))

    while open_resources and not stopped.all():
        low, high = 0.0, 1e6
        for _ in range(200):
            level = 0.5 * (low + high)
            used = at(level) @ use
            over = [r for r in open_resources if used[r] > 1]
            low, high = (low, level) if over else (level, high)
        if high >= 1e6:
            break
        used = at(high) @ use
        full = max(open_resources, key=lambda r: used[r])
        open_resources.remove(full)
        tasks = at(low)
        stopped |= use[:, full] > 0
    return np.where(stopped, tasks, rate * np.minimum(width, 1e6))


numbers = st.floats(0.1, 5.0)


@st.composite
def servers(draw):
    n_users, n_resources = draw(st.integers(1, 6)), draw(st.integers(1, 3))

    def vector(element):
        return np.array([draw(element) for _ in range(n_users)])

    use = np.array(
        [
            [draw(st.sampled_from([0.0, 0.3, 1.0, 2.5])) for _ in range(n_resources)]
            for _ in range(n_users)
        ]
    )
    use[use.sum(axis=1) == 0, 0] = 1.0
    use /= np.array([draw(numbers) for _ in range(n_resources)])  # the capacities

    def bounds():
        start = vector(st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0]))
        return start, vector(st.sampled_from([np.inf, np.inf, 0.25, 1.0]))

    return vector(numbers), use, [bounds() for _ in range(draw(st.integers(1, 4)))]


@given(servers())
def test_filling_is_what_bisection_finds(server):
    """Also where the search starts at the levels of an earlier division."""
    rate, use, divisions = server
    filling = WaterFilling(rate.tolist(), use.T.tolist())
    for start, width in divisions:
        tasks = np.array(filling.divide(start.tolist(), width.tolist()))
        np.testing.assert_allclose(
            tasks, fill_plainly(start, rate, width, use), rtol=1e-7, atol=1e-9
        )
        assert (tasks @ use <= 1 + 1e-12).all()
        used_up = np.isfinite(list(filling.level))
        np.testing.assert_allclose((tasks @ use)[used_up], 1.0)

"""The first of equal amounts is taken: rounding decides nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.ties import (
    first_largest,
    first_largest_of_rows,
    first_smallest,
    largest_first,
)

AMOUNTS = st.lists(
    st.sampled_from([0.0, 1e-9, 0.1, 0.3, 2 / 3, 1.0, 7.0, 1e9]), min_size=1, max_size=9
)
SIGNS = st.lists(st.integers(-3, 3), min_size=9, max_size=9)


@given(AMOUNTS, SIGNS)
def test_a_few_ulps_change_nothing(amounts: list[float], ulps: list[int]) -> None:
    exact = np.array(amounts)
    rounded = exact * (1 + np.finfo(float).eps * np.array(ulps[: len(exact)]))
    assert first_largest(rounded) == exact.argmax()
    assert first_smallest(rounded) == exact.argmin()
    assert first_largest_of_rows(rounded[None, :]).tolist() == [exact.argmax()]
    assert largest_first(rounded).tolist() == np.argsort(-exact, kind="stable").tolist()


def test_the_infinite_and_the_unknown_have_their_places() -> None:
    values = np.array([np.nan, 1.0, np.inf, 2.0, np.inf, np.nan, -np.inf])
    assert first_largest(values) == 2
    assert first_smallest(values) == 6
    assert largest_first(values).tolist() == [2, 4, 3, 1, 6, 0, 5]
    assert largest_first(np.array([])).tolist() == []


@pytest.mark.parametrize("further", [1e-6, 1e-3])
def test_what_is_really_larger_comes_first(further: float) -> None:
    assert first_largest(np.array([1.0, 1 + further])) == 1
    assert largest_first(np.array([1.0, 1 + further])).tolist() == [1, 0]

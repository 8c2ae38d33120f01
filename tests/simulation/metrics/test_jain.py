"""Jain's index of fairness, from its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.simulation.metrics.distribution import jain_index


@given(st.lists(st.integers(0, 9), min_size=1))
def test_jain_is_what_its_authors_write(amounts: list[int]) -> None:
    squares = sum(x * x for x in amounts)
    expected = sum(amounts) ** 2 / (len(amounts) * squares) if squares else float("nan")
    assert jain_index(np.array(amounts, dtype=float)) == pytest.approx(expected, nan_ok=True)

"""Numbers as the sentences of verdicts show them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.properties.verdict_text import format_change, format_number


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (-0.0, "0"),
        (0.123456, "0.1235"),
        (1234.6, "1,235"),
        (1e300, "1e+300"),
        (float("inf"), "infinitely many"),
    ],
)
def test_numbers(number, said):
    assert format_number(number) == said


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (4.0, 4.0001, ("4", "4.0001")),
        (1234000.0, 1234600.0, ("1,234,000", "1,234,600")),
        (0.0, float("inf"), ("0", "infinitely many")),
    ],
)
def test_changes_are_seen(before, after, said):
    assert format_change(before, after) == said
    assert format_change(after, before) == said[::-1]


@given(before=st.floats(1e-12, 1e12), factor=st.floats(1 + 1e-6, 1e6))
def test_a_change_is_said_about_as_large_as_it_is(before, factor):
    after = before * factor
    first, second = (float(said.replace(",", "")) for said in format_change(before, after))
    assert second - first == pytest.approx(after - before, rel=1.0)
    assert second > first
    assert first == pytest.approx(before, rel=1e-3)
    assert second == pytest.approx(after, rel=1e-3)

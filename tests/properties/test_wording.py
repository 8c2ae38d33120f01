"""Numbers as sentences format_number them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.properties.verdict_text import (
    counted,
    format_change,
    format_number,
    format_percent,
    format_tasks,
)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (2.5, "2.5"),
        (0.123456, "0.1235"),
        (999.96, "1000"),
        (1234.6, "1,235"),
        (1e300, "1e+300"),
        (1e-9, "1e-09"),
        (float("inf"), "infinitely many"),
    ],
)
def test_numbers(number, said):
    assert format_number(number) == said


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (4.0, 4.0001, ("4", "4.0001")),
        (1000.49, 1000.51, ("1,000.49", "1,000.51")),
        (1234000.0, 1234600.0, ("1,234,000", "1,234,600")),
        (0.3333333, 0.3333334, ("0.3333333", "0.3333334")),
        (0.0, 5.0, ("0", "5")),
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


def test_nouns_and_percent():
    assert format_tasks("1") == "1 task"
    assert format_tasks("1.5") == "1.5 tasks"
    assert counted(1, "lie") == "1 lie"
    assert counted(12583, "server") == "12,583 servers"
    assert format_percent(0.00123) == "0.12 %"
    assert format_percent(12.0) == "1,200 %"

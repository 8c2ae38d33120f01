"""Dates in words, and round marks of axes."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.report._dates import MOST_MARKS, date_marks, date_text, period_text

DATES = st.datetimes(datetime(1970, 1, 1), datetime(2090, 1, 1))


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        ("2025-03-03 00:11", "2025-03-09 23:57", "3 to 9 March 2025"),
        ("2025-03-03 00:11", "2025-03-03 23:57", "3 March 2025"),
        ("2025-02-28", "2025-03-02", "28 February to 2 March 2025"),
        ("2024-12-31", "2025-01-01", "31 December 2024 to 1 January 2025"),
    ],
)
def test_periods_in_words(first: str, last: str, text: str) -> None:
    assert period_text(datetime.fromisoformat(first), datetime.fromisoformat(last)) == text


@pytest.mark.parametrize(
    ("first", "hours", "labels"),
    [
        ("2025-03-03 06:00", 72, "12:00|Tue 4 Mar|12:00|Wed 5|12:00|Thu 6"),
        ("2025-03-03 06:00", 168, "Tue 4 Mar|Wed 5|Thu 6|Fri 7|Sat 8|Sun 9|Mon 10"),
        ("2025-03-05", 24 * 40, "Mon 10 Mar|Mon 17|Mon 24|Mon 31|Mon 7 Apr"),
        ("2024-12-15", 24 * 100, "Mon 23 Dec|Mon 6 Jan|Mon 20|Mon 3 Feb"),
        ("2024-12-15", 24 * 200, "Jan 2025|Feb 2025|Mar 2025|Apr 2025|May 2025|Jun 2025|Jul 2025"),
        ("2025-03-03 06:00", 2, "06:00|06:30|07:00|07:30|08:00"),
    ],
)
def test_marks_are_round_dates(first: str, hours: int, labels: str) -> None:
    begin = datetime.fromisoformat(first)
    found = [text for _, text in date_marks(begin, begin + timedelta(hours=hours))]
    for label, text in zip(labels.split("|"), found, strict=False):
        assert text == label


@given(DATES, st.floats(1, 3e9))
def test_marks_are_few_and_inside(first: datetime, seconds: float) -> None:
    last = first + timedelta(seconds=seconds)
    found = [mark for mark, _ in date_marks(first, last)]
    assert len(found) <= MOST_MARKS
    assert found == sorted(set(found))
    assert all(first <= mark <= last for mark in found)


def test_a_moment_in_words() -> None:
    assert date_text(datetime(2025, 3, 3, 14, 5)) == "Mon 3 Mar 14:05"

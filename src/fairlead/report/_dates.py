"""Choose round dates as marks of time axes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import polars as pl

MOST_MARKS = 8
# Steps between marks, as Polars names them, with the longest length; weeks start on Monday.
_STEPS = {
    **{f"{minutes}m": timedelta(minutes=minutes) for minutes in (1, 5, 10, 15, 30)},
    **{f"{hours}h": timedelta(hours=hours) for hours in (1, 2, 3, 6, 12)},
    **{f"{days}d": timedelta(days=days) for days in (1, 2)},
    **{f"{weeks}w": timedelta(weeks=weeks) for weeks in (1, 2)},
    **{
        f"{months}mo": timedelta(days=31 * months)
        for months in (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
    },
}


def date_marks(first: datetime, last: datetime) -> list[tuple[datetime, str]]:
    """Return at most `MOST_MARKS` round dates between two dates, with their labels."""
    for step, length in _STEPS.items():
        if (last - first) / length > MOST_MARKS + 1:
            continue
        begin = pl.Series([first]).dt.truncate(step).item()
        dates = pl.datetime_range(begin, last, step, eager=True)
        marks = dates.filter(dates >= first).to_list()
        if marks and len(marks) <= MOST_MARKS:
            return list(zip(marks, _mark_texts(marks, step), strict=True))
    return []


def _mark_texts(marks: list[datetime], step: str) -> Iterator[str]:
    """Yield the labels of marks; the month only where it changes."""
    month = 0
    for mark in marks:
        if step.endswith("mo"):
            yield f"{mark:%b %Y}"
        elif mark.hour or mark.minute:
            yield f"{mark:%H:%M}"
        else:
            yield f"{mark:%a} {mark.day}{'' if mark.month == month else f' {mark:%b}'}"
            month = mark.month

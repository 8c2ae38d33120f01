"""Dates of a log: periods in words, and marks of axes of time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

MOST_MARKS = 8
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
# Distances of marks, each a divisor of a day or whole days; longer ones are months.
_STEPS = (
    *(timedelta(minutes=m) for m in (1, 5, 10, 15, 30)),
    *(h * _HOUR for h in (1, 2, 3, 6, 12)),
    *(d * _DAY for d in (1, 2, 7, 14)),
)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)


def period_text(first: datetime, last: datetime) -> str:
    """Write a period: ``3 to 10 March 2025``, ``28 February to 2 March 2025``."""
    if first.date() == last.date():
        return _day(last, f"{last:%B %Y}")
    if first.year != last.year:
        begin = _day(first, f"{first:%B %Y}")
    elif first.month != last.month:
        begin = _day(first, f"{first:%B}")
    else:
        begin = str(first.day)
    return f"{begin} to {_day(last, f'{last:%B %Y}')}"


def date_text(date: datetime) -> str:
    """Write a date with its time: ``Mon 3 Mar 14:05``."""
    return f"{date:%a} {_day(date, f'{date:%b %H:%M}')}"


def date_marks(first: datetime, last: datetime) -> list[tuple[datetime, str]]:
    """Return at most `MOST_MARKS` round dates between two dates, with their labels."""
    for step in _STEPS:
        marks = list(_stepwise(first, last, step))
        if marks and len(marks) <= MOST_MARKS:
            return [(mark, _mark_text(mark, step)) for mark in marks]
    for months in _MONTHS:
        marks = list(_by_months(first, last, months))
        if len(marks) <= MOST_MARKS:
            break
    return [(mark, f"{mark:%b %Y}") for mark in marks]


def _stepwise(first: datetime, last: datetime, step: timedelta) -> Iterator[datetime]:
    """Yield the dates of a step, counted from midnight, or from Monday for whole weeks."""
    if (last - first) / step > MOST_MARKS + 1:
        return
    mark = first.replace(hour=0, minute=0, second=0, microsecond=0)
    if step.days % 7 == 0 and step.days:
        mark -= mark.weekday() * _DAY
    while mark < first:
        mark += step
    while mark <= last:
        yield mark
        mark += step


def _by_months(first: datetime, last: datetime, months: int) -> Iterator[datetime]:
    month = first.year * 12 + first.month - 1
    month += -month % months
    while True:
        mark = first.replace(
            year=month // 12, month=month % 12 + 1, day=1, hour=0, minute=0, second=0, microsecond=0
        )
        if mark > last:
            return
        if mark >= first:
            yield mark
        month += months


def _mark_text(mark: datetime, step: timedelta) -> str:
    is_midnight = mark.hour == mark.minute == 0
    if step >= _DAY or is_midnight:
        return f"{mark:%a} {_day(mark, f'{mark:%b}')}"
    return f"{mark:%H:%M}"


def _day(date: datetime, rest: str) -> str:
    return f"{date.day} {rest}"

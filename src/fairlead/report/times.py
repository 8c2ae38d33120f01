"""How times are written for a reader, and where the axes of pictures have their marks."""

from __future__ import annotations

from math import log10
from typing import Any

from fairlead.report.numbers import number, spread

UNITS = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0))
# Marks of logarithmic axes: those of the first line always, the others where there is room.
_MARKS = (
    (("1 s", 1.0), ("1 min", 60.0), ("1 h", 3600.0), ("1 d", 86_400.0), ("30 d", 2_592_000.0)),
    (("10 s", 10.0), ("10 min", 600.0), ("6 h", 21_600.0), ("5 d", 432_000.0)),
    (("1 ms", 1e-3), ("10 ms", 1e-2), ("0.1 s", 0.1), ("300 d", 25_920_000.0)),
)
_MOST_MARKS = 7


def duration(seconds: float) -> str:
    """Write a duration in the unit that suits it: ``89 d``, ``3.2 h``, ``45 s``."""
    unit, size = time_unit(abs(seconds))
    return f"{number(seconds / size)} {unit}"


def short_duration(seconds: float) -> str:
    """Write a duration with three digits, and its unit on the same line: ``3.21 h``."""
    unit, size = time_unit(abs(seconds))
    return f"{spread(seconds / size)}\u00a0{unit}"


def time_unit(seconds: float) -> tuple[str, float]:
    """Return the unit that suits times up to `seconds`, and its length in seconds."""
    for unit, size in UNITS:
        if seconds >= 2 * size:
            return unit, size
    return "s", 1.0


def logarithmic_times(least: float, most: float) -> dict[str, Any]:
    """Lay out, for Plotly, a logarithmic axis between two times in seconds, both positive."""
    marks: list[tuple[str, float]] = []
    for more in _MARKS:
        inside = [mark for mark in more if least <= mark[1] <= most]
        if len(marks) + len(inside) <= _MOST_MARKS:
            marks += inside
    if len(marks) < 2:
        marks = [(duration(least), least), (duration(most), most)]
    marks.sort(key=lambda mark: mark[1])
    return {
        "type": "log",
        "range": [log10(least), log10(most)],
        "tickvals": [value for _, value in marks],
        "ticktext": [text for text, _ in marks],
        "tickangle": 0,
    }

"""Times are written in units that suit them."""

from __future__ import annotations

import pytest

from fairlead.report.charts import logarithmic_times
from fairlead.report.numbers import duration, short_duration, time_unit


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (100_000, "27.78 h"),
        (172_800, "2 d"),
        (86_400 * 365, "365 d"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_short_durations_do_not_break() -> None:
    assert short_duration(100_000) == "27.8\u00a0h"
    assert time_unit(100_000) == ("h", 3600.0)


@pytest.mark.parametrize(
    ("least", "most"), [(1, 1e7), (1e-4, 1e-3), (0.5, 4e7), (61, 62), (1e9, 2e9), (30, 4000)]
)
def test_marks_are_on_the_axis_and_not_too_many(least: float, most: float) -> None:
    axis = logarithmic_times(least, most)
    low, high = (10**power for power in axis["range"])
    assert 2 <= len(axis["tickvals"]) == len(axis["ticktext"]) <= 7
    assert axis["tickvals"] == sorted(axis["tickvals"])
    assert low <= axis["tickvals"][0] * (1 + 1e-9)
    assert axis["tickvals"][-1] <= high * (1 + 1e-9)
    units = {"ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86_400}
    for value, text in zip(axis["tickvals"], axis["ticktext"], strict=True):
        number, unit = text.split()
        assert float(number.replace(",", "")) * units[unit] == pytest.approx(value, rel=1e-2)

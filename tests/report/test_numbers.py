"""Numbers, dates, axes and tables are written for a reader."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.report import charts
from fairlead.report._simulation_figures import MOST_MARKS, date_marks
from fairlead.report.charts import LONGEST_LABEL
from fairlead.report.numbers import (
    change,
    duration,
    frame_text,
    in_words,
    number,
    percent,
    precise_percent,
    spread,
    tasks_text,
)


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (number, 12583, "12,583"),
        (number, 999.97, "1,000"),
        (number, 2.60869, "2.609"),
        (number, 3.2e15, "3.2e+15"),
        (spread, 2.7012, "2.7"),
        (spread, 12345.6, "12,300"),
        (percent, 5 / 7, "71.43 %"),
        (percent, 2e-6, "0.0002 %"),
        (precise_percent, 1 / 3500, "0.02857 %"),
        (change, 0.1234567, "+12.3\u00a0%"),
        (change, -1 / 15, "−6.67\u00a0%"),
        (change, -9e-4, "unchanged"),
        (change, float("inf"), "from nothing"),
        (duration, 0.25, "0.25 s"),
        (duration, 119, "119 s"),
        (duration, 100_000, "27.78 h"),
        (duration, 172_800, "2 d"),
        (number, -0.0, "0"),
        (percent, -0.0, "0.00 %"),
        (precise_percent, -0.0, "0.000 %"),
        (duration, -0.0, "0 s"),
        (tasks_text, 0.5, "0.5 tasks"),
    ],
)
def test_numbers_are_written(write: Callable[[float], str], value: float, text: str) -> None:
    assert write(value) == text


@pytest.mark.parametrize("write", [percent, precise_percent])
@pytest.mark.parametrize("share", [1.3e-16, -2e-12, 9.9e-7, 1.1e-6, 0.00003, 0.02, 1.0])
def test_no_percentage_is_a_power_of_ten(write: Callable[[float], str], share: float) -> None:
    text = write(share)
    assert "e" not in text
    assert (text == "~0 %") == (abs(share) < 1e-6)


@pytest.mark.parametrize("least", [1e-4, 0.5, 7.0, 3000.0])
@pytest.mark.parametrize("times", [1.1, 30.0, 1e4, 1e9])
def test_marks_of_times_are_in_order_on_the_axis(least: float, times: float) -> None:
    axis = charts.logarithmic_times(least, least * times)
    assert axis.ends == (least, least * times)
    values, _ = zip(*axis.marks or (), strict=True)
    assert list(values) == sorted(set(values))
    assert least <= values[0] < values[-1] <= least * times
    assert 2 <= len(values) <= 7
    units = {"ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86_400}
    for value, text in axis.marks or ():
        amount, unit = text.split()
        assert float(amount.replace(",", "")) * units[unit] == pytest.approx(value, rel=1e-2)


@pytest.mark.parametrize("length", [1, LONGEST_LABEL, LONGEST_LABEL + 1, 90])
def test_long_names_keep_both_ends(length: int) -> None:
    name = "".join(chr(0x4E00 + k) for k in range(length))
    short = charts.shortened(name)
    assert len(short) <= LONGEST_LABEL
    assert (short == name) == (length <= LONGEST_LABEL)
    assert (short[0], short[-1]) == (name[0], name[-1])


DATES = st.datetimes(datetime(1970, 1, 1), datetime(2090, 1, 1))


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


def test_latex_escapes_text_and_names_its_package() -> None:
    frame = polars.DataFrame(
        {"user": ["a_b & 50%", None], "dominant_share": [-0.2576, 12_583.4]}, strict=False
    )
    lines = [" ".join(line.split()) for line in frame_text(frame, "latex").splitlines()]
    assert lines == [
        "% needs \\usepackage{booktabs}",
        "\\begin{tabular}{lr}",
        "\\toprule",
        "user & dominant share \\\\",
        "\\midrule",
        "a\\_b \\& 50\\% & $-$0.2576 \\\\",
        "-- & 12,583 \\\\",
        "\\bottomrule",
        "\\end{tabular}",
    ]


def test_figures_have_words_and_resources_their_names() -> None:
    assert in_words("mean_bounded_slowdown") == "mean bounded slowdown"
    assert in_words("p95_wait") == "95 % wait"
    assert in_words("used_my_gpu") == "used my_gpu"

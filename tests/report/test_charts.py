"""The chart kit says where things are drawn, and what of a point is said."""

from __future__ import annotations

from math import log10

import numpy as np
import pytest

from fairlead.report import charts
from fairlead.report.charts import INK, LONGEST_LABEL


def test_the_first_of_several_rows_is_on_top() -> None:
    """An axis from high to low puts row 0, the first name, above all others."""
    axis = charts.rows(["a", "b<", "c"])
    bottom, top = axis["range"]
    assert bottom > 2
    assert top < 0
    assert dict(zip(axis["tickvals"], axis["ticktext"], strict=True)) == {
        0: "a",
        1: "b&lt;",
        2: "c",
    }


def test_numbers_have_six_digits_and_none_where_there_is_none() -> None:
    given = [1 / 3, 123456789.0, np.nan, np.inf, 0.0]
    assert charts.values(given) == [0.333333, 123457000.0, None, None, 0.0]


def test_names_mean_themselves_and_empty_lines_go() -> None:
    assert charts.hover("<b>", "x & y", "") == "<b>&lt;b&gt;</b><br>x &amp; y"
    assert charts.line("<i>", np.zeros(1), np.zeros(1), colour="#000000")["name"] == "&lt;i&gt;"


@pytest.mark.parametrize("length", [1, LONGEST_LABEL, LONGEST_LABEL + 1, 90])
def test_long_names_keep_both_ends(length: int) -> None:
    name = "".join(chr(0x4E00 + k) for k in range(length))
    short = charts.shortened(name)
    assert len(short) <= LONGEST_LABEL
    assert (short == name) == (length <= LONGEST_LABEL)
    assert (short[0], short[-1]) == (name[0], name[-1])


@pytest.mark.parametrize("most", [2, 3, 10, 99])
def test_thinned_are_both_ends_and_as_many_as_there_is_room_for(most: int) -> None:
    indices = np.arange(100, 200)
    thinned = charts.thinned(indices, most)
    assert (thinned[0], thinned[-1], len(thinned)) == (100, 199, most)
    assert np.ptp(np.diff(thinned)) <= 1
    assert charts.thinned(indices, 100) is indices


def test_a_line_between_each_start_and_its_end_with_gaps() -> None:
    drawn = charts.between([0.0, 2.0], [1.0, 5.0], [0, 1])
    assert drawn["x"] == [0.0, 1.0, None, 2.0, 5.0, None]
    assert drawn["y"] == [0, 0, None, 1, 1, None]


def test_bars_stand_upright_or_lie() -> None:
    upright = charts.bars("b", ["p", "q"], np.array([1.0, 2.0]), [], "#000000")
    level = charts.bars("b", ["p", "q"], np.array([1.0, 2.0]), [], "#000000", level=True)
    assert (upright["x"], upright["y"], upright["orientation"]) == (["p", "q"], [1.0, 2.0], "v")
    assert (level["y"], level["x"], level["orientation"]) == (["p", "q"], [1.0, 2.0], "h")


def test_a_mark_goes_through_all_of_the_other_axis() -> None:
    upright, level = charts.mark_at(x=3.0), charts.mark_at(y=4.0)
    assert [upright[k] for k in ("x0", "x1", "y0", "y1")] == [3.0, 3.0, 0, 1]
    assert [level[k] for k in ("x0", "x1", "y0", "y1")] == [0, 1, 4.0, 4.0]
    assert upright["yref"] == level["xref"] == "paper"


@pytest.mark.parametrize("least", [1e-4, 0.5, 7.0, 3000.0])
@pytest.mark.parametrize("times", [1.1, 30.0, 1e4, 1e9])
def test_marks_of_times_are_in_order_within_the_axis(least: float, times: float) -> None:
    axis = charts.logarithmic_times(least, least * times)
    assert axis["range"] == [log10(least), log10(least * times)]
    assert axis["tickvals"] == sorted(set(axis["tickvals"]))
    assert least <= axis["tickvals"][0] < axis["tickvals"][-1] <= least * times
    assert 2 <= len(axis["tickvals"]) == len(axis["ticktext"]) <= 7


def test_letters_are_legible_on_what_they_stand_on() -> None:
    assert charts.ink_on("#000000") == charts.ink_on("#0072B2") == "#ffffff"
    assert charts.ink_on("#ffffff") == charts.ink_on("#F0E442") == "#000000"


def test_colours_and_dashes_for_style_sheets() -> None:
    assert (charts.css(INK), charts.css("#123456")) == ("var(--ink)", "#123456")
    assert [charts.css_dash(dash) for dash in ("solid", "dot", "longdash")] == [
        "solid",
        "dotted",
        "dashed",
    ]


def test_bubbles_grow_with_the_tasks() -> None:
    sizes = charts.bubbles(*np.zeros((2, 3)), np.array([1, 100, 10_000]), [])["marker"]["size"]
    assert sizes == sorted(set(sizes))
    ((small, middle), (_, large)) = sizes[:2], sizes[1:]
    assert large - middle == pytest.approx(middle - small, rel=0.2)

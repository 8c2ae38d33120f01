"""Pictures as SVG: positions by hand, labels and texts under the pointer."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from fairlead.report.charts import (
    Axis,
    Bars,
    Dots,
    Figure,
    Line,
    between,
    listed,
    logarithmic_times,
)
from fairlead.report.page import HOVER_STRIPS, LETTER, to_svg

LONG = "a-user-with-a-name-that-is-longer-than-any-label"
INK = "#111111"
FROM_0_TO_1 = Axis(ends=(0, 1))


def drawn(figure: Figure) -> tuple[ElementTree.Element, float]:
    """Return the picture, and its height without the margins."""
    root = ElementTree.fromstring(to_svg(figure, "about"))
    return root, float(str(next(root.iter("svg")).get("height")))


def paths(figure: Figure) -> list[str]:
    return [str(path.get("d")) for path in drawn(figure)[0].iter("path")]


def texts(root: ElementTree.Element) -> list[str]:
    return [(t.text or "") + "".join(c.tail or "" for c in t) for t in root.iter("text")]


def test_bars_begin_and_end_at_their_values() -> None:
    traces = [
        Bars("a", [0, 1], [0.25, 0.5], ["x", "y"], INK),
        Bars("b", [0, 1], [0.75, 0.5], ["z", "w"], INK, ["inside", "long " * 99]),
    ]
    root, _ = drawn(listed(["ana", "bo"], traces, ends=(0, 1)))
    places = [(r.get("x"), r.get("width"), r.findtext("title")) for r in root.iter("rect")]
    assert places == [
        ("0.0%", "25.00%", "x"),
        ("0.0%", "50.00%", "y"),
        ("25.0%", "75.00%", "z"),
        ("50.0%", "50.00%", "w"),
    ]
    assert [text for text in texts(root) if text.startswith(("in", "long"))] == ["inside"]


def test_dots_are_at_their_values() -> None:
    dots = Dots("", [1, 3, float("nan")], [0, 1, 0], ["p\n1", "q", ""])
    root, height = drawn(Figure([dots], Axis(ends=(0, 4)), Axis(ends=(1, 0))))
    found = [(c.get("cx"), float(str(c.get("cy")))) for c in root.iter("circle")]
    assert found == [("25.0%", 0.0), ("75.0%", height)]
    assert [c.findtext("title") for c in root.iter("circle")] == ["p\n1", "q"]


def test_steps_are_level_between_their_values() -> None:
    under_pointer = ["a\n100%", "a\n50%", "a\n0%"]
    stairs = Line("a", [0, 1, 2], [1.0, 0.5, 0.0], under_pointer, is_stairs=True)
    figure = Figure([stairs], Axis(ends=(0, 2)), FROM_0_TO_1)
    root, height = drawn(figure)
    assert paths(figure) == [f"M0 0H500V{height / 2:g}H1000V{height:g}"]
    strips = [r.findtext("title") for r in root.iter("rect") if r.get("class") == "strip"]
    assert len(strips) == HOVER_STRIPS
    assert (strips[0], strips[HOVER_STRIPS // 2], strips[-1]) == ("a: 100%", "a: 50%", "a: 0%")


def test_gaps_of_lines_are_gaps() -> None:
    (path,) = paths(Figure([between([0, 1], [2, 3], [0, 1], INK)], Axis(), Axis()))
    assert path.count("M") == path.count("L") == 2


def test_areas_lie_on_one_another() -> None:
    bands = [Line(name, [0, 1], [0.5, 0.25], is_band=True) for name in ("a", "b")]
    figure = Figure(bands, FROM_0_TO_1, FROM_0_TO_1)
    height = drawn(figure)[1]
    half, quarter = f"{height / 2:g}", f"{height * 0.75:g}"
    assert paths(figure) == [
        f"M0 {half}L1000 {quarter}L1000 {height:g}L0 {height:g}Z",
        f"M0 0L1000 {half}L1000 {quarter}L0 {half}Z",
    ]


def test_long_labels_have_room_and_their_whole_name() -> None:
    root, _ = drawn(listed([LONG, "<b>&amp;"], [Bars("", [0, 1], [1, 2])]))
    labels = [t for t in root.iter("text") if t.get("class") == "end"]
    assert [label.findtext("title") for label in labels] == [LONG, None]
    shown = texts(root)
    assert "<b>&amp;" in shown
    (short,) = [text for text in shown if "…" in text]
    left = float(re.findall(r"[\d.]+px", str(root.get("style")))[3][:-2])
    assert left >= LETTER * len(short)


def test_axes_have_round_marks() -> None:
    line = Line("a", [0.0, 7.3], [0.0, 0.97])
    figure = Figure([line], Axis(ends=(0, 7.3), unit="d", steps=8), Axis(is_share=True))
    shown = texts(drawn(figure)[0])
    assert [t for t in shown if "%" in t] == ["0%", "20%", "40%", "60%", "80%"]
    assert [t for t in shown if "d" in t] == [f"{k} d" for k in range(8)]
    root, _ = drawn(Figure([line], logarithmic_times(1.0, 3600.0), Axis()))
    assert [t.get("x") for t in root.iter("text") if t.text == "1 min"] == ["50.0%"]


def test_names_stay_text() -> None:
    evil = '</text><script>alert(1)</script>"'
    root, _ = drawn(listed([evil], [Dots(evil, [1], [0], [evil])]))
    assert not list(root.iter("script"))
    assert root.findtext(".//circle/title") == evil

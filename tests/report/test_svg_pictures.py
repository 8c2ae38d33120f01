"""Pictures as SVG: positions by hand, labels and texts under the pointer."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np

from fairlead.report.charts import (
    Figure,
    bars,
    dots,
    layout,
    line,
    listed,
)
from fairlead.report.page import HOVER_STRIPS, LETTER, to_svg

LONG = "a-user-with-a-name-that-is-longer-than-any-label"


def drawn(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(to_svg(figure, "about"))


def texts(root: ElementTree.Element) -> list[str]:
    return [(t.text or "") + "".join(c.tail or "" for c in t) for t in root.iter("text")]


def test_bars_begin_and_end_at_their_values() -> None:
    figure = {
        "data": [
            bars("a", [0, 1], [0.25, 0.5], ["x", "y"], "#111111"),
            bars("b", [0, 1], [0.75, 0.5], ["z", "w"], "#222222"),
        ],
        "layout": listed(["ana", "bo"]),
    }
    figure["layout"]["xaxis"]["range"] = [0, 1]
    found = drawn(figure).iter("rect")
    places = [(r.get("x"), r.get("width"), r.findtext("title")) for r in found]
    assert places == [
        ("0.0%", "25.00%", "x"),
        ("0.0%", "50.00%", "y"),
        ("25.0%", "75.00%", "z"),
        ("50.0%", "50.00%", "w"),
    ]


def test_dots_are_at_their_values() -> None:
    figure = {"data": [dots("", [1, 3], [0, 1], ["p\n1", "q"], colour="#111111")]}
    figure["layout"] = {"height": 148, "xaxis": {"range": [0, 4]}, "yaxis": {"range": [1, 0]}}
    root = drawn(figure)
    height = float(str(next(root.iter("svg")).get("height")))
    found = [(c.get("cx"), float(str(c.get("cy")))) for c in root.iter("circle")]
    assert found == [("25.0%", 0.0), ("75.0%", height)]
    assert [c.findtext("title") for c in root.iter("circle")] == ["p\n1", "q"]


def test_steps_are_level_between_their_values() -> None:
    stairs = line("a", [0, 1, 2], [1.0, 0.5, 0.0], ["a\n100%", "a\n50%", "a\n0%"], colour="#111111")
    stairs["line"]["shape"] = "hv"
    axes = {"xaxis": {"range": [0, 2]}, "yaxis": {"range": [0, 1]}}
    root = drawn({"data": [stairs], "layout": {"height": 300} | axes})
    height = float(str(next(root.iter("svg")).get("height")))
    (path,) = [str(p.get("d")) for p in root.iter("path")]
    assert path == f"M0 0H500V{height / 2:g}H1000V{height:g}"
    strips = [r.findtext("title") for r in root.iter("rect") if r.get("class") == "strip"]
    assert len(strips) == HOVER_STRIPS
    assert (strips[0], strips[HOVER_STRIPS // 2], strips[-1]) == ("a: 100%", "a: 50%", "a: 0%")


def test_areas_lie_on_one_another() -> None:
    data = [
        line(name, [0, 1], [0.5, 0.25], colour="#111111")
        | {"stackgroup": "s", "fillcolor": "#111111"}
        for name in ("a", "b")
    ]
    axes = {"xaxis": {"range": [0, 1]}, "yaxis": {"range": [0, 1]}}
    root = drawn({"data": data, "layout": {"height": 300} | axes})
    height = float(str(next(root.iter("svg")).get("height")))
    lower, upper = (str(p.get("d")) for p in root.iter("path"))
    half, quarter = f"{height / 2:g}", f"{height * 0.75:g}"
    assert lower == f"M0 {half}L1000 {quarter}L1000 {height:g}L0 {height:g}Z"
    assert upper == f"M0 0L1000 {half}L1000 {quarter}L0 {half}Z"


def test_long_labels_have_room_and_their_whole_name() -> None:
    figure = {
        "data": [bars("", [0, 1], [1, 2], ["", ""], "#111111")],
        "layout": listed([LONG, "<b>&amp;"]),
    }
    root = drawn(figure)
    labels = [t for t in root.iter("text") if t.get("class") == "end"]
    assert [label.findtext("title") for label in labels] == [LONG, None]
    shown = texts(root)
    assert "<b>&amp;" in shown
    (short,) = [text for text in shown if "…" in text]
    left = float(re.findall(r"[\d.]+px", str(root.get("style")))[3][:-2])
    assert left >= LETTER * len(short)


def test_axes_have_round_marks() -> None:
    x = np.array([0.0, 7.3])
    axis = layout(share=True)
    axis["xaxis"] |= {"range": [0, 7.3], "ticksuffix": " d"}
    figure = {"data": [line("a", x, [0.0, 0.97], colour="#111111")], "layout": axis}
    shown = texts(drawn(figure))
    assert [t for t in shown if "%" in t] == ["0%", "20%", "40%", "60%", "80%"]
    assert [t for t in shown if "d" in t] == [f"{k} d" for k in range(8)]


def test_names_stay_text() -> None:
    evil = '</text><script>alert(1)</script>"'
    figure = {"data": [dots(evil, [1], [1], [evil], colour="#111111")], "layout": listed([evil])}
    root = drawn(figure)
    assert not list(root.iter("script"))
    assert root.findtext(".//circle/title") == evil

"""The chart kit: pictures as plain data, which pages draw as SVG and notebooks with Plotly.

A picture is a list of traces (`line`, `dots`, `bars`, ...) in a `layout`, in Plotly's terms.
`hover` builds the text that a point shows under the pointer. All texts are plain; pages and
notebooks escape them. The page chooses colours of text and axes by the reader's light or dark
setting. If the layout has a legend, the page lists the names of traces above the picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log10
from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.report.numbers import duration

Figure = dict[str, Any]
Trace = dict[str, Any]
Numbers = Sequence[float] | FloatArray | IntArray

# Distinct to colour-blind readers: the colours of Okabe and Ito, and three of Paul Tol.
COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#999933",
    "#F0E442",
    "#882255",
    "#7A6FD0",
)
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star", "hexagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
COLOUR_OF_OTHERS = "#8d8d8d"
COLOUR_OF_FREE = "rgba(128,128,128,0.13)"
INK = "themed"  # placeholder for the text colour of the page
MORE, LESS, EVEN = COLOURS[0], COLOURS[5], COLOUR_OF_OTHERS

# A picture shows at most so many users; the table below it lists all.
USERS_DRAWN = 60
LONGEST_LABEL = 26
# Marks of logarithmic time axes. A later line is used, too, if there are then at most _MOST_MARKS
# within the axis.
_MARKS = (
    (("1 s", 1.0), ("1 min", 60.0), ("1 h", 3600.0), ("1 d", 86_400.0), ("30 d", 2_592_000.0)),
    (("10 s", 10.0), ("10 min", 600.0), ("6 h", 21_600.0), ("5 d", 432_000.0)),
    (("1 ms", 1e-3), ("10 ms", 1e-2), ("0.1 s", 0.1), ("300 d", 25_920_000.0)),
)
_MOST_MARKS = 7


def shortened(text: str, longest: int = LONGEST_LABEL) -> str:
    """Shorten a long text by replacing its middle with ``…``."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def hover(name: str, *lines: str) -> str:
    """Format the text under the pointer: a name, and a line for each text that is not empty."""
    return "\n".join([name, *filter(None, lines)])


def values(numbers: Iterable[float] | FloatArray) -> list[float | None]:
    """Round numbers to six digits; replace infinite numbers and NaN by None."""
    array = np.asarray(numbers, dtype=float)
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in array.tolist()]


def line(
    name: str,
    x: Numbers,
    y: Numbers,
    texts: Sequence[str] = (),
    *,
    colour: str,
    width: float = 2.0,
    dash: str = "solid",
) -> Trace:
    """Draw one line."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": values(x),
        "y": values(y),
        "line": {"color": colour, "width": width, "dash": dash},
        **_under_pointer(texts),
    }


def dots(
    name: str,
    x: Numbers,
    y: Numbers,
    texts: Sequence[str] = (),
    *,
    colour: str | Sequence[str],
    size: float = 11,
    symbol: str = "circle",
    opacity: float = 1.0,
) -> Trace:
    """Draw a dot for each point."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": values(x),
        "y": values(y),
        "marker": {"color": colour, "size": size, "symbol": symbol, "opacity": opacity},
        "cliponaxis": False,
        **_under_pointer(texts),
    }


def bars(
    name: str,
    places: Numbers,
    lengths: Numbers,
    texts: Sequence[str],
    colour: str | Sequence[str],
) -> Trace:
    """Draw horizontal bars in the rows `places`, to the right of earlier bars there."""
    return {
        "type": "bar",
        "name": name,
        "orientation": "h",
        "y": list(places),
        "x": values(lengths),
        "marker": {"color": colour},
        **_under_pointer(texts),
    }


def between(starts: Sequence[float], ends: Sequence[float], rows: Sequence[float]) -> Trace:
    """Draw a horizontal line from start to end in each row, as one trace with gaps."""
    x = [v for a, b in zip(starts, ends, strict=True) for v in (float(a), float(b), None)]
    y = [v for row in rows for v in (row, row, None)]
    hidden = {"hoverinfo": "skip", "showlegend": False}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": {}, **hidden}


def texts_in_rows(texts: Sequence[str], x: Sequence[float], rows: Sequence[float]) -> Trace:
    """Write a text in each row, to the right of position `x`."""
    return {
        "type": "scatter",
        "mode": "text",
        "x": values(x),
        "y": list(rows),
        "text": [f"\u2002\u2002{text}" for text in texts],
        "textposition": "middle right",
        "cliponaxis": False,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def layout(
    across: str = "", *, height: int = 300, share: bool = False, legend: bool = False
) -> dict[str, Any]:
    """Return a layout with a title below; with `share`, vertical values are percentages."""
    return {
        "height": height,
        "xaxis": {"title": {"text": across}, "showgrid": False, "zeroline": False, "nticks": 8},
        "yaxis": {
            "automargin": True,
            "rangemode": "tozero",
            "nticks": 6,
            **({"tickformat": ".3~%"} if share else {}),
        },
        "showlegend": legend,
        "hovermode": "closest",
    }


def listed(names: Sequence[str], across: str = "", *, legend: bool = False) -> dict[str, Any]:
    """Return a layout with a row for each name, the first on top, and a horizontal share axis."""
    drawn = layout(across, height=70 + 22 * len(names) + (26 if across else 0), legend=legend)
    drawn |= {"barmode": "stack", "bargap": 0.25}
    drawn["xaxis"] |= {"tickformat": ".3~%", "rangemode": "tozero", "nticks": 7, "showgrid": True}
    drawn["yaxis"] = rows(names)
    return drawn


def rows(labels: Sequence[str]) -> dict[str, Any]:
    """Return a vertical axis with a label for each row, the first on top."""
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": list(labels),  # shortened when drawn
        "range": [len(labels) - 0.5, -0.5],
        "automargin": True,
        "showgrid": True,
        "zeroline": False,
    }


def logarithmic_times(shortest: float, longest: float) -> dict[str, Any]:
    """Return a logarithmic axis between two positive times in seconds."""
    marks: list[tuple[str, float]] = []
    for more in _MARKS:
        inside = [mark for mark in more if shortest <= mark[1] <= longest]
        if len(marks) + len(inside) <= _MOST_MARKS:
            marks += inside
    if len(marks) < 2:
        marks = [(duration(shortest), shortest), (duration(longest), longest)]
    marks.sort(key=lambda mark: mark[1])
    return {
        "type": "log",
        "range": [log10(shortest), log10(longest)],
        "tickvals": [value for _, value in marks],
        "ticktext": [text for text, _ in marks],
        "tickangle": 0,
    }


def css(colour: str) -> str:
    """Return a colour for a style sheet."""
    return "var(--ink)" if colour == INK else colour


def css_dash(dash: str) -> str:
    """Convert a Plotly dash into one of three line styles of CSS."""
    return {"solid": "solid", "dot": "dotted"}.get(dash, "dashed")


def ink_on(colour: str) -> str:
    """Choose black or white letters by the luminance of their background."""
    if not colour.startswith("#"):
        return "#000000"
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 118 else "#ffffff"


def _under_pointer(texts: Sequence[str]) -> dict[str, Any]:
    if len(texts):
        return {"hovertext": list(texts), "hoverinfo": "text"}
    return {"hoverinfo": "skip"}

"""The chart kit: pictures as plain data, which pages draw as SVG.

A `Figure` has traces (`Line`, `Dots`, `Bars`, `Texts`) and two axes. `hover` builds the text that a
point shows under the pointer. All texts are plain; the page escapes them, and chooses colours of
text and axes by the reader's light or dark setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.report.numbers import duration

Numbers: TypeAlias = (
    "Sequence[float] | FloatArray | IntArray"  # not drawn where they are not finite
)

# Distinct for colour-blind readers: the colours of Okabe and Ito, and three of Paul Tol.
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

# The largest number of users in a picture; the table below it lists all.
USERS_DRAWN = 60
LONGEST_LABEL = 26
# Marks of logarithmic time axes. A later line is added only if then at most _MOST_MARKS are within
# the axis.
_MARKS: tuple[tuple[tuple[float, str], ...], ...] = (
    ((1.0, "1 s"), (60.0, "1 min"), (3600.0, "1 h"), (86_400.0, "1 d"), (2_592_000.0, "30 d")),
    ((10.0, "10 s"), (600.0, "10 min"), (21_600.0, "6 h"), (432_000.0, "5 d")),
    ((1e-3, "1 ms"), (1e-2, "10 ms"), (0.1, "0.1 s"), (25_920_000.0, "300 d")),
)
_MOST_MARKS = 7


def shortened(text: str, longest: int = LONGEST_LABEL) -> str:
    """Shorten a long text by replacing its middle with ``…``."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points; it has a gap at a point that is not finite."""

    name: str  # in the legend; empty for none
    x: Numbers
    y: Numbers
    texts: Sequence[str] = ()  # under the pointer, one for each point
    colour: str = INK
    width: float = 2.0  # pixels
    dash: str = "solid"  # one of `DASHES`
    is_stairs: bool = False  # whether it is level from each point to the next
    is_band: bool = False  # whether the area below is filled, stacked on earlier bands


@dataclass(frozen=True, eq=False)
class Dots:
    """A symbol at each point."""

    name: str
    x: Numbers
    y: Numbers
    texts: Sequence[str] = ()
    colour: str | Sequence[str] = INK  # of all, or of each
    size: float = 11  # pixels
    symbol: str = "circle"  # one of `SYMBOLS`
    opacity: float = 1.0


@dataclass(frozen=True, eq=False)
class Bars:
    """Horizontal bars, each to the right of earlier bars in its row."""

    name: str
    rows: Numbers
    lengths: Numbers
    texts: Sequence[str] = ()
    colour: str | Sequence[str] = INK
    inside: Sequence[str] = ()  # a text in each bar that is wide enough


@dataclass(frozen=True, eq=False)
class Texts:
    """A text to the right of each point."""

    texts: Sequence[str]
    x: Numbers
    y: Numbers


Trace: TypeAlias = Line | Dots | Bars | Texts


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis of a figure."""

    title: str = ""
    ends: tuple[float, float] | None = None  # values at its ends; None to show all values
    marks: Sequence[tuple[float, str]] | None = None  # values with labels; None for round values
    steps: int = 6  # number of steps between round values, about
    step: float = 0.0  # distance of round values; 0 to choose it by `steps`
    unit: str = ""  # of round values
    is_share: bool = False  # whether round values are percentages
    is_log: bool = False
    has_grid: bool = True


@dataclass(frozen=True, eq=False)
class Figure:
    """A picture."""

    traces: Sequence[Trace]
    x: Axis
    y: Axis
    height: int = 300  # pixels
    has_legend: bool = False
    gap: float = 0.25  # between bars, as a fraction of a row


def listed(
    names: Sequence[str],
    traces: Sequence[Trace],
    across: str = "",
    *,
    ends: tuple[float, float] | None = None,
    has_legend: bool = False,
) -> Figure:
    """Return a figure with a row for each name, the first on top, and a horizontal share axis."""
    height = 70 + 22 * len(names) + (26 if across else 0)
    x = Axis(across, ends, steps=7, is_share=True)
    return Figure(traces, x, rows(names), height, has_legend)


def rows(labels: Sequence[str], *, has_grid: bool = True) -> Axis:
    """Return a vertical axis with a label for each row, the first on top."""
    return Axis(ends=(len(labels) - 0.5, -0.5), marks=list(enumerate(labels)), has_grid=has_grid)


def between(starts: Numbers, ends: Numbers, rows: Numbers, colour: str) -> Line:
    """Return a horizontal line from start to end in each row, as one line with gaps."""
    gaps = np.full(len(rows), np.nan)
    x, y = np.stack([starts, ends, gaps], axis=1), np.stack([rows, rows, gaps], axis=1)
    return Line("", x.ravel(), y.ravel(), colour=colour, width=3.0)


def hover(name: str, *lines: str) -> str:
    """Format the text under the pointer: a name, and a line for each text that is not empty."""
    return "\n".join([name, *filter(None, lines)])


def logarithmic_times(shortest: float, longest: float) -> Axis:
    """Return a logarithmic axis between two positive times in seconds."""
    marks: list[tuple[float, str]] = []
    for more in _MARKS:
        inside = [mark for mark in more if shortest <= mark[0] <= longest]
        if len(marks) + len(inside) <= _MOST_MARKS:
            marks += inside
    if len(marks) < 2:
        marks = [(shortest, duration(shortest)), (longest, duration(longest))]
    return Axis(ends=(shortest, longest), marks=sorted(marks), is_log=True, has_grid=False)


def css(colour: str) -> str:
    """Return a colour as CSS writes it."""
    return "var(--ink)" if colour == INK else colour


def css_dash(dash: str) -> str:
    """Convert a dash into one of three line styles of CSS."""
    return {"solid": "solid", "dot": "dotted"}.get(dash, "dashed")


def ink_on(colour: str) -> str:
    """Choose black or white letters by the luminance of their background, ``#RRGGBB``."""
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 118 else "#ffffff"

"""Render documents as static HTML pages, each in one self-contained file without a script.

Pictures are SVG. A drawing adapts to the width of the page and keeps its height. So horizontal
positions are percentages, vertical positions are pixels, and curves are in an inner drawing that is
stretched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from math import ceil, floor, inf, isfinite, log10
from typing import NamedTuple

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from fairlead.report.charts import (
    INK,
    Axis,
    Bars,
    Dots,
    Figure,
    Line,
    Numbers,
    Texts,
    css,
    css_dash,
    ink_on,
    shortened,
)
from fairlead.report.document import MARKS, Block, Cell, Content, Document, Picture, Table
from fairlead.report.numbers import counted

ROWS_ON_PAGE = 300
ROWS_ON_SCREEN = 40  # tables with more rows get a scroll bar
LINES_ON_PAGE = 200
_TEMPLATE = files("fairlead.report") / "template"
LETTER = 7.5  # pixels: mean width of a letter, rounded up
LINE = 16  # pixels: height of a line of text
# Least widths of a picture in pixels, on a phone and on a screen. Labels that need more are hidden
# there.
NARROW, WIDE = 190, 560
STRETCHED = 1000  # width of the inner drawing of curves
HOVER_STRIPS = 60  # vertical strips of a line picture, each with its values under the pointer
DASH_LENGTHS = {
    "dash": "8 5",
    "dot": "2 4",
    "dashdot": "8 4 2 4",
    "longdash": "14 6",
    "longdashdot": "14 4 2 4",
}
# Shapes of size 1 around the origin; all other symbols are circles.
SHAPES = {
    "diamond": "M0-.65 .65 0 0 .65-.65 0Z",
    "square": "M-.45-.45H.45V.45H-.45Z",
    "triangle-up": "M0-.6 .55 .42H-.55Z",
    "cross": "M-.17-.5H.17V-.17H.5V.17H.17V.5H-.17V.17H-.5V-.17H-.17Z",
    "x": "M-.5-.3-.3-.5 0-.2 .3-.5 .5-.3 .2 0 .5 .3 .3 .5 0 .2-.3 .5-.5 .3-.2 0Z",
    "star": "M0-.6 .15-.19 .57-.19 .23 .07 .35 .49 0 .24-.35 .49-.23 .07-.57-.19-.15-.19Z",
    "hexagon": "M0-.55 .48-.28V.28L0 .55-.48 .28V-.28Z",
}


def to_page(document: Document) -> str:
    """Render a document as one self-contained HTML page.

    The cost is linear in the length of the page.
    """
    return _environment().get_template("page.html").render(document=document, page=_Page)


class _LegendLine(NamedTuple):
    name: str
    colour: str  # of CSS
    dash: str  # line style of CSS
    shape: str  # ``line`` or ``swatch``


class _Drawn(NamedTuple):
    svg: Markup
    legend: list[_LegendLine]


class _Page:
    """Functions for the template."""

    marks = MARKS
    lines = LINES_ON_PAGE
    rows_on_screen = ROWS_ON_SCREEN

    @staticmethod
    def shown(blocks: Iterable[Block] | Callable[[], Iterable[Block]]) -> list[tuple[str, Block]]:
        """Return blocks with the names of their classes."""
        return [(type(b).__name__, b) for b in (blocks() if callable(blocks) else blocks)]

    @staticmethod
    def rows(table: Table) -> Iterable[Sequence[Content]]:
        """Return the rows to show."""
        return map(table.row, table.shown_rows(ROWS_ON_PAGE))

    @staticmethod
    def omitted(table: Table) -> str:
        """Describe the rows that are left out, if any."""
        left = table.count - ROWS_ON_PAGE
        if left <= 0:
            return ""
        return f"… and {counted(left, table.each)} {table.rest}; all are in the output of --json."

    @staticmethod
    def cell(content: Content) -> Cell:
        """Return a text as a cell."""
        return content if isinstance(content, Cell) else Cell(content)

    @staticmethod
    def drawn(picture: Picture) -> _Drawn:
        """Draw a picture, and return it with the lines of its legend."""
        figure = picture.figure() if callable(picture.figure) else picture.figure
        named = [trace for trace in figure.traces if not isinstance(trace, Texts) and trace.name]
        legend = dict.fromkeys(map(_legend_line, named)) if figure.has_legend else {}
        return _Drawn(to_svg(figure, picture.about), list(legend))


def _legend_line(trace: Line | Dots | Bars) -> _LegendLine:
    colour = css(trace.colour if isinstance(trace.colour, str) else INK)
    if isinstance(trace, Line):
        return _LegendLine(trace.name, colour, css_dash(trace.dash), "line")
    return _LegendLine(trace.name, colour, "solid", "swatch")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(lambda name: (_TEMPLATE / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["css"] = css
    return environment


class _Tick(NamedTuple):
    """A mark of an axis."""

    position: float  # along the axis, from 0 to 1
    label: str


class _Scale:
    """The scale of one axis: it maps values to positions from 0 to 1."""

    def __init__(self, axis: Axis, values: Iterable[float]) -> None:
        self.axis = axis
        low, high = axis.ends or _ends_around_zero(values)
        self.low, self.high = self._scaled(float(low)), self._scaled(float(high))
        if self.low == self.high:
            self.high = self.low + 1.0

    def _scaled(self, value: float) -> float:
        if not self.axis.is_log:
            return value
        return log10(value) if value > 0 else -inf

    def position(self, value: float) -> float:
        """Return the position of a value, from 0 to 1 within the ends."""
        return (self._scaled(value) - self.low) / (self.high - self.low)

    def ticks(self) -> list[_Tick]:
        """Return the marks within the ends: the given ones, or round numbers."""
        marks = self._round_marks() if self.axis.marks is None else self.axis.marks
        ticks = [_Tick(self.position(value), label) for value, label in marks]
        return [tick for tick in ticks if -1e-6 <= tick.position <= 1 + 1e-6]

    def _round_marks(self) -> Iterator[tuple[float, str]]:
        low, high = sorted((self.low, self.high))
        step = self.axis.step or _round_step((high - low) / self.axis.steps)
        for k in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1):
            value = k * step
            unit = f" {self.axis.unit}" if self.axis.unit else ""
            yield value, f"{100 * value:.6g}%" if self.axis.is_share else f"{value:,.6g}{unit}"


def _ends_around_zero(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends of an axis that shows all values and 0, with a margin at other ends."""
    known = [0.0, *filter(isfinite, values)]
    low, high = min(known), max(known)
    margin = 0.03 * (high - low)
    return low - margin * (low < 0), high + margin * (high > 0)


def _round_step(least: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(least))
    return next(power * f for f in (1, 2, 5, 10) if power * f >= least * (1 - 1e-9))


def _longest(ticks: Sequence[_Tick]) -> int:
    return max((len(shortened(tick.label)) for tick in ticks), default=0)


def to_svg(figure: Figure, about: str) -> Markup:
    """Draw a figure; `about` describes it for screen readers."""
    return Markup(_Drawing(figure).html(about))


class _Drawing:
    """The SVG elements of one figure, collected trace by trace."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.shapes: list[str] = []
        self.totals: dict[float, float] = {}  # ends of stacked bars and bands, by position
        across, up = self._values()
        self.x, self.y = _Scale(figure.x, across), _Scale(figure.y, up)
        # Margins by the sizes of the labels.
        self.left = int(8 + LETTER * _longest(self.y.ticks()))
        self.top = 8
        self.bottom = LINE + (LINE + 6 if figure.x.title else 6)
        texts = [text for t in figure.traces if isinstance(t, Texts) for text in t.texts]
        self.right = max(24, int(LETTER * (2 + max(map(len, texts), default=0))))
        self.height = max(40, figure.height - self.top - self.bottom)

    def _values(self) -> tuple[list[float], list[float]]:
        """Return the values along both axes, including the ends of stacked bars and bands."""
        across: list[float] = []
        up: list[float] = []
        rows: dict[float, float] = {}
        columns: dict[float, float] = {}
        for trace in self.figure.traces:
            if isinstance(trace, Bars):
                for row, length in _pairs(trace.rows, trace.lengths):
                    rows[row] = rows.get(row, 0.0) + length
                continue
            for x, y in _pairs(trace.x, trace.y):
                across.append(x)
                if isinstance(trace, Line) and trace.is_band:
                    columns[x] = columns.get(x, 0.0) + y
                else:
                    up.append(y)
        return [*across, *rows.values()], [*up, *columns.values()]

    def html(self, about: str) -> str:
        """Draw all traces; return the SVG in an HTML element with space for the labels."""
        self._axes()
        for trace in self.figure.traces:
            match trace:
                case Bars():
                    self._bars(trace)
                case Line(is_band=True):
                    self._band(trace)
                case Line():
                    self._line(trace)
                case Dots():
                    self._dots(trace)
                case Texts():
                    points = _pairs(trace.x, trace.y)
                    for text, (x, y) in zip(trace.texts, points, strict=True):
                        place = f'x="{self._to_percent(x)}%" y="{self._to_pixels(y)}" dx="11"'
                        self.shapes.append(f'<text {place} dy=".35em">{escape(text)}</text>')
        self._strips()
        room = f"padding: {self.top}px {self.right}px {self.bottom}px {self.left}px"
        return (
            f'<div class="plot" style="{room}">'
            f'<svg width="100%" height="{self.height}" role="img" aria-label="{escape(about)}">'
            f"{''.join(self.shapes)}</svg></div>"
        )

    def _add_curve(self, path: str, look: str) -> None:
        """Add a path in an inner drawing, which is stretched to the width."""
        self.shapes.append(
            f'<svg class="curves" width="100%" height="{self.height}" '
            f'viewBox="0 0 {STRETCHED} {self.height}" preserveAspectRatio="none">'
            f'<path d="{path}" {look}/></svg>'
        )

    def _to_percent(self, value: float) -> float:
        """Return a horizontal position in per cent."""
        return round(100 * self.x.position(value), 2)

    def _to_pixels(self, value: float) -> float:
        """Return a vertical position in pixels from the top."""
        return round(self.height * (1 - self.y.position(value)), 1)

    def _axes(self) -> None:
        """Draw both axes: marks, labels, grid lines and the title below."""
        for tick in self.y.ticks():
            y = round(self.height * (1 - tick.position), 1)
            if self.y.axis.has_grid:
                self.shapes.append(f'<line class="grid" x2="100%" y1="{y}" y2="{y}"/>')
            self.shapes.append(
                f'<text class="end" x="-8" y="{y}" dy=".35em">{_label(tick.label)}</text>'
            )
        ticks = self.x.ticks()
        needed = LETTER * (_longest(ticks) + 1)
        hidden = 0.0  # position up to which a further label has no room on a phone
        for tick in ticks:
            x = round(100 * tick.position, 2)
            if self.x.axis.has_grid:
                self.shapes.append(f'<line class="grid" x1="{x}%" x2="{x}%" y2="{self.height}"/>')
            is_roomy = bool(hidden) and tick.position < hidden
            if not is_roomy:
                hidden = tick.position + needed / NARROW
            self.shapes.append(
                f'<text class="middle{" roomy" * is_roomy}" x="{x}%" '
                f'y="{self.height + LINE + 2}">{_label(tick.label)}</text>'
            )
        self.shapes.append(f'<line class="axis" x2="100%" y1="{self.height}" y2="{self.height}"/>')
        if title := self.x.axis.title:
            y = self.height + self.bottom - 4
            self.shapes.append(f'<text class="middle" x="50%" y="{y}">{escape(title)}</text>')

    def _bars(self, bars: Bars) -> None:
        """Draw bars, stacked on the bars of earlier traces, and the texts that have room inside."""
        half = (1 - self.figure.gap) / 2
        for k, (row, length) in enumerate(_pairs(bars.rows, bars.lengths)):
            begin = self.totals.get(row, 0.0)
            end = self.totals[row] = begin + length
            x0, x1 = self._to_percent(begin), self._to_percent(end)
            y0, y1 = sorted((self._to_pixels(row - half), self._to_pixels(row + half)))
            place = f'x="{x0}%" y="{y0}" width="{x1 - x0:.2f}%" height="{y1 - y0:.1f}"'
            colour = _nth(bars.colour, k)
            title = _title(bars.texts, k)
            self.shapes.append(f'<rect class="bar" {place} fill="{css(colour)}">{title}</rect>')
            inside = bars.inside[k] if bars.inside else ""
            width, needed = (x1 - x0) / 100, LETTER * (len(inside) + 1)
            if inside and width * WIDE >= needed:
                kind = "middle inside" + (" roomy" if width * NARROW < needed else "")
                at = f'x="{(x0 + x1) / 2:.2f}%" y="{(y0 + y1) / 2:.1f}" dy=".35em"'
                ink = f'style="fill: {ink_on(colour)}"'
                self.shapes.append(f'<text class="{kind}" {at} {ink}>{escape(inside)}</text>')

    def _band(self, band: Line) -> None:
        """Draw an area, stacked on the areas of earlier traces."""
        above: list[str] = []
        below: list[str] = []
        for x, value in _pairs(band.x, band.y):
            begin = self.totals.get(x, 0.0)
            end = self.totals[x] = begin + value
            across = round(STRETCHED * self.x.position(x))
            above.append(f"{across} {self._to_pixels(end):g}")
            below.append(f"{across} {self._to_pixels(begin):g}")
        path = f"M{'L'.join(above)}L{'L'.join(reversed(below))}Z"
        self._add_curve(path, f'fill="{css(band.colour)}"')

    def _line(self, line: Line) -> None:
        path, pen = "", "M"
        for x, y in _pairs(line.x, line.y):
            if not isfinite(x + y):
                pen = "M"
                continue
            across, down = f"{STRETCHED * self.x.position(x):.4g}", f"{self._to_pixels(y):g}"
            is_level = line.is_stairs and pen == "L"
            path += f"H{across}V{down}" if is_level else f"{pen}{across} {down}"
            pen = "L"
        dash = DASH_LENGTHS.get(line.dash, "")
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        look = f'class="curve" stroke="{css(line.colour)}" stroke-width="{line.width}"{dashes}'
        self._add_curve(path, look)

    def _dots(self, dots: Dots) -> None:
        shape = SHAPES.get(dots.symbol)
        for k, (x, y) in enumerate(_pairs(dots.x, dots.y)):
            if not isfinite(x + y):
                continue
            colour = css(_nth(dots.colour, k))
            look = f'class="mark" fill="{colour}" fill-opacity="{dots.opacity}"'
            across, down = self._to_percent(x), self._to_pixels(y)
            title = _title(dots.texts, k)
            if shape is None:
                place = f'cx="{across}%" cy="{down}" r="{dots.size / 2:g}"'
                self.shapes.append(f"<circle {place} {look}>{title}</circle>")
            else:
                self.shapes.append(
                    f'<svg x="{across}%" y="{down}"><path d="{shape}" '
                    f'transform="scale({dots.size})" {look}>{title}</path></svg>'
                )

    def _strips(self) -> None:
        """Add vertical strips that show the values of all lines under the pointer."""
        lines = [
            (np.array([self.x.position(x) for x, _ in _pairs(trace.x, trace.y)]), trace.texts)
            for trace in self.figure.traces
            if isinstance(trace, Line) and trace.texts
        ]
        for k in range(HOVER_STRIPS if lines else 0):
            nearest = [int(np.abs(at - (k + 0.5) / HOVER_STRIPS).argmin()) for at, _ in lines]
            texts = [
                written[i].replace("\n", ": ", 1)
                for (_, written), i in zip(lines, nearest, strict=True)
            ]
            self.shapes.append(
                f'<rect class="strip" x="{100 * k / HOVER_STRIPS:.2f}%" '
                f'width="{100 / HOVER_STRIPS:.2f}%" height="{self.height}">'
                f"{_title([chr(10).join(texts)], 0)}</rect>"
            )


def _pairs(first: Numbers, second: Numbers) -> Iterator[tuple[float, float]]:
    """Return pairs of Python's numbers, which are formatted faster than NumPy's."""
    columns = (np.asarray(numbers, dtype=float).tolist() for numbers in (first, second))
    return zip(*columns, strict=True)


def _title(texts: Sequence[str], k: int) -> str:
    """Return text k as an SVG element that is shown under the pointer; empty without it."""
    return f"<title>{escape(texts[k], quote=False)}</title>" if texts and texts[k] else ""


def _label(text: str) -> str:
    """Return a label as SVG; a long one is shortened, with the whole text under the pointer."""
    short = shortened(text)
    return f"{_title([text], 0) if short != text else ''}{escape(short, quote=False)}"


def _nth(colour: str | Sequence[str], k: int) -> str:
    return colour if isinstance(colour, str) else colour[k]

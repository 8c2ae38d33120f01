"""Render documents as static HTML pages, each in one self-contained file without a script.

Pictures are SVG. A drawing adapts to the width of the page and keeps its height. So horizontal
positions are percentages, vertical positions are pixels, and curves are in an inner drawing that is
stretched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from math import ceil, floor, log10
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from fairlead.report.charts import INK, Figure, Trace, css, css_dash, shortened
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
# Shapes of size 1 around the origin; a circle is drawn for all others.
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
        legend: dict[_LegendLine, None] = {}  # each line once, in order
        if figure["layout"].get("showlegend", False):
            for trace in figure["data"]:
                if trace.get("name") and trace.get("showlegend", True):
                    legend[_legend_line(trace)] = None
        return _Drawn(to_svg(figure, picture.about), list(legend))


def _legend_line(trace: Trace) -> _LegendLine:
    is_line = "lines" in trace.get("mode", "") and trace["line"].get("width", 1) > 0
    style = trace["line"] if is_line else trace.get("marker", {})
    colour = style.get("color", INK)
    return _LegendLine(
        trace["name"],
        css(colour if isinstance(colour, str) else INK),
        css_dash(style.get("dash", "solid")),
        "line" if is_line else "swatch",
    )


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


class Tick(NamedTuple):
    """A mark of an axis."""

    position: float  # along the axis, from 0 to 1
    label: str


class Axis:
    """The scale of one axis: it maps values to positions from 0 to 1."""

    def __init__(self, layout: Mapping[str, Any], values: Sequence[float]) -> None:
        self.layout = layout
        self.is_log = layout.get("type") == "log"
        self.low, self.high = map(float, layout.get("range") or self._range(values))
        if self.low == self.high:
            self.high = self.low + 1.0

    def _range(self, values: Sequence[float]) -> tuple[float, float]:
        low, high = min(values, default=0.0), max(values, default=1.0)
        margin = 0.03 * (high - low)
        if self.layout.get("rangemode") == "tozero":
            return (low - margin if low < 0 else 0.0), (high + margin if high > 0 else 0.0)
        return low - margin, high + margin

    def position(self, value: float) -> float:
        """Return the position of a value, from 0 to 1 within the range."""
        if self.is_log:
            value = log10(value) if value > 0 else self.low - 1.0
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[Tick]:
        """Return the marks within the range: the given ones, or round numbers."""
        if "tickvals" in self.layout:
            given = zip(self.layout["tickvals"], self.layout["ticktext"], strict=True)
            marks = [Tick(self.position(v), str(text)) for v, text in given]
        else:
            marks = [Tick(self.position(v), self._text(v)) for v in self._round_values()]
        return [tick for tick in marks if -1e-6 <= tick.position <= 1 + 1e-6]

    def _round_values(self) -> Iterator[float]:
        low, high = sorted((self.low, self.high))
        step = self.layout.get("dtick") or _round_step((high - low) / self.layout.get("nticks", 6))
        for k in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1):
            yield k * step

    def _text(self, value: float) -> str:
        if "%" in self.layout.get("tickformat", ""):
            return f"{100 * value:.6g}%"
        return f"{value:,.6g}{self.layout.get('ticksuffix', '')}"


def _round_step(least: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(least))
    return next(power * f for f in (1, 2, 5, 10) if power * f >= least * (1 - 1e-9))


def _longest(ticks: Sequence[Tick]) -> int:
    return max((len(shortened(tick.label)) for tick in ticks), default=0)


def to_svg(figure: Figure, about: str) -> Markup:
    """Draw a figure; `about` describes it for screen readers."""
    return Markup(_Drawing(figure).html(about))


class _Drawing:
    """The SVG elements of one figure, collected trace by trace."""

    def __init__(self, figure: Figure) -> None:
        self.traces: list[Trace] = figure["data"]
        self.layout = figure["layout"]
        self.curves: list[str] = []  # paths of the open trace, for the stretched inner drawing
        self.shapes: list[str] = []  # all other elements
        self.bars = [trace for trace in self.traces if trace["type"] == "bar"]
        self.totals: dict[float, float] = {}  # ends of stacked bars and areas, by position
        self.x = Axis(self.layout.get("xaxis", {}), self._values("x"))
        self.y = Axis(self.layout.get("yaxis", {}), self._values("y"))
        self._make_room()

    def _values(self, axis: str) -> list[float]:
        """Return the values along an axis, including the ends of bars and stacked sums."""
        values = [v for trace in self.traces for v in trace[axis] if v is not None]
        if self.bars and axis == "y":
            values += [v + half for v in values for half in (-0.5, 0.5)]
        elif self.bars:
            sums: dict[float, float] = {}
            for trace in self.bars:
                for place, length in zip(trace["y"], trace["x"], strict=True):
                    sums[place] = sums.get(place, 0.0) + (length or 0.0)
            values += [0.0, *sums.values()]
        stacked = [trace["y"] for trace in self.traces if trace.get("stackgroup")]
        if stacked and axis == "y":
            values += [sum(v or 0.0 for v in column) for column in zip(*stacked, strict=True)]
        return values

    def _make_room(self) -> None:
        """Set the margins and the height of the picture by the sizes of its labels."""
        self.left = int(8 + LETTER * _longest(self.y.ticks()))
        title = self.x.layout.get("title", {}).get("text", "")
        self.top = 8
        self.bottom = LINE + (LINE + 6 if title else 6)
        texts_in_rows = [t["text"] for t in self.traces if t.get("mode") == "text"]
        widest = max((len(text) for texts in texts_in_rows for text in texts), default=0)
        self.right = max(24, int(LETTER * widest))
        self.height = max(40, int(self.layout["height"]) - self.top - self.bottom)

    def html(self, about: str) -> str:
        """Draw all traces, and return the SVG in an element with room for the labels."""
        self._axes()
        for trace in self.traces:
            if trace["type"] == "bar":
                self._bars(trace)
            elif trace.get("stackgroup"):
                self._band(trace)
            else:
                self._scatter(trace)
            self._add_curves()
        self._strips()
        room = f"padding: {self.top}px {self.right}px {self.bottom}px {self.left}px"
        return (
            f'<div class="plot" style="{room}">'
            f'<svg width="100%" height="{self.height}" role="img" aria-label="{escape(about)}">'
            f"{''.join(self.shapes)}</svg></div>"
        )

    def _add_curves(self) -> None:
        """Add the inner drawing with the curves of a trace, if it has some."""
        if self.curves:
            self.shapes.append(
                f'<svg class="curves" width="100%" height="{self.height}" '
                f'viewBox="0 0 {STRETCHED} {self.height}" preserveAspectRatio="none">'
                f"{''.join(self.curves)}</svg>"
            )
            self.curves = []

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
            if self.y.layout.get("showgrid", True):
                self.shapes.append(f'<line class="grid" x2="100%" y1="{y}" y2="{y}"/>')
            self.shapes.append(
                f'<text class="end" x="-8" y="{y}" dy=".35em">{_label(tick.label)}</text>'
            )
        ticks = self.x.ticks()
        needed = LETTER * (_longest(ticks) + 1)
        hidden = 0.0  # position up to which a further label has no room on a phone
        for tick in ticks:
            x = round(100 * tick.position, 2)
            if self.x.layout.get("showgrid", True):
                self.shapes.append(f'<line class="grid" x1="{x}%" x2="{x}%" y2="{self.height}"/>')
            is_roomy = bool(hidden) and tick.position < hidden
            if not is_roomy:
                hidden = tick.position + needed / NARROW
            self.shapes.append(
                f'<text class="middle{" roomy" * is_roomy}" x="{x}%" '
                f'y="{self.height + LINE + 2}">{_label(tick.label)}</text>'
            )
        self.shapes.append(f'<line class="axis" x2="100%" y1="{self.height}" y2="{self.height}"/>')
        if title := self.x.layout.get("title", {}).get("text"):
            y = self.height + self.bottom - 4
            self.shapes.append(f'<text class="middle" x="50%" y="{y}">{escape(title)}</text>')

    def _bars(self, trace: Trace) -> None:
        """Draw the horizontal bars of a trace, stacked on the bars of earlier traces."""
        half = (1 - self.layout["bargap"]) / 2
        for k, (place, length) in enumerate(zip(trace["y"], trace["x"], strict=True)):
            if length is None:
                continue
            begin = self.totals.get(place, 0.0)
            end = self.totals[place] = begin + length
            corners = (begin, end, place - half, place + half)
            colour = _nth(trace["marker"]["color"], k)
            self._rectangle(corners, colour, _under_pointer(trace, k))
            if "text" in trace:
                self._text_inside(trace["text"][k], trace["insidetextfont"]["color"], corners)

    def _rectangle(
        self, corners: tuple[float, float, float, float], colour: str, text: str
    ) -> None:
        x0, x1 = sorted((self._to_percent(corners[0]), self._to_percent(corners[1])))
        y0, y1 = sorted((self._to_pixels(corners[2]), self._to_pixels(corners[3])))
        place = f'x="{x0}%" y="{y0}" width="{x1 - x0:.2f}%" height="{y1 - y0:.1f}"'
        self.shapes.append(f'<rect class="bar" {place} fill="{css(colour)}">{_title(text)}</rect>')

    def _text_inside(self, text: str, ink: str, corners: tuple[float, float, float, float]) -> None:
        """Write the text of a bar, if it is wide enough."""
        width = abs(self.x.position(corners[1]) - self.x.position(corners[0]))
        needed = LETTER * (len(text) + 1)
        if not text or width * WIDE < needed:
            return
        x = round((self._to_percent(corners[0]) + self._to_percent(corners[1])) / 2, 2)
        y = round((self._to_pixels(corners[2]) + self._to_pixels(corners[3])) / 2, 1)
        kind = "middle inside" + (" roomy" if width * NARROW < needed else "")
        self.shapes.append(
            f'<text class="{kind}" x="{x}%" y="{y}" dy=".35em" style="fill: {ink}">'
            f"{escape(text)}</text>"
        )

    def _band(self, trace: Trace) -> None:
        """Draw an area, stacked on the areas of earlier traces."""
        above: list[str] = []
        below: list[str] = []
        for x, value in zip(trace["x"], trace["y"], strict=True):
            begin = self.totals.get(x, 0.0)
            end = self.totals[x] = begin + (value or 0.0)
            across = round(STRETCHED * self.x.position(x))
            above.append(f"{across} {self._to_pixels(end):g}")
            below.append(f"{across} {self._to_pixels(begin):g}")
        path = f"M{'L'.join(above)}L{'L'.join(reversed(below))}Z"
        self.curves.append(f'<path d="{path}" fill="{css(trace["fillcolor"])}"/>')

    def _scatter(self, trace: Trace) -> None:
        mode = trace["mode"]
        if "lines" in mode and trace["line"].get("width", 1):
            self._line(trace)
        points = zip(trace["x"], trace["y"], strict=True)
        for k, (x, y) in enumerate(points):
            if x is None or y is None:
                continue
            if "markers" in mode:
                self._mark(trace, k, x, y)
            if mode == "text":
                self.shapes.append(
                    f'<text x="{self._to_percent(x)}%" y="{self._to_pixels(y)}" dx="11" dy=".35em">'
                    f"{escape(trace['text'][k].strip())}</text>"
                )

    def _line(self, trace: Trace) -> None:
        path, pen, level = "", "M", trace["line"].get("shape") == "hv"
        for x, y in zip(trace["x"], trace["y"], strict=True):
            if x is None or y is None:
                pen = "M"
                continue
            across, down = f"{STRETCHED * self.x.position(x):.4g}", f"{self._to_pixels(y):g}"
            path += f"H{across}V{down}" if level and pen == "L" else f"{pen}{across} {down}"
            pen = "L"
        style = trace["line"]
        dash = DASH_LENGTHS.get(style.get("dash", ""), "")
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.curves.append(
            f'<path class="curve" d="{path}" stroke="{css(style["color"])}" '
            f'stroke-width="{style["width"]}"{dashes}/>'
        )

    def _mark(self, trace: Trace, k: int, x: float, y: float) -> None:
        marker = trace["marker"]
        size, colour = marker["size"], css(_nth(marker["color"], k))
        look = f'class="mark" fill="{colour}" fill-opacity="{marker.get("opacity", 1)}"'
        across, down, title = (
            self._to_percent(x),
            self._to_pixels(y),
            _title(_under_pointer(trace, k)),
        )
        shape = SHAPES.get(marker.get("symbol", "circle"))
        if shape is None:
            self.shapes.append(
                f'<circle cx="{across}%" cy="{down}" r="{size / 2:g}" {look}>{title}</circle>'
            )
        else:
            self.shapes.append(
                f'<svg x="{across}%" y="{down}"><path d="{shape}" '
                f'transform="scale({size})" {look}>{title}</path></svg>'
            )

    def _strips(self) -> None:
        """Add vertical strips that show the values of all lines under the pointer."""
        lines = [
            (np.array([self.x.position(x) for x in trace["x"]]), trace["hovertext"])
            for trace in self.traces
            if trace.get("mode") == "lines" and trace.get("hovertext")
        ]
        for k in range(HOVER_STRIPS if lines else 0):
            nearest = [np.abs(parts - (k + 0.5) / HOVER_STRIPS).argmin() for parts, _ in lines]
            texts = [
                written[i].replace("\n", ": ", 1)
                for (_, written), i in zip(lines, nearest, strict=True)
            ]
            self.shapes.append(
                f'<rect class="strip" x="{100 * k / HOVER_STRIPS:.2f}%" '
                f'width="{100 / HOVER_STRIPS:.2f}%" height="{self.height}">'
                f"{_title(chr(10).join(texts))}</rect>"
            )


def _under_pointer(trace: Trace, k: int) -> str:
    return str(trace["hovertext"][k]) if "hovertext" in trace else ""


def _title(text: str) -> str:
    return f"<title>{escape(text, quote=False)}</title>" if text else ""


def _label(text: str) -> str:
    """Write a label; a long label is shortened, with the whole text under the pointer."""
    short = shortened(text)
    return f"{_title(text) if short != text else ''}{escape(short, quote=False)}"


def _nth(values: Any, k: int) -> Any:
    return values[k] if isinstance(values, list | tuple) else values

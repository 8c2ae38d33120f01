"""Render documents as static HTML pages, each in one self-contained file without a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from fairlead.report._svg import to_svg
from fairlead.report.charts import INK, Trace, css, css_dash
from fairlead.report.document import MARKS, Block, Cell, Content, Document, Picture, Table
from fairlead.report.numbers import counted

ROWS_ON_PAGE = 300
ROWS_ON_SCREEN = 40  # tables with more rows get a scroll bar
LINES_ON_PAGE = 200
_TEMPLATE = files("fairlead.report") / "template"


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
    def heading(document: Document) -> str:
        """Return the heading of the page: subject, and kind of answer."""
        return f"{document.title}: {document.about}"

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

"""Render documents as HTML pages, each in one self-contained file.

Pictures are SVG in the page, so it shows and prints them without its script. The script adds
sorting, searching, tabs, and the later rows of long tables.
"""

from __future__ import annotations

import gzip
import json
from base64 import b85encode
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from fairlead.report._svg import to_svg
from fairlead.report.charts import INK, css, css_dash
from fairlead.report.document import MARKS, Block, Cell, Column, Content, Document, Picture, Table
from fairlead.report.numbers import counted

ROWS_ON_PAGE = 2000
FIRST_ROWS = 60  # further rows are compressed; the page's script inserts them
# Tables with more rows get a scroll bar; tables with more users get a search field.
ROWS_ON_SCREEN, ROWS_TO_SEARCH = 40, 20
LINES_ON_PAGE = 200
COLUMNS_ON_PHONE = 2
_TEMPLATE = files("fairlead.report") / "template"


def to_page(document: Document) -> str:
    """Render a document as one self-contained HTML page.

    The cost is linear in the length of the page.
    """
    return _environment().get_template("page.html").render(document=document, page=_Page())


def _packed(packed: bytes) -> Markup:
    """Encode compressed bytes in base 85, five characters for four bytes."""
    # Without `<` the text cannot end the script element around it.
    written = b85encode(packed, pad=True).replace(b"<", b",").decode()
    return Markup(f'data-bytes="{len(packed)}">{written}')


class _LegendLine(NamedTuple):
    key: str  # a click on the line hides the traces of all pictures with this key
    name: str
    colour: str  # of CSS
    dash: str  # line style of CSS
    shape: str  # ``line`` or ``swatch``


class _Drawn(NamedTuple):
    svg: Markup
    legend: list[_LegendLine]


class _Page:
    """Functions and state of one page, used by the template."""

    marks = MARKS
    lines = LINES_ON_PAGE
    rows_on_screen, rows_to_search = ROWS_ON_SCREEN, ROWS_TO_SEARCH

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.identities = 0

    @staticmethod
    def shown(blocks: Iterable[Block] | Callable[[], Iterable[Block]]) -> list[tuple[str, Block]]:
        """Return blocks with the names of their classes."""
        return [(type(b).__name__, b) for b in (blocks() if callable(blocks) else blocks)]

    @staticmethod
    def heading(document: Document) -> str:
        """Return the heading of the page: subject, period, and kind of answer."""
        period = f", {document.period}" if document.period else ""
        return f"{document.title}{period}: {document.about}"

    def identity(self, kind: str) -> str:
        """Return a new ``id`` for an element, such as ``table-3``."""
        self.identities += 1
        return f"{kind}-{self.identities}"

    @staticmethod
    def rows(table: Table, first: bool) -> Iterable[Sequence[Content]]:
        """Return the `first` rows, for the HTML, or the further rows, for the script."""
        rows, split = table.shown_rows(ROWS_ON_PAGE), 0 if table.folded else FIRST_ROWS
        return map(table.row, rows[:split] if first else rows[split:])

    @staticmethod
    def later_rows(table: Table) -> str:
        """Describe the rows that are missing without the script, if any."""
        later = min(table.count, ROWS_ON_PAGE) - (0 if table.folded else FIRST_ROWS)
        return f"{counted(later, 'more row')}: to see them, allow scripts." if later > 0 else ""

    @staticmethod
    def stacks(columns: Sequence[Column]) -> bool:
        """Return whether a phone stacks the cells of a row vertically."""
        return len(columns) > COLUMNS_ON_PHONE

    def keep(self, element: str, html: str) -> str:
        """Store rows that the script inserts into the element with this ``id``; return no text."""
        if html.strip():
            self.kept[element] = html
        return ""

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

    def packed_contents(self) -> Markup:
        """Return the rows stored by `keep`, compressed."""
        text = json.dumps(self.kept, separators=(",", ":"))
        return _packed(gzip.compress(text.encode(), 9, mtime=0))

    def drawn(self, picture: Picture) -> _Drawn:
        """Draw a picture, and return it with the lines of its legend."""
        key = self.identity("figure")
        figure = picture.figure() if callable(picture.figure) else picture.figure
        listed: dict[str, _LegendLine] = {}
        traces = []
        for trace in figure["data"]:
            is_named = trace.get("name") and trace.get("showlegend", True)
            if not is_named or not figure["layout"].get("showlegend", False):
                traces.append(trace)
                continue
            group = trace.get("legendgroup", f"{key}: {trace['name']}")
            # A copy: the document may be rendered again.
            traces.append(trace | {"legendgroup": group})
            is_line = "lines" in trace.get("mode", "") and trace["line"].get("width", 1) > 0
            style = trace["line"] if is_line else trace.get("marker", {})
            colour = style.get("color", INK)
            line = _LegendLine(
                group,
                trace["name"],
                css(colour if isinstance(colour, str) else INK),
                css_dash(style.get("dash", "solid")),
                "line" if is_line else "swatch",
            )
            listed.setdefault(group, line)
        svg = to_svg(figure | {"data": traces}, picture.about, key)
        return _Drawn(svg, list(listed.values()))


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

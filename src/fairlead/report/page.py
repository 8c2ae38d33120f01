"""Render documents as HTML pages: one self-contained file each.

A page holds the drawing script and its data in compressed form.
"""

from __future__ import annotations

import gzip
import json
from base64 import b85encode
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import unescape
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from fairlead.report.charts import INK, Figure, css, css_dash
from fairlead.report.document import MARKS, Block, Cell, Content, Document, Picture, Table
from fairlead.report.numbers import counted

ROWS_ON_PAGE = 2000
FIRST_ROWS = 60  # further rows are compressed; the page's script inserts them
# Longer tables have a scroll bar of their own; tables of more users can be searched.
ROWS_ON_SCREEN, ROWS_TO_SEARCH = 40, 20
LINES_ON_PAGE = 200
# Plotly's own build for pictures with two axes, a third of the whole script; see documents.md.
CHART_SCRIPT = "plotly-cartesian.min.js.gz"
_TEMPLATE = files("fairlead.report") / "template"


def to_page(document: Document) -> str:
    """Render a document as one self-contained HTML page.

    Cost: the characters of the answer, and .6 MB for the script where there are pictures.
    """
    return _environment().get_template("page.html").render(document=document, page=_Page())


def _packed(packed: bytes) -> Markup:
    """Write compressed bytes in base 85, five characters for four bytes."""
    # Without `<` nothing in it can end the script element around it.
    written = b85encode(packed, pad=True).replace(b"<", b",").decode()
    return Markup(f'data-bytes="{len(packed)}">{written}')


@cache
def _chart_script() -> Markup:
    return _packed((_TEMPLATE / CHART_SCRIPT).read_bytes())


class _LegendLine(NamedTuple):
    key: str
    name: str
    colour: str
    dash: str
    shape: str  # ``line`` or ``swatch``


class _Page:
    """The functions and state that the template uses for one page."""

    marks = MARKS
    lines = LINES_ON_PAGE
    rows_on_screen, rows_to_search = ROWS_ON_SCREEN, ROWS_TO_SEARCH
    chart_script = staticmethod(_chart_script)

    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {}
        self.kept: dict[str, str] = {}
        self.identities = 0

    @staticmethod
    def shown(blocks: Iterable[Block] | Callable[[], Iterable[Block]]) -> list[tuple[str, Block]]:
        """Return blocks with the names of their kinds."""
        return [(type(b).__name__, b) for b in (blocks() if callable(blocks) else blocks)]

    def identity(self, kind: str) -> str:
        """Return an identity for an element, such as ``table-3``."""
        self.identities += 1
        return f"{kind}-{self.identities}"

    @staticmethod
    def rows(table: Table, first: bool) -> Iterable[Sequence[Content]]:
        """Return the rows in the page's HTML, or the further rows that its script inserts."""
        rows, split = table.shown_rows(ROWS_ON_PAGE), 0 if table.folded else FIRST_ROWS
        return map(table.row, rows[:split] if first else rows[split:])

    def keep(self, place: str, html: str) -> str:
        """Store HTML that the page's script inserts at a place."""
        if html.strip():
            self.kept[place] = html
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

    def key(self, picture: Picture) -> str:
        """Keep the picture's data, and return its key."""
        key = f"figure-{len(self.figures) + 1}"
        figure = picture.figure() if callable(picture.figure) else picture.figure
        # Copies: `legend` changes them, and the document may be rendered again.
        self.figures[key] = figure | {
            "data": [dict(trace) for trace in figure["data"]],
            "layout": dict(figure["layout"]),
        }
        return key

    def packed_contents(self) -> Markup:
        """Return the compressed figures and stored HTML; outer places precede inner ones."""
        contents = {"figures": self.figures, "kept": dict(reversed(self.kept.items()))}
        text = json.dumps(contents, allow_nan=False, separators=(",", ":"))
        return _packed(gzip.compress(text.encode(), 9, mtime=0))

    def legend(self, key: str) -> list[_LegendLine]:
        """List a picture's traces.

        The page shows them above the picture, where names have room; Plotly's legend is off.
        """
        figure = self.figures[key]
        wanted = figure["layout"].pop("showlegend", False)
        figure["layout"]["showlegend"] = False
        listed: dict[str, _LegendLine] = {}
        for trace in figure["data"] if wanted else ():
            if not trace.get("name") or not trace.get("showlegend", True):
                continue
            group = trace.setdefault("legendgroup", f"{key}: {trace['name']}")
            is_line = "lines" in trace.get("mode", "") and trace["line"].get("width", 1) > 0
            style = trace["line"] if is_line else trace.get("marker", {})
            colour = style.get("color", INK)
            line = _LegendLine(
                group,
                unescape(trace["name"]),
                css(colour if isinstance(colour, str) else INK),
                css_dash(style.get("dash", "solid")),
                "line" if is_line else "swatch",
            )
            listed.setdefault(group, line)
        return list(listed.values())


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

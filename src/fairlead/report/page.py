"""Documents as pages: each is one file that fetches nothing.

The script that draws pictures, and what it draws, are in the page in compressed form.
"""

from __future__ import annotations

import gzip
import json
from base64 import b85encode
from collections.abc import Iterable, Sequence
from functools import cache
from html import unescape
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from fairlead.report.charts import INK, Figure, css, css_dash
from fairlead.report.document import (
    TERMINAL,
    Block,
    Cell,
    Column,
    Content,
    Document,
    Picture,
    Table,
)
from fairlead.report.numbers import counted
from fairlead.report.terminal import MARKS, rows_to_show

ROWS_ON_PAGE = 2000
# The others are compressed, and filled in by the page's script.
FIRST_ROWS = 60
# Longer tables scroll by themselves; those of more users can be searched.
ROWS_ON_SCREEN, ROWS_TO_SEARCH = 40, 20
LINES_ON_PAGE = 200
# Plotly's own build for pictures with two axes, a third of the whole script; see documents.md.
CHART_SCRIPT = "plotly-cartesian.min.js.gz"
_TEMPLATE = files("fairlead.report") / "template"


def to_page(document: Document) -> str:
    """Render a document as a whole HTML document, with all it needs.

    Cost: the characters of the answer, and .6 MB for the script where there are pictures.
    """
    return _environment().get_template("page.html").render(document=document, page=_Contents())


def _most(table: Table) -> int:
    return table.on_page or ROWS_ON_PAGE


def _packed(packed: bytes) -> Markup:
    """Write compressed bytes in base 85, five characters for four bytes."""
    # Where no tag can begin, nothing ends the script element around it.
    written = b85encode(packed, pad=True).replace(b"<", b",").decode()
    return Markup(f'data-bytes="{len(packed)}">{written}')


@cache
def _chart_script() -> Markup:
    return _packed((_TEMPLATE / CHART_SCRIPT).read_bytes())


class _Contents:
    """What a template asks for: which rows there are, and under which key a picture is kept."""

    lines = LINES_ON_PAGE
    rows_on_screen, rows_to_search = ROWS_ON_SCREEN, ROWS_TO_SEARCH

    def __init__(self) -> None:
        self.marks = {kind: mark for kind, (mark, _) in MARKS.items()}
        self.figures: dict[str, Figure] = {}
        self.kept: dict[str, str] = {}
        self.tables = 0
        self.tabs = 0

    @staticmethod
    def shown(blocks: Any) -> list[Block]:
        """Return the blocks that a page shows."""
        given: Iterable[Block] = blocks() if callable(blocks) else blocks
        return [block for block in given if getattr(block, "only", "") != TERMINAL]

    @staticmethod
    def kind(block: Block) -> str:
        """Name the kind of a block."""
        return type(block).__name__

    def next_table(self) -> str:
        """Return an identity for a table."""
        self.tables += 1
        return f"table-{self.tables}"

    def next_tabs(self) -> str:
        """Return an identity for a set of tabs."""
        self.tabs += 1
        return f"tabs-{self.tabs}"

    @staticmethod
    def chosen(table: Table) -> Table:
        """Return the table, or what stands in its place where it is too long."""
        is_long = table.instead is not None and table.count > ROWS_ON_PAGE
        return table.instead if is_long and table.instead is not None else table

    @staticmethod
    def columns(table: Table) -> list[tuple[int, Column]]:
        """Return the columns that a page shows, with their positions."""
        return [(k, column) for k, column in enumerate(table.columns) if column.only != TERMINAL]

    @staticmethod
    def first_rows(table: Table) -> Iterable[Sequence[Content]]:
        """Return the rows that the page has as they are; none where it has to be opened."""
        if not table.folded:
            rows = rows_to_show(table.count, table.size, _most(table))
            yield from map(table.row, rows[:FIRST_ROWS])

    @staticmethod
    def other_rows(table: Table) -> Iterable[Sequence[Content]]:
        """Return the rows that are compressed, and come when the page is opened."""
        rows = rows_to_show(table.count, table.size, _most(table))
        yield from map(table.row, rows if table.folded else rows[FIRST_ROWS:])

    def keep(self, place: str, html: str) -> str:
        """Keep what the page's script is to put into a place, such as the rows of a long table."""
        if html.strip():
            self.kept[place] = html
        return ""

    @staticmethod
    def omitted(table: Table) -> str:
        """Describe the rows that are left out, if any."""
        left = table.count - _most(table)
        if left <= 0:
            return ""
        what = counted(left, table.each or "row")
        return f"… and {what} {table.rest}; all are in the output of --json."

    @staticmethod
    def cell(content: Content) -> Cell:
        """Return a cell, whatever was given."""
        return Cell(content) if isinstance(content, str) else content

    def key(self, picture: Picture) -> str:
        """Keep the picture's data, and return its key."""
        key = f"figure-{len(self.figures) + 1}"
        figure = picture.figure() if callable(picture.figure) else picture.figure
        # Copies: what the page changes for its legend is not the document's.
        self.figures[key] = figure | {
            "data": [dict(trace) for trace in figure["data"]],
            "layout": dict(figure["layout"]),
        }
        return key

    def packed_contents(self) -> Markup:
        """Return what the page's script fills in, compressed; what holds others comes first."""
        kept = dict(reversed(self.kept.items()))
        contents = {"figures": self.figures, "kept": kept}
        text = json.dumps(contents, allow_nan=False, separators=(",", ":"))
        return _packed(gzip.compress(text.encode(), 9, mtime=0))

    @staticmethod
    def chart_script() -> Markup:
        """Return the script that draws pictures, compressed."""
        return _chart_script()

    def legend(self, key: str) -> list[tuple[str, str, str, str, str]]:
        """List what a picture's traces are: key, name, colour, dash, and whether it is a line.

        The page shows this above the picture, where names have room; Plotly's own legend is off.
        """
        figure = self.figures[key]
        wanted = figure["layout"].pop("showlegend", False)
        figure["layout"]["showlegend"] = False
        listed: dict[str, tuple[str, str, str, str, str]] = {}
        for trace in figure["data"] if wanted else ():
            if not trace.get("name") or not trace.get("showlegend", True):
                continue
            group = trace.setdefault("legendgroup", f"{key}: {trace['name']}")
            is_line = "lines" in trace.get("mode", "") and trace["line"].get("width", 1) > 0
            style = trace["line"] if is_line else trace.get("marker", {})
            colour = style.get("color", INK)
            if not isinstance(colour, str):
                colour = INK
            dash = css_dash(style.get("dash", "solid"))
            name, shape = unescape(trace["name"]), "line" if is_line else "swatch"
            listed.setdefault(group, (group, name, css(colour), dash, shape))
        return list(listed.values())


@cache
def _environment() -> Environment:
    def read(name: str) -> str:
        return (_TEMPLATE / name).read_text(encoding="utf-8")

    environment = Environment(
        loader=FunctionLoader(read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["css"] = css
    return environment

"""The document model: one answer as blocks, for a page, a terminal and JSON.

A `Document` consists of a verdict and blocks. `fairlead.report.page` renders it as HTML,
`fairlead.report.terminal` prints the blocks that a terminal can show, and `Document.to_json`
returns the plain values of the answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, TypeAlias

from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray
from fairlead.model.ties import largest_first
from fairlead.report.charts import Figure
from fairlead.report.numbers import number

HOLDS, FAILS, UNKNOWN, MUTED = "holds", "fails", "unknown", "muted"
MARKS = {HOLDS: "✓", FAILS: "✗", UNKNOWN: "?", MUTED: "–"}
# A terminal shows about one screen of a table; a pipe or file gets all rows.
ROWS_ON_TERMINAL = 40
# `Cell.value` of infinite and missing numbers.
MISSING = 1e300


@dataclass(frozen=True)
class Cell:
    """A cell of a table: a text with a number, a colour or a note."""

    text: str
    value: float | None = None  # the number before rounding, for programs that read a page
    kind: str = ""  # ``good``, ``bad``, ``dim``, or empty
    swatch: str = ""  # colour shown before the text
    note: str = ""  # shown after the text, in small letters on a page


Content: TypeAlias = "Cell | str"


def figure(
    value: float | None, text_of: Callable[[float], str] = number, *, kind: str = ""
) -> Cell:
    """Return a cell with a number formatted by `text_of`, or a dash for a missing number."""
    if value is None or isnan(value):
        return Cell("–", MISSING)
    return Cell(text_of(value), min(value, MISSING), kind)


def count_cell(count: int) -> Cell:
    """Return a cell with a whole number: ``12,583``."""
    return Cell(f"{count:,}", count)


@dataclass(frozen=True)
class Column:
    """A column of right-aligned numbers, or with `words` of left-aligned text."""

    heading: str
    words: bool = False


def words(*headings: str) -> list[Column]:
    """Return columns of words."""
    return [Column(heading, words=True) for heading in headings]


def numbers(*headings: str) -> list[Column]:
    """Return columns of numbers."""
    return [Column(heading) for heading in headings]


@dataclass(frozen=True, eq=False)
class Table:
    """A table whose rows are computed when they are shown."""

    about: str  # description for screen readers
    columns: Sequence[Column]  # the first column names the row
    count: int  # number of rows
    row: Callable[[int], Sequence[Content]]  # cells of row k, one for each column
    size: FloatArray | None = None  # (count,): if not all rows fit, the largest are shown
    each: str = "row"  # singular noun for a row
    rest: str = "with smaller shares"  # describes the rows that are not shown
    foot: Sequence[Sequence[Content]] = ()  # rows below all others
    on_terminal: int = ROWS_ON_TERMINAL  # largest number of rows on a terminal
    note: str = ""  # explains headings, below the table
    folded: str = ""  # label of the closed table on a page; empty to show it open
    page_only: bool = False

    def shown_rows(self, limit: int | None) -> list[int]:
        """Return the indices of at most `limit` rows, in order: the largest, or else the first."""
        if limit is None or self.count <= limit:
            return list(range(self.count))
        if self.size is None:
            return list(range(limit))
        return sorted(int(k) for k in largest_first(self.size)[:limit])


def table_of(
    about: str, columns: Sequence[Column], rows: Sequence[Sequence[Content]], **more: Any
) -> Table:
    """Return a table of existing rows."""
    return Table(about, columns, len(rows), rows.__getitem__, **more)


def pairs_table(about: str, pairs: Sequence[tuple[str, str]], **more: Any) -> Table:
    """Return a table of labels and texts, without headings."""
    return table_of(about, words("", ""), pairs, on_terminal=len(pairs), **more)


@dataclass(frozen=True)
class Prose:
    """A paragraph; its kind is ``small``, ``strong``, ``warning`` or empty."""

    text: str
    kind: str = ""
    page_only: bool = False


@dataclass(frozen=True)
class Listing:
    """A list of sentences, one per line."""

    lines: Sequence[str]
    heading: str = ""
    kind: str = ""  # as in `Prose`


@dataclass(frozen=True)
class Statement:
    """A finding, such as that a property holds, fails or is unknown, with its reason."""

    kind: str  # ``holds``, ``fails``, ``unknown`` or ``muted``
    sentence: str
    name: str = ""  # subject of the finding; may be empty
    finding: str = ""  # in a word or two
    detail: str = ""
    witness: Sequence[Table] = ()  # tables that a page shows on demand


@dataclass(frozen=True)
class Picture:
    """A picture of a page."""

    caption: str
    figure: Figure | Callable[[], Figure]
    about: str  # description for screen readers
    heading: str = ""
    small: bool = False  # whether the page shows two small pictures side by side


@dataclass(frozen=True)
class Tiles:
    """Summary numbers: label, value and detail."""

    tiles: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Section:
    """Blocks below a heading."""

    heading: str
    blocks: Sequence[Block] | Callable[[], Iterable[Block]]
    page_only: bool = False


Block: TypeAlias = Table | Prose | Listing | Statement | Picture | Tiles | Section


@dataclass(frozen=True, eq=False)
class Document:
    """An answer, as blocks for readers and as plain values for programs."""

    title: str  # subject, such as the name of a file
    about: str  # kind of answer, for the heading of a page
    lead: str  # size of the problem, and the method
    verdict: Statement | None  # the answer in a sentence
    blocks: Sequence[Block]  # the main picture is the first
    values: Callable[[], Mapping[str, Any]]  # returns the whole answer as plain values
    left_out: Sequence[str] = ()  # parts of the input that were left out, and why

    def to_json(self) -> str:
        """Return the answer as one JSON object, with its final newline."""
        values = dict(self.values())
        if self.left_out:
            values["left_out"] = list(self.left_out)
        return json.dumps(values, indent=2, allow_nan=False) + "\n"


def proof(certificate: Certificate, found_by: str = "the solver that found the answer") -> Section:
    """Describe the condition that proves an answer, and the violation of it."""
    holds = certificate.holds
    detail = "".join(
        f"; {name.replace('_', ' ')}: {number(value) if isinstance(value, float) else value}"
        for name, value in certificate.detail.items()
        if isinstance(value, str | int | float)
    )
    missed = f"violation {certificate.violation:.1e}, tolerance {certificate.tolerance:.0e}"
    statement = Statement(
        HOLDS if holds else FAILS,
        certificate.condition,
        "proof",
        "holds" if holds else "DOES NOT HOLD",
        f"{missed}; computed from the definition, not by {found_by}{detail}",
    )
    return Section("Proof", [statement])

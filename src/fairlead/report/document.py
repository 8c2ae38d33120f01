"""What a verb answers, composed once: a terminal, a page and JSON render the same blocks.

A `Document` opens with its verdict; then come blocks. `fairlead.report.terminal` and
`fairlead.report.page` render them; what is in one of the two only says so in `only`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray
from fairlead.report.numbers import number

# Where a block or a column is shown, if not everywhere.
PAGE, TERMINAL = "page", "terminal"
# Of a column: not on a terminal that is narrow.
ROOMY = "roomy"
# A table on a terminal keeps to about one screen; into a pipe or file it is complete.
ROWS_ON_TERMINAL = 40
HOLDS, FAILS, UNKNOWN, MUTED = "holds", "fails", "unknown", "muted"


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than a text."""

    text: str
    value: float | None = None  # what a reader who sorts the column sorts by
    part: float | None = None  # how long a bar to draw under it, from 0 to 1
    kind: str = ""  # ``good``, ``bad``, ``dim``, or nothing
    swatch: str = ""  # a colour to show before the text
    note: str = ""  # what a page adds in small letters
    link: str = ""  # the anchor of a block of the page
    brief: str = ""  # what a terminal shows in place of a text that would take too much of a line


Content: TypeAlias = "Cell | str"


@dataclass(frozen=True)
class Column:
    """A column of a table: of figures, unless it is of words."""

    heading: str
    words: bool = False
    only: str = ""


def words(heading: str, only: str = "") -> Column:
    """Return a column of words."""
    return Column(heading, words=True, only=only)


@dataclass(frozen=True, eq=False)
class Table:
    """A table; a terminal or a page shows as many of its rows as it has room for."""

    about: str  # what is in it
    columns: tuple[Column, ...]  # the first `keys` of them name a row
    count: int  # rows in all
    row: Callable[[int], Sequence[Content]]  # returns the cells of row k, one for each column
    # (count,): the largest rows are shown where there is no room for all; the first if absent.
    size: FloatArray | None = None
    each: str = ""  # what a row is, in the singular; users can be searched for
    rest: str = "with smaller shares"  # which rows are left out, in words
    foot: tuple[Sequence[Content], ...] = ()  # rows that stand below all others
    keys: int = 1
    # Rows that each shows at most; on a page as many as on any where 0.
    on_terminal: int = ROWS_ON_TERMINAL
    on_page: int = 0
    in_pipe: int | None = None  # rows at most even where nothing is left out otherwise
    captioned: bool = False  # whether a reader needs `about` to know what it is
    note: str = ""  # what to know of it, below it
    folded: str = ""  # if not empty, a page shows the table only when this is opened
    instead: Table | None = None  # shown in place of this one where there is no room for all of it
    only: str = ""


def table_of(
    about: str, columns: Sequence[Column], rows: Sequence[Sequence[Content]], **more: Any
) -> Table:
    """Return a table of rows that are there already."""
    return Table(about, tuple(columns), len(rows), rows.__getitem__, **more)


@dataclass(frozen=True)
class Prose:
    """A paragraph; ``small`` says what words mean, ``warning`` what to beware of."""

    text: str
    kind: str = ""
    only: str = ""


@dataclass(frozen=True)
class Listing:
    """Sentences, one below the other; a ``warning`` stands out."""

    lines: Sequence[str]
    heading: str = ""
    kind: str = ""
    only: str = ""


@dataclass(frozen=True)
class Statement:
    """That something holds, fails or is not known, and why."""

    kind: str  # ``holds``, ``fails``, ``unknown`` or ``muted``
    sentence: str
    name: str = ""  # what it is said of; may be empty
    said: str = ""  # the finding in a word or two
    detail: str = ""  # what is less important
    shown_by: Sequence[Block] = ()  # what a page shows when asked for it
    only: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture of a page."""

    caption: str
    figure: Any  # plain data for Plotly's script, or what returns it
    about: str  # what is in it, for who cannot see it
    heading: str = ""
    small: bool = False  # whether two of them stand side by side where there is room


@dataclass(frozen=True)
class Tiles:
    """A few numbers that sum up: label, value, what more there is to it, and a bar's length."""

    tiles: Sequence[tuple[str, str, str, float | None]]
    only: str = ""


@dataclass(frozen=True)
class Facts:
    """Pairs of a label and a text."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Legend:
    """A colour key of several pictures, for lines: key, name, colour, dash, and ``line``."""

    lines: Sequence[tuple[str, str, str, str, str]]


@dataclass(frozen=True)
class Section:
    """Blocks below a heading, on a page."""

    heading: str
    blocks: Sequence[Block] | Callable[[], Iterable[Block]]
    level: int = 2
    kind: str = ""  # of a card, ``fails`` makes it stand out
    anchor: str = ""  # where links lead to
    only: str = ""


@dataclass(frozen=True)
class Cards:
    """Sections side by side, each in a frame, with a colour of its own."""

    cards: Sequence[tuple[str, Section]]
    only: str = ""


@dataclass(frozen=True)
class Tabs:
    """Sets of blocks by their names; a page shows one set at a time."""

    about: str
    panels: Mapping[str, Sequence[Block]]


Block: TypeAlias = (
    Table | Prose | Listing | Statement | Picture | Tiles | Facts | Legend | Section | Cards | Tabs
)


@dataclass(frozen=True, eq=False)
class Document:
    """An answer for people, and as plain values for programs."""

    title: str  # what it is about, such as the name of a file
    about: str  # what kind of answer it is: in the title of the browser's window
    lead: str  # how large the problem is, and what was done
    verdict: Statement | None  # the answer in a sentence
    blocks: Sequence[Block]  # the picture first, then the rest
    values: Callable[[], Mapping[str, Any]]  # returns the whole answer as plain values, for JSON
    # What was left out of the input, and why.
    left_out: Sequence[str] = field(default_factory=tuple)

    def to_json(self) -> str:
        """Return the answer as one JSON object, with its final newline."""
        values = dict(self.values())
        if self.left_out:
            values["left_out"] = list(self.left_out)
        return json.dumps(values, indent=2, allow_nan=False) + "\n"


def proof(certificate: Certificate, found_by: str = "the solver that found the answer") -> Section:
    """Describe the condition that makes an answer right, and by how much it misses that."""
    detail = "; ".join(
        f"{name.replace('_', ' ')}: {number(value) if isinstance(value, float) else value}"
        for name, value in certificate.detail.items()
        if isinstance(value, str | int | float)
    )
    missed = f"violation {certificate.violation:.1e}, tolerance {certificate.tolerance:.0e}"
    return Section(
        "Proof",
        (
            Statement(
                HOLDS if certificate.holds else FAILS,
                certificate.condition,
                "proof",
                "holds" if certificate.holds else "DOES NOT HOLD",
                f"{missed}; computed from the definition, not by {found_by}"
                + (f". {detail}" if detail else ""),
            ),
        ),
    )

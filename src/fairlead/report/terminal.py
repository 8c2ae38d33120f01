"""Documents on a terminal, or in a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from io import StringIO
from itertools import takewhile

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Column as RichColumn
from rich.table import Table as RichTable
from rich.text import Text

from fairlead.model.ties import largest_first
from fairlead.report.document import (
    FAILS,
    HOLDS,
    MUTED,
    PAGE,
    ROOMY,
    UNKNOWN,
    Block,
    Cards,
    Content,
    Document,
    Facts,
    Legend,
    Listing,
    Picture,
    Prose,
    Section,
    Statement,
    Table,
    Tabs,
    Tiles,
)
from fairlead.report.numbers import counted, printable

# Of what is listed line by line.
LINES_ON_TERMINAL = 10
WIDTH_OF_PIPE = 100_000
WIDTH_OF_PROSE = 100
# What names and words have of a line at least, before a table is divided; between two columns.
WIDTH_OF_NAME, LEAST_NAME, GAP = 12, 4, 3
# Headings of figures are broken where they are wider than the figures and this.
SHORTEST_HEADING = 8
# What a name or a list may take of a line: one part in this many.
PART_OF_LINE = 3
# From here on a terminal shows columns that it can do without, too.
WIDE = 140
INDENT = 2
# Stands for a space at which no line is broken; no text that is printed has it.
JOINED = "\ue000"

MARKS = {HOLDS: ("✓", "green"), FAILS: ("✗", "red"), UNKNOWN: ("?", "yellow"), MUTED: ("–", "dim")}
STYLES = {
    "good": "green",
    "bad": "red",
    "dim": "dim",
    "warning": "yellow",
    "small": "dim",
    "strong": "bold",
}


def to_terminal(document: Document, *, width: int | None, plain: bool) -> str:
    """Render a document as text.

    Parameters
    ----------
    document : Document
    width : int or None
        Columns of the terminal; None into a pipe or file, where no line is folded and no row is
        left out.
    plain : bool
        Whether to do without colours and bold type.

    Returns
    -------
    str
        The text, with its final newline.
    """
    console, buffer = open_console(width, plain)
    console.print(_text(f"{document.title}: {document.lead}", "bold"), soft_wrap=width is None)
    if document.verdict is not None:
        mark, colour = MARKS[document.verdict.kind]
        sentence = (_joined(document.verdict.sentence), "bold")
        console.print(Text.assemble((f"{mark} ", colour), sentence), soft_wrap=width is None)
    _print(console, document.blocks, width)
    return finished(buffer)


def open_console(width: int | None, plain: bool) -> tuple[Console, StringIO]:
    """Return a console that prints into a buffer: the text is whole before a byte is written."""
    buffer = StringIO()
    console = Console(
        file=buffer,
        width=width or WIDTH_OF_PIPE,
        force_terminal=not plain,
        color_system=None if plain else "auto",
        highlight=False,
        markup=False,
        emoji=False,
    )
    return console, buffer


def finished(buffer: StringIO) -> str:
    """Return what was printed, without spaces that fill up lines or a second empty line."""
    lines: list[str] = []
    for line in buffer.getvalue().splitlines():
        kept = line.replace(JOINED, " ").rstrip()
        if kept or (lines and lines[-1]):
            lines.append(kept)
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


def _print(console: Console, blocks: Iterable[Block], width: int | None) -> None:
    shown = [block for block in blocks if getattr(block, "only", "") != PAGE]
    before: Block | None = None
    for k, block in enumerate(shown):
        if _stands_apart(block, before):
            console.print()
        before = block
        match block:
            case Section():
                _print(console, block.blocks() if callable(block.blocks) else block.blocks, width)
            case Cards():
                for _, card in block.cards:
                    console.print()
                    console.print(_text(card.heading, "bold"))
                    _print(console, (card,), width)
            case Table():
                _print_rows(console, block, width)
            case Statement():
                if k and isinstance(shown[k - 1], Statement):
                    continue  # printed with the first of its kind
                others = takewhile(lambda other: isinstance(other, Statement), shown[k:])
                _print_statements(console, [s for s in others if isinstance(s, Statement)])
            case Prose():
                _print_prose(console, block.text, STYLES.get(block.kind, ""))
            case Listing():
                _print_listing(console, block, width)
            case Tiles():
                rows = [(label, value, more) for label, value, more, _ in block.tiles]
                _print_pairs(console, rows)
            case Facts():
                _print_pairs(console, block.pairs)
            case Picture() | Legend() | Tabs():
                pass


def _text(text: str, style: str = "") -> Text:
    return Text(_joined(text), style=style)


def _joined(text: str) -> str:
    """Return a text for printing, in which no line ends between a number and its per cent."""
    return re.sub(r"(?<=\d) %", f"{JOINED}%", printable(text))


def _print_prose(console: Console, text: str, style: str) -> None:
    console.print(_text(text, style), width=min(console.width, WIDTH_OF_PROSE))


def _print_listing(console: Console, listing: Listing, width: int | None) -> None:
    style = STYLES.get(listing.kind, "")
    if listing.heading:
        _print_prose(console, f"{listing.heading}:", style)
    most = len(listing.lines) if width is None else LINES_ON_TERMINAL
    start = "  " if listing.heading else ""
    for line in listing.lines[:most]:
        console.print(_text(f"{start}{line}", style), soft_wrap=width is None)
    if len(listing.lines) > most:
        more = f"{start}... and {len(listing.lines) - most:,} more (all: --json)"
        console.print(_text(more, "dim"))


def _stands_apart(block: Block, before: Block | None) -> bool:
    """Return whether an empty line belongs before a block."""
    match block:
        case Statement():
            return not isinstance(before, Statement)
        case Tiles():
            return True
        case Prose():
            return block.kind == "strong" or isinstance(before, Statement | Tiles)
        case Facts():
            return isinstance(before, Statement | Facts)
        case Listing():
            return isinstance(before, Statement | Tiles)
        case _:
            return False


def _print_statements(console: Console, statements: Sequence[Statement]) -> None:
    """Print statements one below the other; what does not fit on a line is indented."""
    names = max(len(statement.name) for statement in statements)
    findings = max(len(statement.said) for statement in statements)
    for statement in statements:
        mark, colour = MARKS[statement.kind]
        is_muted = statement.kind == MUTED
        name = f"{statement.name:{names}}  " if names else ""
        said = f"{statement.said:{findings}}  " if findings else ""
        detail = f" ({statement.detail})" if statement.detail else ""
        text = Text.assemble(
            (f"{mark} ", colour),
            (name, "" if is_muted else "bold"),
            (said, colour),
            _joined(statement.sentence),
            (_joined(detail), "dim"),
            style="dim" if is_muted else "",
        )
        _print_hanging(console, text)


def _print_hanging(console: Console, text: Text) -> None:
    """Print a paragraph whose lines after the first are indented."""
    if console.width == WIDTH_OF_PIPE:
        console.print(text, soft_wrap=True)
        return
    first = text.wrap(console, console.width)[:1]
    for line in first:
        console.print(line, no_wrap=True)
        rest = text[len(line) :]
        rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
        if rest:
            console.print(Padding(rest, (0, 0, 0, INDENT)))


def _print_pairs(console: Console, rows: Iterable[tuple[str, ...]]) -> None:
    table = RichTable(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*map(_text, row))
    console.print(table)


def _print_rows(console: Console, table: Table, width: int | None) -> None:
    """Print a table, of a large one those rows that matter most, and say which are left out."""
    most = table.in_pipe if width is None else table.on_terminal
    if table.instead is not None and most is not None and table.count > most:
        _print_rows(console, table.instead, width)
        return
    if table.captioned:
        console.print(_text(table.about, "bold"))
    rows = rows_to_show(table.count, table.size, most)
    listed: list[Sequence[Content]] = [
        [_fitting(cell, width) for cell in table.row(row)] for row in rows
    ]
    narrow = width is not None and width < WIDE
    chosen = [
        k
        for k, column in enumerate(table.columns)
        if column.only != PAGE and not (narrow and column.only == ROOMY)
    ]
    drawn = plain_table()
    drawn.show_header = any(column.heading for column in table.columns)
    for k in chosen:
        column = table.columns[k]
        widest = max((cell_len(_cell(row[k]).plain) for row in (*listed, *table.foot)), default=0)
        heading = printable(column.heading)
        drawn.add_column(
            Text(heading if column.words or width is None else _folded(heading, widest)),
            justify="left" if column.words else "right",
            overflow="fold",
            no_wrap=not column.words,
        )
    for row in listed:
        drawn.add_row(*(_cell(row[k]) for k in chosen))
    if table.foot:
        drawn.add_section()
    for row in table.foot:
        drawn.add_row(*(_cell(row[k]) for k in chosen))
    keys = sum(k < table.keys for k in chosen)
    print_table(console, drawn, keys=keys)
    if len(rows) < table.count:
        left = counted(table.count - len(rows), table.each or "row")
        where = "--json" if width is None else "--json, --report, or into a pipe"
        said = f"... and {left} {table.rest} (all of them: {where})"
        console.print(_text(said, "dim"))
    if table.note:
        console.print(_text(table.note, "dim"))


def _folded(heading: str, widest: int) -> str:
    """Break a heading between its words, so that it is hardly wider than what is below it."""
    lines = [""]
    for word in re.split(r"(?<=[ /-])", heading):
        if lines[-1] and cell_len(lines[-1] + word.rstrip()) > max(widest, SHORTEST_HEADING):
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)


def _fitting(content: Content, width: int | None) -> Content:
    """Return a cell, in short where it would take more than a part of a line."""
    if isinstance(content, str) or not content.brief or width is None:
        return content
    if cell_len(content.text) <= width // PART_OF_LINE:
        return content
    return replace(content, text=content.brief)


def _cell(content: Content) -> Text:
    if isinstance(content, str):
        return _text(content)
    note = f" {content.note}" if content.note else ""
    return _text(f"{content.text}{note}", STYLES.get(content.kind, ""))


def rows_to_show(
    count: int, size: np.ndarray[tuple[int], np.dtype[np.float64]] | None, most: int | None
) -> list[int]:
    """Return which rows to list: all, or the largest of them in their order."""
    if most is None or count <= most:
        return list(range(count))
    if size is None:
        return list(range(most))
    return sorted(int(k) for k in largest_first(size)[:most])


def plain_table() -> RichTable:
    """Return an empty table in the style of all tables."""
    return RichTable(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")


def print_table(console: Console, table: RichTable, *, keys: int = 1) -> None:
    """Print a table; where it is too wide, in parts that each begin with its first columns.

    No digit is cut: columns of words may fold; those of figures, on the right, never do.
    """
    first, others = table.columns[:keys], table.columns[keys:]
    least = [_least_width(column) for column in others]
    # Names fold further where the widest column would have no room beside them.
    folded = max(LEAST_NAME, (console.width - max(least, default=0)) // keys - GAP)
    # A name that takes only a part of the line is not broken at all.
    name = max(WIDTH_OF_NAME, console.width // PART_OF_LINE)
    for column in first:
        if _least_width(column, console.width) - GAP <= min(name, folded):
            column.no_wrap = True
    room = console.width - sum(_least_width(column, min(folded, WIDTH_OF_NAME)) for column in first)
    left, parts = room, list[list[RichColumn]]([[]])
    for column, needs in zip(others, least, strict=True):
        if needs > left and parts[-1]:
            parts.append([])
            left = room
        parts[-1].append(column)
        left -= needs
    for part in parts:
        shown = plain_table()
        shown.show_header = table.show_header
        for column in (*first, *part):
            is_whole = _is_whole(column)
            shown.add_column(
                column.header,
                justify=column.justify,
                overflow="fold",
                no_wrap=is_whole,
                min_width=None if is_whole else min(folded, _least_width(column) - GAP),
            )
        rows = zip(*(column.cells for column in (*first, *part)), strict=True)
        for row, cells in zip(table.rows, rows, strict=True):
            shown.add_row(*cells, end_section=row.end_section)
        console.print(shown)


def _least_width(column: RichColumn, name: int = WIDTH_OF_NAME) -> int:
    """Return how many characters a column needs, with the gap to the next."""
    lines = (line for cell in (column.header, *column.cells) for line in str(cell).split("\n"))
    widest = max(map(cell_len, lines))
    return GAP + (widest if _is_whole(column) else min(widest, name))


def _is_whole(column: RichColumn) -> bool:
    return column.no_wrap or column.justify == "right"

"""Print documents on a terminal or into a pipe, by Rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from fairlead.report.document import (
    FAILS,
    HOLDS,
    MARKS,
    MUTED,
    UNKNOWN,
    Block,
    Cell,
    Content,
    Document,
    Listing,
    Prose,
    Section,
    Statement,
    Table,
    Tiles,
)
from fairlead.report.numbers import counted, printable

LINES_ON_TERMINAL = 10  # of a listing
GAP = 3  # between columns
SMALLEST_WIDTH = 12  # characters; no column of words is shrunk below this width
WIDTH_OF_PIPE = 100_000  # so wide that no line in a pipe or file is folded
COLOURS = {HOLDS: "green", FAILS: "red", UNKNOWN: "yellow", MUTED: "dim"}
STYLES = {
    "good": "green",
    "bad": "red",
    "dim": "dim",
    "warning": "yellow",
    "small": "dim",
    "strong": "bold",
}


def to_terminal(document: Document, *, width: int | None, plain: bool) -> str:
    """Render a document as text with its final newline and escaped control characters.

    `width` is that of the terminal in columns; None for a pipe or file, where no line is folded and
    no row is left out. `plain` omits colours and bold type.
    """
    console, buffer = open_console(width, plain)
    console.print(_text(f"{document.title}: {document.lead}".rstrip(), "bold"))
    if document.verdict is not None:
        mark = (f"{MARKS[document.verdict.kind]} ", COLOURS[document.verdict.kind])
        console.print(Text.assemble(mark, (printable(document.verdict.sentence), "bold")))
    _print(console, document.blocks, width)
    return printed_text(buffer)


def open_console(width: int | None, plain: bool) -> tuple[Console, StringIO]:
    """Return a console and the buffer it prints into, for one write of the whole text."""
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


def printed_text(buffer: StringIO) -> str:
    """Return the printed text without trailing blanks and repeated empty lines."""
    lines: list[str] = []
    for line in map(str.rstrip, buffer.getvalue().splitlines()):
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).rstrip() + "\n"


def _print(console: Console, blocks: Iterable[Block], width: int | None) -> None:
    """Print all blocks except pictures, tabs and other blocks for pages only."""
    statements: list[Statement] = []  # consecutive statements share a grid
    for block in blocks:
        if isinstance(block, Statement):
            statements.append(block)
            continue
        _print_statements(console, statements)
        statements = []
        match block:
            case Section(page_only=False):
                console.print()
                if block.heading:
                    console.print(_text(block.heading, "bold"))
                _print(console, block.blocks() if callable(block.blocks) else block.blocks, width)
            case Table(page_only=False):
                print_table(console, block, width)
            case Prose(page_only=False):
                console.print(_text(block.text, STYLES.get(block.kind, "")))
            case Listing():
                _print_listing(console, block, width)
            case Tiles():
                _print_grid(console, [map(_text, tile) for tile in block.tiles])
    _print_statements(console, statements)


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)


def _print_grid(console: Console, rows: Iterable[Iterable[Text]]) -> None:
    grid = RichTable.grid(padding=(0, 2, 0, 0))
    for row in rows:
        grid.add_row(*row)
    console.print(grid)


def _print_statements(console: Console, statements: Sequence[Statement]) -> None:
    """Print statements as a grid, without columns that are empty."""
    rows = []
    for statement in statements:
        colour = COLOURS[statement.kind]
        base = "dim" if statement.kind == MUTED else ""
        detail = f" ({statement.detail})" if statement.detail else ""
        name = _text(statement.name, base or "bold")
        sentence = _text(statement.sentence, base).append(printable(detail), "dim")
        mark, finding = Text(MARKS[statement.kind], colour), _text(statement.finding, colour)
        rows.append([mark, name, finding, sentence])
    if not rows:
        return
    used = [k for k in range(4) if any(row[k].plain for row in rows)]
    _print_grid(console, [[row[k] for k in used] for row in rows])


def _print_listing(console: Console, listing: Listing, width: int | None) -> None:
    style = STYLES.get(listing.kind, "")
    if listing.heading:
        console.print(_text(f"{listing.heading}:", style))
    limit = len(listing.lines) if width is None else LINES_ON_TERMINAL
    for line in listing.lines[:limit]:
        console.print(_text(f"  {line}" if listing.heading else line, style))
    if len(listing.lines) > limit:
        console.print(_text(f"... and {len(listing.lines) - limit:,} more (all: --json)", "dim"))


def print_table(console: Console, table: Table, width: int | None) -> None:
    """Print a table; a terminal shows the largest rows of a long one.

    Words are folded, numbers are not: if numbers need more width than the terminal has, the
    terminal breaks the lines.
    """
    rows = table.shown_rows(None if width is None else table.on_terminal)
    cells = [[_cell(content) for content in table.row(row)] for row in rows]
    foot = [[_cell(content) for content in row] for row in table.foot]
    drawn = RichTable(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    drawn.show_header = any(column.heading for column in table.columns)
    needed = 0
    for k, column in enumerate(table.columns):
        widest = max((row[k].cell_len for row in (*cells, *foot)), default=0)
        heading = _text(column.heading)
        if column.words:
            least = min(SMALLEST_WIDTH, max(widest, heading.cell_len))
            drawn.add_column(heading, overflow="fold", min_width=least)
        else:
            lines = heading.split(" ") if width is not None else [heading]
            least = max(widest, *(line.cell_len for line in lines))
            drawn.add_column(Text("\n").join(lines), justify="right", no_wrap=True, min_width=least)
        needed += least + GAP
    for row in cells:
        drawn.add_row(*row)
    if foot:
        drawn.add_section()
    for row in foot:
        drawn.add_row(*row)
    terminal_width, console.width = console.width, max(console.width, needed)
    console.print(drawn)
    console.width = terminal_width
    if len(rows) < table.count:
        left = counted(table.count - len(rows), table.each)
        console.print(_text(f"... and {left} {table.rest} (all: --json or into a pipe)", "dim"))
    if table.note:
        console.print(_text(table.note, "dim"))


def _cell(content: Content) -> Text:
    if not isinstance(content, Cell):
        return _text(content)
    note = f" {content.note}" if content.note else ""
    return _text(f"{content.text}{note}", STYLES.get(content.kind, ""))

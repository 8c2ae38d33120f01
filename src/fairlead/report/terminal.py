"""Pieces that every table for a terminal or a pipe is made of."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.problem import Problem
from fairlead.model.ties import largest_first
from fairlead.report.numbers import counted, number, percent, printable

# A table on a terminal keeps to about one screen; into a pipe or file it is complete.
ROWS_ON_TERMINAL = 40
WIDTH_OF_PIPE = 100_000
WIDTH_OF_PROSE = 100
# What names and words have of a line at least, before a table is divided; between two columns.
WIDTH_OF_NAME, LEAST_NAME, GAP = 12, 4, 3


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


def plain_table(**options: Any) -> Table:
    """Return an empty table in the style of all tables."""
    return Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", **options)


def print_table(console: Console, table: Table, *, keys: int = 1) -> None:
    """Print a table; where it is too wide, in parts that each begin with its first columns.

    No digit is cut: columns of words may fold; those of figures, on the right, never do.
    """
    first, others = table.columns[:keys], table.columns[keys:]
    least = [_least_width(column) for column in others]
    # Names fold further where the widest column would have no room beside them.
    folded = max(LEAST_NAME, (console.width - max(least, default=0)) // keys - GAP)
    room = console.width - sum(_least_width(column, min(folded, WIDTH_OF_NAME)) for column in first)
    left, parts = room, list[list[Column]]([[]])
    for column, needs in zip(others, least, strict=True):
        if needs > left and parts[-1]:
            parts.append([])
            left = room
        parts[-1].append(column)
        left -= needs
    for part in parts:
        shown = plain_table()
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


def _least_width(column: Column, name: int = WIDTH_OF_NAME) -> int:
    """Return how many characters a column needs, with the gap to the next."""
    lines = (line for cell in (column.header, *column.cells) for line in str(cell).split("\n"))
    widest = max(map(cell_len, lines))
    return GAP + (widest if _is_whole(column) else min(widest, name))


def _is_whole(column: Column) -> bool:
    return column.no_wrap or column.justify == "right"


def finished(buffer: StringIO) -> str:
    """Return what was printed, without the spaces that fill up lines."""
    return "".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines())


def size_of(problem: Problem) -> str:
    """Say how many share how much."""
    servers = int(problem.count.sum())
    users = counted(problem.n_users, "user")
    if problem.cluster.groups == ("pool",):
        return f"{users} on one pool of all servers"
    return f"{users} on {counted(servers, 'server')} in {counted(problem.n_groups, 'group')}"


def rows_to_show(n_users: int, size: np.ndarray[Any, Any], width: int | None) -> list[int]:
    """Return the users to list: everybody into a pipe, else the largest, in the file's order."""
    if width is None or n_users <= ROWS_ON_TERMINAL:
        return list(range(n_users))
    largest = largest_first(size)[:ROWS_ON_TERMINAL]
    return sorted(int(n) for n in largest)


def print_omission(console: Console, n_users: int, shown: int) -> None:
    """Say how many users the table above does not list, if any."""
    if shown < n_users:
        rest = f"... and {n_users - shown:,} users with smaller shares"
        console.print(Text(f"{rest} (all of them: --json, --report, or into a pipe)", style="dim"))


def utilization_table(allocation: Allocation) -> Table:
    """Say how much of every resource is used."""
    table = plain_table()
    table.add_column("resource", overflow="fold")
    for heading in ("used", "of", "utilisation"):
        table.add_column(heading, justify="right", no_wrap=True)
    cluster = allocation.problem.cluster
    used = allocation.usage.sum(axis=0)
    for r, resource in enumerate(cluster.resources):
        total = (
            f"{number(float(allocation.problem.total_capacity[r]))} {printable(cluster.units[r])}"
        )
        table.add_row(
            Text(printable(resource)),
            number(float(used[r])),
            Text(total.rstrip()),
            percent(allocation.utilization[resource]),
        )
    return table


def print_certificate(console: Console, certificate: Certificate) -> None:
    """Say why this is the answer, and by how much it misses that."""
    verdict = "holds" if certificate.holds else "DOES NOT HOLD"
    console.print(
        Text.assemble(
            ("proof: ", "bold"),
            f"{certificate.condition}: ",
            (verdict, "green" if certificate.holds else "red"),
            f" (violation {certificate.violation:.1e}, tolerance {certificate.tolerance:.0e})",
        )
    )

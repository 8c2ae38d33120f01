"""Reproductions as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.text import Text

from fairlead.papers.reproduction import Entry, Reproduction, Table
from fairlead.papers.verdict import DIFFERS, Reading
from fairlead.report.numbers import number, percent
from fairlead.report.terminal import WIDTH_OF_PROSE, finished, open_console, plain_table


def catalogue_text(entries: Iterable[Entry], *, width: int | None, plain: bool) -> str:
    """List what can be reproduced.

    Parameters
    ----------
    entries : iterable of Entry
    width : int or None
        Columns of the terminal; None for a pipe.
    plain : bool
        Whether to leave out colours.

    Returns
    -------
    str
        The text, with its final newline.
    """
    console, buffer = open_console(width, plain)
    table = plain_table()
    table.add_column("name", no_wrap=True)
    for heading in ("paper", "what it shows", "the paper's reading"):
        table.add_column(heading, overflow="fold")
    table.add_column("takes", no_wrap=True)
    for entry in entries:
        where = f"{entry.paper.authors}, {entry.number}"
        table.add_row(entry.key, where, entry.shows, entry.printed, entry.takes)
    console.print(table)
    return finished(buffer)


def reproduction_tables(
    found: Mapping[str, tuple[Entry, Reproduction]], *, width: int | None, plain: bool
) -> str:
    """Show what came of each: the verdict and why, numbers and statements, then the tables.

    Parameters
    ----------
    found : mapping of str to (Entry, Reproduction)
        By name.
    width, plain
        As in `catalogue_text`.

    Returns
    -------
    str
        The text, with its final newline.
    """
    console, buffer = open_console(width, plain)
    for entry, reproduction in found.values():
        _print_one(console, entry, reproduction, min(width or WIDTH_OF_PROSE, WIDTH_OF_PROSE))
    return finished(buffer)


def written(reading: Reading, value: float) -> str:
    """Write ours or the paper's number."""
    return percent(value) if reading.is_share else number(value)


def interval_text(reading: Reading) -> str:
    """Write how far ours may be off, if anything is known about that."""
    if reading.interval is None:
        return ""
    if reading.is_share:
        return f"± {100 * reading.interval:g} points"
    return f"± {number(reading.interval)}"


def _print_one(console: Console, entry: Entry, reproduction: Reproduction, width: int) -> None:
    verdict = reproduction.verdict
    console.print(Text(f"{entry.key}: {entry.shows}", style="bold"))
    paper = f"{entry.paper.authors}, {entry.paper.venue}, {entry.number}: {entry.printed}."
    console.print(Text(paper), width=width)
    console.print(Text(reproduction.setting), width=width)
    if reproduction.readings:
        _print_readings(console, reproduction.readings)
    for claim in reproduction.claims:
        mark = ("yes: ", "green") if claim.holds else ("NO: ", "red")
        said = f"{claim.sentence} ({claim.measured})"
        console.print(Text.assemble(mark, said), width=width)
    for table in reproduction.tables:
        _print_table(console, table)
    style = "red" if verdict == DIFFERS else "green"
    line = Text.assemble(("verdict: ", "bold"), (verdict, style), f": {reproduction.reason}")
    console.print(line, width=width)
    if reproduction.note:
        console.print(Text(reproduction.note, style="dim"), width=width)
    console.print()


def _print_readings(console: Console, readings: Iterable[Reading]) -> None:
    table = plain_table()
    table.add_column("number")
    for heading in ("ours", "paper", "interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for reading in readings:
        interval = interval_text(reading)
        ours, paper = (written(reading, value) for value in (reading.ours, reading.paper))
        table.add_row(reading.what, ours, paper, interval, reading.verdict)
    console.print(table)


def _print_table(console: Console, content: Table) -> None:
    table = plain_table()
    for k, heading in enumerate(content.headings):
        table.add_column(heading, justify="right" if k else "left", no_wrap=k > 0)
    for row in content.rows:
        table.add_row(*row)
    console.print(Text(content.caption))
    console.print(table)

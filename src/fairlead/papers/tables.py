"""Reproductions as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.text import Text

from fairlead.papers.reproduction import Entry, Finding, Reproduction, Table
from fairlead.papers.verdict import DIFFERS, EQUAL, Reading, give_reason
from fairlead.report.numbers import number, percent
from fairlead.report.terminal import (
    WIDTH_OF_PROSE,
    finished,
    open_console,
    plain_table,
    print_table,
)


def catalogue_text(entries: Iterable[Entry], *, width: int | None, plain: bool) -> str:
    """List what can be reproduced; `width` is the terminal's columns, None for a pipe."""
    console, buffer = open_console(width, plain)
    table = plain_table()
    table.add_column("name", no_wrap=True)
    for heading in ("paper", "what it shows", "the paper's reading"):
        table.add_column(heading, overflow="fold")
    table.add_column("takes", no_wrap=True)
    for entry in entries:
        where = f"{entry.paper.authors}, {entry.number}"
        table.add_row(entry.key, where, entry.shows, entry.printed, entry.takes)
    print_table(console, table)
    return finished(buffer)


def reproduction_tables(
    found: Mapping[str, tuple[Entry, Reproduction]],
    *,
    details: bool,
    width: int | None,
    plain: bool,
) -> str:
    """Show what came of each: the verdict and why, numbers and statements, then all verdicts.

    Parameters
    ----------
    found : mapping of str to (Entry, Reproduction)
        By name.
    details : bool
        Whether to show more than the verdicts, their reasons, and what papers got wrong.
    width : int or None
        Columns of the terminal; None for a pipe.
    plain : bool
        Whether to leave out colours.
    """
    console, buffer = open_console(width, plain)
    prose = min(width or WIDTH_OF_PROSE, WIDTH_OF_PROSE)
    if details:
        for entry, reproduction in found.values():
            _print_one(console, entry, reproduction, prose)
    if not details or len(found) > 1:
        _print_verdicts(console, found)
    if not details:
        _print_reasons(console, found, prose)
    return finished(buffer)


def _print_verdicts(console: Console, found: Mapping[str, tuple[Entry, Reproduction]]) -> None:
    table = plain_table()
    table.add_column("name", no_wrap=True)
    table.add_column("what it shows", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for key, (entry, reproduction) in found.items():
        verdict = reproduction.verdict
        table.add_row(key, entry.shows, Text(verdict, style=_style(verdict)))
    print_table(console, table)


def _print_reasons(
    console: Console, found: Mapping[str, tuple[Entry, Reproduction]], width: int
) -> None:
    """Say why what is not equal is not, and what the papers got wrong or left open."""
    for key, (_, reproduction) in found.items():
        if reproduction.verdict != EQUAL:
            reason = give_reason(reproduction.readings, reproduction.claims, in_full=False)
            said = f": {reproduction.verdict}: {reason}"
            console.print(Text.assemble((key, "bold"), said), width=width)
            if reproduction.note:
                console.print(Text(reproduction.note, style="dim"), width=width)
    for key, (entry, reproduction) in found.items():
        if reproduction.findings:
            console.print(Text(f"\n{key}: {entry.paper.authors}, {entry.number}", style="bold"))
        _print_findings(console, reproduction.findings, width)


def _print_findings(console: Console, findings: Iterable[Finding], width: int) -> None:
    for finding in findings:
        console.print(Text.assemble(("the paper: ", "bold"), finding.claim), width=width)
        console.print(Text.assemble(("found: ", "bold"), finding.found), width=width)
        console.print(Text(f"  {finding.command}", style="dim"))


def _style(verdict: str) -> str:
    return "red" if verdict == DIFFERS else "green"


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
    line = Text.assemble(
        ("verdict: ", "bold"), (verdict, _style(verdict)), f": {reproduction.reason}"
    )
    console.print(line, width=width)
    if reproduction.note:
        console.print(Text(reproduction.note, style="dim"), width=width)
    _print_findings(console, reproduction.findings, width)
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
    print_table(console, table)


def _print_table(console: Console, content: Table) -> None:
    table = plain_table()
    for k, heading in enumerate(content.headings):
        table.add_column(heading, justify="right" if k else "left", no_wrap=k > 0)
    for row in content.rows:
        table.add_row(*row)
    console.print(Text(content.caption))
    print_table(console, table)

"""Tables of an audit: a sentence for each verdict, then the numbers of every user."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.text import Text

from fairlead.model.ties import largest_first, smallest_first
from fairlead.model.verdict import Verdict
from fairlead.properties.audit import Audit
from fairlead.report.numbers import amount, counted, number, percent, printable
from fairlead.report.terminal import (
    finished,
    open_console,
    plain_table,
    print_omission,
    print_table,
    rows_to_show,
    size_of,
)

MARKS = {"holds": ("✓", "green"), "fails": ("✗", "red"), "unknown": ("?", "yellow")}
# Shares closer than this (relative) to the fair one are fair.
FAIR = 0.01
NAMED = 5


def audit_tables(audit: Audit, *, width: int | None, plain: bool) -> str:
    """Say which properties hold, in a sentence each, and what every user holds, for a terminal.

    The other arguments and what it returns are as in `fairlead.report.tables.allocation_tables`.
    """
    console, buffer = open_console(width, plain)
    title = f"audit of {printable(audit.subject.name)}: {size_of(audit.subject.problem)}"
    console.print(Text(title, style="bold"))
    for verdict in audit:
        if verdict.applies:
            console.print(verdict_line(verdict), soft_wrap=width is None)
    for verdict in audit:
        if not verdict.applies:
            console.print(verdict_line(verdict), style="dim", soft_wrap=width is None)
    _print_users(console, audit, width)
    if audit.fair is not None:
        _print_over_and_under(console, audit)
    skipped = audit.subject.holdings.skipped
    if skipped:
        console.print(Text(f"skipped: {counted(len(skipped), 'row')}", style="yellow"))
    return finished(buffer)


def verdict_line(verdict: Verdict) -> Text:
    """Put a verdict into a line: a mark, the property, the sentence."""
    mark, colour = MARKS[verdict.verdict]
    if not verdict.applies:
        mark, colour = "–", "dim"
    said = {"holds": "holds", "fails": "FAILS", "unknown": "unknown"}[verdict.verdict]
    return Text.assemble(
        (f"{mark} ", colour),
        (f"{verdict.name:25}", "bold" if verdict.applies else ""),
        (f"{said:8}", colour),
        printable(verdict.sentence),
    )


def _print_users(console: Console, audit: Audit, width: int | None) -> None:
    problem, holdings = audit.subject.problem, audit.subject.holdings
    rows = rows_to_show(problem.n_users, holdings.dominant_share, width)
    weighted = bool((problem.weight != problem.weight[0]).any())
    waits = any(audit.waiting)
    headings = ["tasks", *(["waiting"] if waits else []), "share", "slice", "margin"]
    if audit.fair is not None:
        headings += ["fair tasks", "fair share", "over/under"]
    figures = ["weight", *headings] if weighted else headings
    words = ["envies", *(["holds"] if audit.subject.divide is None else [])]
    lines: list[list[str]] = []
    for n in rows:
        tasks, sliced = float(holdings.user_tasks[n]), float(audit.slices[n])
        cells = [number(float(problem.weight[n]))] if weighted else []
        cells += [number(tasks), *([f"{audit.waiting[n]:,}"] if waits else [])]
        cells += [percent(float(holdings.dominant_share[n])), number(sliced)]
        cells.append(_signed(tasks / sliced - 1.0) if sliced > 0 else "")
        if audit.fair is not None:
            fair = float(audit.fair.dominant_share[n])
            cells += [number(float(audit.fair.user_tasks[n])), percent(fair)]
            cells.append(_signed(float(holdings.dominant_share[n]) / fair - 1.0))
        m, envied = int(audit.envy.envied[n]), ""
        if audit.envious[n]:
            envied = f"{problem.users.names[m]}: {number(float(audit.envy.could[n]))} tasks"
        names = [envied, *([_held(audit, n)] if audit.subject.divide is None else [])]
        lines.append([*cells, *names])
    shown = [problem.users.names[n] for n in rows]
    table = plain_table()
    table.add_column("user", overflow="fold")
    for k, heading in enumerate([*figures, *words]):
        table.add_column(heading, justify="right" if k < len(figures) else "left")
    for name, line in zip(shown, lines, strict=True):
        table.add_row(Text(printable(name)), *(Text(printable(cell)) for cell in line))
    print_table(console, table)
    print_omission(console, problem.n_users, len(rows))
    prose = (
        "share: dominant share of the whole cluster. slice: the tasks that a user could run with "
        "its part of every server"
    )
    if audit.subject.holdings.whole_tasks:
        prose += "; tasks are whole, and who lacks less than one does not fall short of it"
    if audit.fair is not None and audit.subject.holdings.whole_tasks:
        prose += ". fair tasks are divisible; whole ones, placed one by one, may be far from them"
    console.print(Text(prose, style="dim"))


def _held(audit: Audit, n: int) -> str:
    """Say what a user holds of every resource."""
    cluster = audit.subject.problem.cluster
    amounts = audit.subject.holdings.user_amounts[n].tolist()
    return ", ".join(
        f"{resource} {amount(held, unit)}"
        for held, unit, resource in zip(amounts, cluster.units, cluster.resources, strict=True)
        if held != 0
    )


def _print_over_and_under(console: Console, audit: Audit) -> None:
    """Say who holds more and who less than its fair share."""
    assert audit.fair is not None
    names = audit.subject.problem.users.names
    off = audit.subject.holdings.dominant_share / audit.fair.dominant_share - 1.0
    for word, order, sign in (
        ("over", largest_first(1 + off), 1),
        ("under", smallest_first(1 + off), -1),
    ):
        those = [int(n) for n in order if sign * off[n] > FAIR]
        if not those:
            continue
        shown = ", ".join(f"{names[n]} ({_signed(float(off[n]))})" for n in those[:NAMED])
        more = f" and {len(those) - NAMED:,} more" if len(those) > NAMED else ""
        line = f"{word} the fair share by {audit.fair.mechanism}: {shown}{more}"
        console.print(Text(printable(line)))


def _signed(fraction: float) -> str:
    if not np.isfinite(fraction):
        return ""
    if abs(fraction) < 1e-4:
        return "0 %"
    return f"{100 * fraction:+,.1f} %"

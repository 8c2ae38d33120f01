"""Tables for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fairlead.mechanisms.catalogue import Mechanism
from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from fairlead.report.holdings import holds, where_text
from fairlead.report.numbers import counted, number, percent, printable

# A table on a terminal keeps to about one screen; into a pipe or file it is complete.
ROWS_ON_TERMINAL = 40
GROUPS_ON_TERMINAL = 3
WIDTH_OF_PIPE = 100_000
WIDTH_OF_PROSE = 100
WIDTH_OF_NAME = 14
WIDTH_OF_FIGURE = 11


def allocation_tables(allocation: Allocation, *, width: int | None, plain: bool) -> str:
    """Say who gets what, where, how much of everything is used, and why this is the answer.

    Parameters
    ----------
    allocation : Allocation
        The answer.
    width : int or None
        Columns of the terminal; None into a pipe or file, where no line is folded and no user is
        left out.
    plain : bool
        Whether to do without colours and bold type.

    Returns
    -------
    str
        The text, with its final newline.
    """
    console, buffer = _console(width, plain)
    problem = allocation.problem
    rows = _rows_to_show(problem.n_users, allocation.dominant_share, width)
    table = _table()
    table.add_column("user", overflow="fold", min_width=8)
    for heading in ("weight", "tasks"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("dominant", overflow="fold")
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("where", overflow="fold", ratio=1 if width else None)
    where = holds(allocation)
    most = None if width is None else GROUPS_ON_TERMINAL
    for n in rows:
        table.add_row(
            Text(printable(problem.users.names[n])),
            number(float(problem.weight[n])),
            number(float(allocation.user_tasks[n])),
            Text(printable(allocation.dominant_resource[n])),
            percent(float(allocation.dominant_share[n])),
            Text(printable(where_text(allocation, n, where[n], most))),
        )
    console.print(Text(f"{allocation.mechanism}: {_size(problem)}", style="bold"))
    console.print(table)
    _print_omission(console, problem.n_users, len(rows))
    console.print(_utilization_table(allocation))
    _print_certificate(console, allocation)
    return _finished(buffer)


def comparison_tables(
    answers: Mapping[str, Allocation],
    refused: Mapping[str, str],
    *,
    width: int | None,
    plain: bool,
) -> str:
    """Set the tasks of every user under several mechanisms side by side.

    Parameters
    ----------
    answers : mapping of str to Allocation
        The answers by mechanism, of one problem; at least one.
    refused : mapping of str to str
        Why the other mechanisms have no answer.
    width, plain
        As in `allocation_tables`.
    """
    console, buffer = _console(width, plain)
    allocations = list(answers.values())
    problem = allocations[0].problem
    largest = np.max([allocation.dominant_share for allocation in allocations], axis=0)
    rows = _rows_to_show(problem.n_users, largest, width)
    largest_problem = max((a.problem for a in allocations), key=lambda p: p.n_groups)
    title = f"{counted(len(answers), 'mechanism')}: {_size(largest_problem)}"
    console.print(Text(title, style="bold"))
    names = list(answers)
    side_by_side = _columns_that_fit(len(names), width)
    for start in range(0, len(names), side_by_side):
        part = {name: answers[name] for name in names[start : start + side_by_side]}
        console.print(_comparison_table(part, rows, width))
    _print_omission(console, problem.n_users, len(rows))
    prose = (
        "share: dominant share of the whole cluster, divided by the user's weight. "
        "violation: how far the answer misses the condition that proves it, relative."
    )
    console.print(Text(prose, style="dim"), width=min(width or WIDTH_OF_PROSE, WIDTH_OF_PROSE))
    for name, reason in refused.items():
        console.print(Text(f"no answer from {name}: {printable(reason)}", style="yellow"))
    return _finished(buffer)


def catalogue_text(rows: Iterable[Mechanism], *, width: int | None, plain: bool) -> str:
    """Describe the mechanisms: idea, paper, what is proved, what is accepted, kind of tasks."""
    console, buffer = _console(min(width or WIDTH_OF_PROSE, WIDTH_OF_PROSE), plain)
    for row in rows:
        console.print(Text.assemble((row.name, "bold"), f"  {row.summary}"))
        details = Table(box=None, show_header=False, pad_edge=False)
        details.add_column(style="dim", no_wrap=True)
        details.add_column(overflow="fold")
        details.add_row("paper", Text(row.paper))
        details.add_row("proved", ", ".join(row.proved) or "nothing")
        details.add_row("accepts", ", ".join(("weights", "zero demands", *row.accepts)))
        details.add_row("tasks", "whole" if row.whole_tasks else "divisible")
        console.print(Padding(details, (0, 0, 1, 4)))
    return _finished(buffer)


def _console(width: int | None, plain: bool) -> tuple[Console, StringIO]:
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


def _table(**options: Any) -> Table:
    return Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", **options)


def _columns_that_fit(n: int, width: int | None) -> int:
    """Return how many of `n` mechanisms go into one table, so that the tables are alike."""
    if width is None:
        return n
    tables = -(-n // max(1, (width - WIDTH_OF_NAME) // WIDTH_OF_FIGURE))
    return -(-n // tables)


def _comparison_table(
    answers: Mapping[str, Allocation], rows: Sequence[int], width: int | None
) -> Table:
    """Set users against as many mechanisms as fit side by side."""
    allocations = list(answers.values())
    problem = allocations[0].problem
    table = _table()
    table.add_column("tasks", overflow="fold", min_width=8)
    for name in answers:
        table.add_column(_heading(name, width), justify="right", no_wrap=True)
    for n in rows:
        user = Text(printable(problem.users.names[n]))
        table.add_row(user, *(number(float(a.user_tasks[n])) for a in allocations))
    table.add_section()
    for resource in problem.cluster.resources:
        used = (percent(a.utilization[resource]) for a in allocations)
        table.add_row(Text(f"{printable(resource)} used"), *used)
    table.add_section()
    for label, summary in (("least share", np.min), ("mean share", np.mean)):
        shares = (percent(float(summary(a.dominant_share / a.problem.weight))) for a in allocations)
        table.add_row(label, *shares)
    table.add_section()
    table.add_row("violation", *(f"{a.certificate.violation:.1g}" for a in allocations))
    return table


def _heading(name: str, width: int | None) -> str:
    """Fold a long name at its last hyphen where columns are scarce."""
    head, _, tail = name.rpartition("-")
    return f"{head}-\n{tail}" if width is not None and head and len(name) > 6 else name


def _finished(buffer: StringIO) -> str:
    """Return what was printed, without the spaces that fill up lines."""
    return "".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines())


def _size(problem: Problem) -> str:
    servers = int(problem.count.sum())
    users = counted(problem.n_users, "user")
    if problem.cluster.groups == ("pool",):
        return f"{users} on one pool of all servers"
    return f"{users} on {counted(servers, 'server')} in {counted(problem.n_groups, 'group')}"


def _rows_to_show(n_users: int, size: np.ndarray[Any, Any], width: int | None) -> list[int]:
    """Return whom to list: everybody into a pipe, else the largest, in the file's order."""
    if width is None or n_users <= ROWS_ON_TERMINAL:
        return list(range(n_users))
    largest = np.argsort(-size, kind="stable")[:ROWS_ON_TERMINAL]
    return sorted(int(n) for n in largest)


def _print_omission(console: Console, n_users: int, shown: int) -> None:
    if shown < n_users:
        rest = f"... and {n_users - shown:,} users with smaller shares"
        console.print(Text(f"{rest} (all of them: --json, --report, or into a pipe)", style="dim"))


def _utilization_table(allocation: Allocation) -> Table:
    table = _table()
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


def _print_certificate(console: Console, allocation: Allocation) -> None:
    certificate = allocation.certificate
    verdict = "holds" if certificate.holds else "DOES NOT HOLD"
    console.print(
        Text.assemble(
            ("proof: ", "bold"),
            f"{certificate.condition}: ",
            (verdict, "green" if certificate.holds else "red"),
            f" (violation {certificate.violation:.1e}, tolerance {certificate.tolerance:.0e})",
        )
    )

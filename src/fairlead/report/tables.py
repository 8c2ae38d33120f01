"""Tables for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fairlead.mechanisms.mechanism import Mechanism
from fairlead.model.allocation import Allocation
from fairlead.report.holdings import holds, where_text
from fairlead.report.numbers import counted, number, percent, printable
from fairlead.report.terminal import (
    WIDTH_OF_PROSE,
    finished,
    open_console,
    plain_table,
    print_certificate,
    print_omission,
    print_table,
    rows_to_show,
    size_of,
    utilization_table,
)

GROUPS_ON_TERMINAL = 3
WIDTH_OF_NAME = 14
WIDTH_OF_FIGURE = 11


def allocation_tables(allocation: Allocation, *, width: int | None, plain: bool) -> str:
    """Say who gets what, where, how much of everything is used, and why this is the answer.

    Parameters
    ----------
    allocation : Allocation
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
    console, buffer = open_console(width, plain)
    console.print(Text(f"{allocation.mechanism}: {size_of(allocation.problem)}", style="bold"))
    print_users(console, allocation, width)
    print_table(console, utilization_table(allocation))
    print_certificate(console, allocation.certificate)
    return finished(buffer)


def print_users(console: Console, allocation: Allocation, width: int | None) -> None:
    """Say who gets what, and where; the largest users where a terminal has not room for all."""
    problem = allocation.problem
    rows = rows_to_show(problem.n_users, allocation.dominant_share, width)
    table = plain_table()
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
    print_table(console, table)
    print_omission(console, problem.n_users, len(rows))


def comparison_tables(
    answers: Mapping[str, Allocation],
    refused: Mapping[str, str],
    *,
    width: int | None,
    plain: bool,
) -> str:
    """Set the tasks of every user under several mechanisms side by side, at least one.

    `refused` says why the other mechanisms have no answer; the other arguments are as in
    `allocation_tables`.
    """
    console, buffer = open_console(width, plain)
    allocations = list(answers.values())
    problem = allocations[0].problem
    largest = np.max([allocation.dominant_share for allocation in allocations], axis=0)
    rows = rows_to_show(problem.n_users, largest, width)
    largest_problem = max((a.problem for a in allocations), key=lambda p: p.n_groups)
    title = f"{counted(len(answers), 'mechanism')}: {size_of(largest_problem)}"
    console.print(Text(title, style="bold"))
    names = list(answers)
    side_by_side = _columns_that_fit(len(names), width)
    for start in range(0, len(names), side_by_side):
        part = {name: answers[name] for name in names[start : start + side_by_side]}
        print_table(console, _comparison_table(part, rows, width))
    print_omission(console, problem.n_users, len(rows))
    prose = (
        "share: dominant share of the whole cluster, divided by the user's weight. "
        "violation: how far the answer misses the condition that proves it, relative."
    )
    console.print(Text(prose, style="dim"), width=min(width or WIDTH_OF_PROSE, WIDTH_OF_PROSE))
    for name, reason in refused.items():
        console.print(Text(f"no answer from {name}: {printable(reason)}", style="yellow"))
    return finished(buffer)


def catalogue_text(rows: Iterable[Mechanism], *, width: int | None, plain: bool) -> str:
    """Describe the mechanisms: idea, paper, what is proved, what is accepted, kind of tasks."""
    console, buffer = open_console(min(width or WIDTH_OF_PROSE, WIDTH_OF_PROSE), plain)
    for row in rows:
        console.print(Text.assemble((row.name, "bold"), f"  {row.summary}"))
        details = Table(box=None, show_header=False, pad_edge=False)
        details.add_column(style="dim", no_wrap=True)
        details.add_column(overflow="fold")
        details.add_row("paper", Text(row.paper))
        details.add_row("proved", "; ".join(map(str, row.proved)) or "nothing")
        if row.refuted:
            details.add_row("refuted", "; ".join(map(str, row.refuted)))
        details.add_row("accepts", ", ".join(("weights", "zero demands", *row.accepts)))
        details.add_row("tasks", "whole" if row.whole_tasks else "divisible")
        console.print(Padding(details, (0, 0, 1, 4)))
    return finished(buffer)


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
    table = plain_table()
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

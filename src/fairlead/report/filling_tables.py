"""Tables of whole tasks: of one filling, and of the means of several."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.text import Text

from fairlead.report.numbers import counted, number, percent, printable, spread
from fairlead.report.tables import print_users
from fairlead.report.terminal import (
    ROWS_ON_TERMINAL,
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
from fairlead.scheduler.trials import Summary, Trials

# Beyond this many rows, means are not listed group by group even into a pipe.
ROWS_IN_PIPE = 2000


def filling_tables(trials: Trials, *, width: int | None, plain: bool) -> str:
    """Say who got how many tasks where, what is left unused, and why this is the answer.

    Of several trials, the means are shown with how far they vary. The other arguments and what it
    returns are as in `fairlead.report.tables.allocation_tables`.
    """
    console, buffer = open_console(width, plain)
    console.print(Text(_title(trials), style="bold"))
    if trials.varies:
        _print_means(console, trials, width)
    else:
        print_users(console, trials.allocation, width)
    print_table(console, utilization_table(trials.allocation))
    _print_unused(console, trials, width)
    print_certificate(console, trials.certificate)
    note = _note(trials)
    if note:
        console.print(Text(note, style="dim"), width=min(width or WIDTH_OF_PROSE, WIDTH_OF_PROSE))
    return finished(buffer)


def _title(trials: Trials) -> str:
    title = f"{trials.policy.name}: {size_of(trials.problem)}"
    return f"{title}, means of {counted(trials.trials, 'trial')}" if trials.varies else title


def _note(trials: Trials) -> str:
    """Say what the reader of the numbers has to know of chance."""
    if trials.varies:
        return (
            f"±: the mean lies so close with 95 % confidence (Student's t). sd: standard deviation "
            f"of one trial. Seed {trials.seed}."
        )
    if trials.policy.is_random:
        return (
            f"One trial of a random policy, seed {trials.seed}; --trials 200 tells how far "
            "another may differ."
        )
    if trials.trials > 1:
        return "Nothing here is random: every trial gives this, and it was computed once."
    return ""


def _print_means(console: Console, trials: Trials, width: int | None) -> None:
    """List the means, on every group as far as a terminal has room for that."""
    problem = trials.problem
    held = trials.tasks.mean > 0
    most = ROWS_IN_PIPE if width is None else ROWS_ON_TERMINAL
    by_group = int(held.sum()) + problem.n_users <= most
    rows = rows_to_show(problem.n_users, trials.allocation.dominant_share, width)
    table = plain_table()
    table.add_column("user", overflow="fold", min_width=8)
    if by_group:
        table.add_column("on", overflow="fold")
    for heading in ("tasks", "±", "sd"):
        table.add_column(heading, justify="right", no_wrap=True)
    for n in rows:
        name = Text(printable(problem.users.names[n]))
        groups = np.flatnonzero(held[n]).tolist() if by_group else []
        for g in groups:
            group = Text(printable(problem.cluster.groups[g]))
            table.add_row(name, group, *_cells(trials.tasks, n, g))
            name = Text("")
        if len(groups) != 1:
            where = ("all",) if by_group else ()
            table.add_row(name, *where, *_cells(trials.user_tasks, n))
    table.add_section()
    table.add_row("everybody", *(("all",) if by_group else ()), *_cells(trials.total))
    print_table(console, table, keys=1 + by_group)
    print_omission(console, problem.n_users, len(rows))
    if not by_group:
        console.print(Text("on all servers; group by group: --json, --report", style="dim"))


def _print_unused(console: Console, trials: Trials, width: int | None) -> None:
    """List what nobody holds of each resource on each group, as far as there is any to hold."""
    problem = trials.problem
    cluster = problem.cluster
    capacity = problem.group_capacity
    present = np.argwhere(capacity > 0)
    share = trials.unused.mean[capacity > 0] / capacity[capacity > 0]
    table = plain_table()
    table.add_column("group", overflow="fold", min_width=8)
    table.add_column("resource", overflow="fold")
    for heading in ("left over", *(("±", "sd") if trials.varies else ()), "of", "share"):
        table.add_column(heading, justify="right", no_wrap=True)
    shown = rows_to_show(len(present), share, width)
    last = -1
    for k in shown:
        g, r = present[k].tolist()
        table.add_row(
            Text(printable(cluster.groups[g]) if g != last else ""),
            Text(printable(cluster.resources[r])),
            *_cells(trials.unused, g, r)[: 3 if trials.varies else 1],
            number(float(capacity[g, r])),
            percent(float(share[k])),
        )
        last = g
    print_table(console, table, keys=2)
    if len(shown) < len(present):
        rest = f"... and {len(present) - len(shown):,} with smaller shares left over"
        console.print(Text(rest, style="dim"))


def _cells(summary: Summary, *index: int) -> tuple[str, str, str]:
    """Write a mean, its margin and the deviation."""
    margin, sd = (
        "" if v is None else spread(float(v[index])) for v in (summary.margin, summary.sd)
    )
    return number(float(summary.mean[index])), margin, sd

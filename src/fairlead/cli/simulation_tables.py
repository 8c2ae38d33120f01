"""What policies did with a trace, as tables for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from fairlead.report.numbers import counted, percent, printable
from fairlead.report.simulation_sentences import got_nothing, unrecorded
from fairlead.report.simulation_standing import is_overfull, what_cannot_run
from fairlead.report.terminal import (
    WIDTH_OF_PROSE,
    finished,
    open_console,
    plain_table,
    print_table,
)
from fairlead.report.times import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fairlead.metrics.comparison import Comparison
    from fairlead.metrics.outcomes import Outcome
    from fairlead.model.workload import Workload

MOST_JOBS_NAMED = 5
MOST_USERS_NAMED = 10


def simulation_tables(
    workload: Workload,
    outcomes: Mapping[str, Outcome],
    sharing: Comparison | None,
    *,
    title: str,
    width: int | None,
    plain: bool,
) -> str:
    """Set policies side by side.

    Parameters
    ----------
    workload : Workload
        What was replayed, before any change.
    outcomes : mapping of str to Outcome
        What each policy did.
    sharing : Comparison or None
        The shared cluster against dedicated parts of it, if that was asked for.
    title : str
        The trace.
    width, plain
        As in `fairlead.report.tables.allocation_tables`.

    Returns
    -------
    str
        The text, with its final newline.
    """
    console, buffer = open_console(width, plain)
    console.print(Text(printable(title), style="bold"))
    console.print(Text(_size(workload)))
    figures = {name: outcome.to_dict() for name, outcome in outcomes.items()}
    print_table(console, _table(figures, workload.cluster.resources))
    first = next(iter(figures.values()))
    horizon, arrivals = duration(first["horizon"]["time"]), duration(first["arrivals_until"])
    console.print(
        Text(
            "completed, unplaceable: tasks. completion, wait: of jobs completed, from submission "
            "to the end of the last task, and to the start of the first. "
            f"used: in the first {horizon}. "
            "fairness error: how far dominant shares are from the exact fair ones, relative, "
            f"in the first {arrivals}, in which jobs come.",
            style="dim",
        ),
        width=min(width or WIDTH_OF_PROSE, WIDTH_OF_PROSE),
    )
    _show_users(console, figures)
    for name, found in figures.items():
        what, who = got_nothing(found, workload.n_users, duration)
        style = "yellow" if found["got_nothing"] else ""
        console.print(Text(printable(f"{what} ({name}): {who}"), style=style))
        if found["unrecorded"]:
            line = f"not known when they ran, and counted nowhere ({name}): {unrecorded(found)}"
            if len(figures) > 1:
                line += "; its figures and its fairness error do not compare with the others'"
            console.print(Text(printable(line), style="yellow"))
        if is_overfull(outcomes[name]):
            line = f"more ran at times than the servers of the trace hold ({name})"
            console.print(Text(f"{line}: use and shares pass 100 %", style="yellow"))
    for line in _unplaceable(outcomes):
        console.print(Text(line, style="yellow"))
    if sharing is not None:
        console.print(Text(_sharing(sharing)))
    return finished(buffer)


def _size(workload: Workload) -> str:
    counts = (
        counted(workload.n_servers, "server"),
        counted(workload.n_users, "user"),
        counted(workload.n_jobs, "job"),
        counted(workload.n_tasks, "task"),
    )
    return f"{', '.join(counts)} over {duration(workload.span)}"


def _table(figures: Mapping[str, Mapping[str, Any]], resources: Sequence[str]) -> Table:
    table = plain_table()
    table.add_column("policy", overflow="fold", min_width=12)
    headings = ["completed", "unplaceable", "makespan", "completion", "wait"]
    headings += [f"{printable(resource)} used" for resource in resources]
    for heading in (*headings, "fairness error"):
        table.add_column(Text(heading), justify="right", overflow="fold")
    for name, found in figures.items():
        utilization = [found["horizon"]["utilization"][resource] for resource in resources]
        table.add_row(
            Text(printable(name)),
            f"{found['completed']:,}",
            f"{found['unplaceable']:,}",
            _seconds(found["makespan"]),
            _seconds(found["mean_completion_time"]),
            _seconds(found["mean_wait"]),
            *map(_share, utilization),
            _share(found["fairness_error"]),
        )
    return table


def _show_users(console: Console, figures: Mapping[str, Mapping[str, Any]]) -> None:
    """List the users who wait longest under any policy."""
    users = next(iter(figures.values()))["users"]
    waits = {
        user: [found["users"][user]["mean_wait"] for found in figures.values()] for user in users
    }
    longest = {
        user: max((w for w in row if w is not None), default=0) for user, row in waits.items()
    }
    listed = sorted((user for user in users if longest[user] > 0), key=lambda u: -longest[u])
    if not listed:
        return
    table = plain_table()
    table.add_column("mean wait by user", overflow="fold", min_width=12)
    for heading in ("jobs", *figures):
        table.add_column(Text(printable(heading)), justify="right", overflow="fold")
    for user in listed[:MOST_USERS_NAMED]:
        jobs = f"{users[user]['jobs']:,}"
        table.add_row(Text(printable(user)), jobs, *map(_seconds, waits[user]))
    print_table(console, table)
    more = len(listed) - MOST_USERS_NAMED
    if more > 0:
        rest = f"not listed (--json): {counted(more, 'user')} with shorter or equal waits"
        console.print(Text(rest, style="dim"))


def _seconds(value: float | None) -> str:
    return "-" if value is None else duration(value)


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value)


def _unplaceable(outcomes: Mapping[str, Outcome]) -> list[str]:
    """Say which jobs could run nowhere, once for all policies with which they are the same."""
    lines = []
    for found in what_cannot_run(outcomes):
        named = ", ".join(map(printable, found.jobs[:MOST_JOBS_NAMED]))
        more = len(found.jobs) - MOST_JOBS_NAMED
        rest = f" and {more:,} more (--json)" if more > 0 else ""
        where = "" if found.everywhere else f" ({'; '.join(map(printable, found.names))})"
        lines.append(
            f"too large for the servers they may use, or their gang is{where}: "
            f"{counted(found.tasks, 'task')} of {counted(len(found.jobs), 'job')}: {named}{rest}"
        )
    return lines


def _sharing(sharing: Comparison) -> str:
    users = int((~np.isnan(sharing.horizon_difference)).sum())
    fewer = int((sharing.horizon_difference < 0).sum())
    compared, slower = int((sharing.jobs > 0).sum()), int((sharing.lost & (sharing.jobs > 0)).sum())
    return (
        f"shared against dedicated servers: fewer tasks done after {duration(sharing.horizon)} for "
        f"{fewer:,} of {counted(users, 'user')}, slower jobs on average for {slower:,} of "
        f"{compared:,}"
    )

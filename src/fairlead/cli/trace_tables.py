"""The figures of a trace as tables for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fairlead.report.numbers import amount, counted, number, percent, printable
from fairlead.report.terminal import finished, open_console, plain_table, print_table
from fairlead.report.times import duration

if TYPE_CHECKING:
    from rich.console import Console

MOST_GROUPS = 30
MOST_JOBS_NAMED = 5
# A first job that comes later, of the whole time, is remarked on.
LATE = 0.01


def trace_tables(figures: Mapping[str, Any], *, width: int | None, plain: bool) -> str:
    """Say what is in a trace.

    Parameters
    ----------
    figures : mapping
        From `fairlead.traces.summary.summarize`, with ``trace`` and ``format``.
    width, plain
        As in `fairlead.report.tables.allocation_tables`.

    Returns
    -------
    str
        The text, with its final newline.
    """
    console, buffer = open_console(width, plain)
    title = f"{printable(figures['trace'])}: {figures['format']}"
    console.print(Text(title, style="bold"))
    console.print(Text(printable(figures["origin"])))
    console.print(Text(_counts(figures)))
    _print_machines(console, figures)
    _print_quantiles(console, figures)
    for line in _remarks(figures):
        console.print(Text(line))
    return finished(buffer)


def _counts(figures: Mapping[str, Any]) -> str:
    counts = [
        counted(figures["users"], "user"),
        counted(figures["jobs"], "job"),
        counted(figures["tasks"], "task"),
    ]
    gangs = f" ({figures['gangs']:,} of the jobs start as gangs)" if figures["gangs"] else ""
    return f"{', '.join(counts)}{gangs} over {duration(figures['span'])}"


def _print_machines(console: Console, figures: Mapping[str, Any]) -> None:
    table = plain_table()
    table.add_column("servers", overflow="fold")
    table.add_column("count", justify="right", no_wrap=True)
    units = {resource: asked["unit"] for resource, asked in figures["demand"].items()}
    for resource, unit in units.items():
        heading = f"{resource} ({unit})" if unit else resource
        table.add_column(Text(printable(heading)), justify="right")
    groups = sorted(figures["groups"], key=lambda group: -group["count"])
    for group in groups[:MOST_GROUPS]:
        amounts = [number(group["capacity"][resource]) for resource in units]
        table.add_row(Text(printable(group["name"])), f"{group['count']:,}", *amounts)
    print_table(console, table)
    if len(groups) > MOST_GROUPS:
        rest = sum(group["count"] for group in groups[MOST_GROUPS:])
        console.print(
            Text(f"... and {rest:,} servers in {len(groups) - MOST_GROUPS:,} more groups (--json)")
        )


def _print_quantiles(console: Console, figures: Mapping[str, Any]) -> None:
    table = plain_table()
    table.add_column("quantiles", overflow="fold")
    percents = list(figures["duration"])
    words = {"0": "least", "50": "median", "100": "most"}
    for quantile in percents:
        table.add_column(words.get(quantile, f"{quantile} %"), justify="right", no_wrap=True)
    for resource, asked in figures["demand"].items():
        relative = asked["unit"].startswith("of ")
        largest = "" if relative else f" ({amount(asked['largest_server'], asked['unit'])})"
        label = f"{printable(resource)} of a task, of the largest server{largest}"
        table.add_row(Text(label), *(percent(share) for share in asked["quantiles"].values()))
    table.add_row("duration of a task", *(duration(s) for s in figures["duration"].values()))
    table.add_row("tasks of a job", *(number(n) for n in figures["tasks_per_job"].values()))
    print_table(console, table)


def _remarks(figures: Mapping[str, Any]) -> list[str]:
    loads = ", ".join(
        f"{percent(load)} of {printable(resource)}"
        for resource, load in figures["load"].items()
        if load is not None
    )
    lines = []
    if figures["first_submission"] > LATE * figures["span"]:
        first = duration(figures["first_submission"])
        lines.append(f"the first job comes after {first}, which count as time of the trace")
    if loads:  # not if no time passes
        lines.append(f"all tasks together take {loads} that all servers have in that time")
    lines.append(f"tasks kept to some of the servers: {percent(figures['constrained_tasks'])}")
    too_large = figures["too_large"]
    if too_large["tasks"]:
        named = ", ".join(map(printable, too_large["jobs"][:MOST_JOBS_NAMED]))
        more = len(too_large["jobs"]) - MOST_JOBS_NAMED
        rest = f" and {more:,} more (--json)" if more > 0 else ""
        lines.append(
            "tasks larger than every server they may use, or of gangs larger than all of these: "
            f"{too_large['tasks']:,}, of "
            f"{counted(len(too_large['jobs']), 'job')}: {named}{rest}"
        )
    if figures["withdrawn"]:
        lines.append(f"jobs that their users withdraw: {figures['withdrawn']:,}")
    if figures["limited"]:
        lines.append(f"jobs that say for how long they run at the most: {figures['limited']:,}")
    events = [f"{count:,} {name}" for name, count in figures["server_events"].items() if count]
    if events:
        there = f"{figures['servers_at_start']:,} of {figures['servers']:,} servers at the start"
        lines.append(f"{there}; events of servers: {', '.join(events)}")
    lines += [f"{printable(what)}: {count:,}" for what, count in figures["notes"].items()]
    return lines

"""Documents of traces: servers, demands and durations of a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from fairlead.report.document import Block, Document, Listing, Prose, numbers, table_of, words
from fairlead.report.numbers import amount, counted, duration, named, number, percent

MOST_GROUPS = 30
JOBS_NAMED = 5
LATE = 0.01  # fraction of the span; a later first job is noted
_QUANTILES = {"0": "least", "50": "median", "100": "most"}


def trace_document(figures: Mapping[str, Any]) -> Document:
    """Return the document of a trace, from the figures of `summarize`, its name and format."""
    kind, origin = figures["format"], figures["origin"]
    # Most origins start with the name of the format, which is not repeated then.
    names_format = origin.casefold().startswith(kind.casefold().split()[0])
    lead = origin if names_format else f"{kind}. {origin}".rstrip()
    title = PurePath(figures["trace"]).name or figures["trace"]
    return Document(title, "a trace", lead, None, list(_blocks(figures)), lambda: figures)


def _blocks(figures: Mapping[str, Any]) -> Iterator[Block]:
    """Yield the sizes, the servers, quantiles of demands and durations, and remarks."""
    gangs = f" ({counted(figures['gangs'], 'gang')})" if figures["gangs"] else ""
    counts = [counted(figures[f"{noun}s"], noun) for noun in ("user", "job", "task")]
    begin = figures["start_date"]
    since = f", from {begin.replace('T', ' ')} by its clock" if begin else ""
    yield Prose(f"{', '.join(counts)}{gangs} over {duration(figures['span'])}{since}")
    units = {resource: demand["unit"] for resource, demand in figures["demand"].items()}
    groups = sorted(figures["groups"], key=lambda group: -group["count"])
    servers = [
        [
            group["name"],
            f"{group['count']:,}",
            *(number(group["capacity"][resource]) for resource in units),
        ]
        for group in groups[:MOST_GROUPS]
    ]
    labels = [f"{resource} ({unit})" if unit else resource for resource, unit in units.items()]
    left = len(groups) - len(servers)
    yield table_of(
        "Servers",
        [*words("group of servers"), *numbers("count", *labels)],
        servers,
        note=f"... and {left:,} more groups of fewer servers (all: --json)" if left else "",
    )
    quantiles = [_QUANTILES.get(q, f"{q} %") for q in figures["duration"]]
    rows = []
    for resource, demand in figures["demand"].items():
        relative = demand["unit"].startswith("of ")
        largest = "" if relative else f" ({amount(demand['largest_server'], demand['unit'])})"
        label = f"{resource} of a task, of the largest server{largest}"
        rows.append([label, *map(percent, demand["quantiles"].values())])
    rows.append(["duration of a task", *map(duration, figures["duration"].values())])
    rows.append(["tasks of a job", *map(number, figures["tasks_per_job"].values())])
    yield table_of("Quantiles", [*words("quantiles"), *numbers(*quantiles)], rows)
    yield Listing(list(_remarks(figures)))


def _remarks(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on loads, constraints, limits, server events and notes."""
    span = duration(figures["span"])
    if figures["first_submission"] > LATE * figures["span"]:
        first = duration(figures["first_submission"])
        yield f"The first job arrives after {first}; this time counts as part of the trace"
    loads = [
        f"{percent(load)} of {resource}"
        for resource, load in figures["load"].items()
        if load is not None  # None for a span of 0
    ]
    if loads:
        yield f"All tasks together take {', '.join(loads)} of all servers over {span}"
    yield f"Tasks with a placement constraint: {percent(figures['constrained_tasks'])}"
    too_large = figures["too_large"]
    if too_large["tasks"]:
        yield (
            "Tasks that fit no server that they may use, or of gangs that do not fit all these "
            "servers together: "
            f"{too_large['tasks']:,}, of {counted(len(too_large['jobs']), 'job')}: "
            f"{named(too_large['jobs'], JOBS_NAMED)}"
        )
    if figures["withdrawn"]:
        yield f"Jobs that their users withdraw: {figures['withdrawn']:,}"
    if figures["limited"]:
        yield f"Jobs with a time limit: {figures['limited']:,}"
    events = [f"{count:,} {name}" for name, count in figures["server_events"].items() if count]
    if events:
        servers = counted(figures["servers"], "server")
        there = f"{figures['servers_at_start']:,} of {servers} at the start"
        yield f"{there}; events of servers: {', '.join(events)}"
    for what, count in figures["notes"].items():
        yield f"{what[0].upper()}{what[1:]}: {count:,}"

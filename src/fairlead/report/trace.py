"""Documents of traces: what is in a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from fairlead.report.document import Block, Column, Document, Listing, Prose, table_of, words
from fairlead.report.numbers import amount, counted, duration, named, number, percent

MOST_GROUPS = 30
JOBS_NAMED = 5
# A first job that comes later, of the whole time, is remarked on.
LATE = 0.01
_QUANTILES = {"0": "least", "50": "median", "100": "most"}


def trace_document(figures: Mapping[str, Any]) -> Document:
    """Describe a trace.

    Parameters
    ----------
    figures : mapping
        From `fairlead.traces.trace_summary.summarize`, with ``trace`` and ``format``.
    """
    kind, origin = figures["format"], figures["origin"]
    # Most origins begin with the name of the format.
    named_there = origin.casefold().startswith(kind.casefold().split()[0])
    lead = origin if named_there else f"{kind}. {origin}".rstrip()
    title = PurePath(figures["trace"]).name or figures["trace"]
    return Document(title, "a trace", lead, None, list(_blocks(figures)), lambda: figures)


def _blocks(figures: Mapping[str, Any]) -> Iterator[Block]:
    start = "starts as a gang" if figures["gangs"] == 1 else "start as gangs"
    gangs = f" ({figures['gangs']:,} of the jobs {start})" if figures["gangs"] else ""
    counts = [counted(figures[f"{noun}s"], noun) for noun in ("user", "job", "task")]
    yield Prose(f"{', '.join(counts)}{gangs} over {duration(figures['span'])}")
    units = {resource: asked["unit"] for resource, asked in figures["demand"].items()}
    groups = sorted(figures["groups"], key=lambda group: -group["count"])
    servers = [
        [
            group["name"],
            f"{group['count']:,}",
            *(number(group["capacity"][resource]) for resource in units),
        ]
        for group in groups
    ]
    labels = [f"{resource} ({unit})" if unit else resource for resource, unit in units.items()]
    yield table_of(
        "Servers",
        [words("class of servers"), Column("count"), *map(Column, labels)],
        servers,
        each="class",
        rest="of fewer servers",
        on_terminal=MOST_GROUPS,
        in_pipe=MOST_GROUPS,
    )
    quantiles = [_QUANTILES.get(q, f"{q} %") for q in figures["duration"]]
    rows = []
    for resource, asked in figures["demand"].items():
        relative = asked["unit"].startswith("of ")
        largest = "" if relative else f" ({amount(asked['largest_server'], asked['unit'])})"
        label = f"{resource} of a task, of the largest server{largest}"
        rows.append([label, *map(percent, asked["quantiles"].values())])
    rows.append(["duration of a task", *map(duration, figures["duration"].values())])
    rows.append(["tasks of a job", *map(number, figures["tasks_per_job"].values())])
    yield table_of("Quantiles", [words("quantiles"), *map(Column, quantiles)], rows)
    yield Listing([line[0].upper() + line[1:] for line in _remarks(figures)])


def _remarks(figures: Mapping[str, Any]) -> Iterator[str]:
    if figures["first_submission"] > LATE * figures["span"]:
        first = duration(figures["first_submission"])
        yield f"the first job comes after {first}, which count as time of the trace"
    loads = ", ".join(
        f"{percent(load)} of {resource}"
        for resource, load in figures["load"].items()
        if load is not None
    )
    if loads:  # not if no time passes
        span = duration(figures["span"])
        yield f"all tasks, to their ends, take {loads} that all servers have in those {span}"
    yield f"tasks kept to some of the servers: {percent(figures['constrained_tasks'])}"
    too_large = figures["too_large"]
    if too_large["tasks"]:
        more = " (all: --json)" if len(too_large["jobs"]) > JOBS_NAMED else ""
        yield (
            "tasks larger than every server they may use, or of gangs larger than all of these: "
            f"{too_large['tasks']:,}, of {counted(len(too_large['jobs']), 'job')}: "
            f"{named(too_large['jobs'], JOBS_NAMED)}{more}"
        )
    if figures["withdrawn"]:
        yield f"jobs that their users withdraw: {figures['withdrawn']:,}"
    if figures["limited"]:
        yield f"jobs that say for how long they run at the most: {figures['limited']:,}"
    events = [f"{count:,} {name}" for name, count in figures["server_events"].items() if count]
    if events:
        there = f"{figures['servers_at_start']:,} of {figures['servers']:,} servers at the start"
        yield f"{there}; events of servers: {', '.join(events)}"
    yield from (f"{what}: {count:,}" for what, count in figures["notes"].items())

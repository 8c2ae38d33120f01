"""Document of an audit of a log: users' holdings, fair shares, and breaches of limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fairlead.model.ties import largest_first
from fairlead.model.workload import Workload
from fairlead.report._policy_comparison import ROUNDED, extremes_text, short_name, short_time
from fairlead.report._simulation_figures import held_and_due_figure
from fairlead.report.document import (
    FAILS,
    HOLDS,
    MUTED,
    Block,
    Cell,
    Content,
    Document,
    Listing,
    Picture,
    Prose,
    Section,
    Statement,
    count_cell,
    figure,
    numbers,
    table_of,
    words,
)
from fairlead.report.numbers import change, counted, duration, named, number, percent
from fairlead.simulation.log_audit import AuditLimits, Breach, LogAudit, worst_time
from fairlead.simulation.metrics.fairness_error import FairnessError

USERS_NAMED = 10
USERS_DRAWN = 12
# A warning is shown if a larger fraction of the period, at its end, is without events.
LARGEST_SILENCE = 0.1
HELD_TOO_MUCH = (
    "At times a user held more than all servers have: are these the machines of the log?"
)


def log_audit_document(
    audit: LogAudit, title: str, limits: AuditLimits, log_format: str = ""
) -> Document:
    """Return the document of a log's audit: held and fair shares, and the users beyond limits.

    `title` names the log, `log_format` its format. Rendering costs O(N + I) for N users and I
    instants.
    """
    breaches = list(audit.breaches(limits))
    period = (
        f"{short_time(audit.workload, audit.since)} to {short_time(audit.workload, audit.until)}"
    )
    servers = counted(audit.workload.n_servers, "server")
    active = counted(int(audit.active.sum()), "user")
    lead = f"{servers}, {active} with jobs, from {period} ({duration(audit.until - audit.since)})"

    def values() -> dict[str, Any]:
        limit = {name: most for name, most in vars(limits).items() if most is not None}
        rows = [breach._asdict() for breach in breaches]
        return {"fairlead": 1, "log": title, **audit.to_dict(), "limits": limit, "beyond": rows}

    return Document(
        title,
        "what users held and were due",
        f"{log_format}; {lead}" if log_format else lead,
        _verdict(audit, limits, breaches),
        list(_blocks(audit, limits, breaches)),
        values,
    )


def _verdict(audit: LogAudit, limits: AuditLimits, breaches: list[Breach]) -> Statement:
    """Name the users beyond a limit, and the users owed most, holding most and waiting longest."""
    if not audit.active.any():
        return Statement(HOLDS, "No job ran or waited in this period.")
    if breaches:
        users = list(dict.fromkeys(breach.user for breach in breaches))
        text = f"{counted(len(users), 'user')} beyond the limits: {named(users, USERS_NAMED)}. "
    else:
        text = "No user is beyond the limits. " if limits.has_limit else ""
    kind = FAILS if breaches else HOLDS if limits.has_limit else MUTED
    waits = dict(zip(audit.workload.users, audit.longest_wait.tolist(), strict=True))
    extremes = extremes_text(audit.fairness, waits, audit.workload)
    return Statement(kind, f"{text}{extremes[0].upper()}{extremes[1:]}.")


def _blocks(audit: LogAudit, limits: AuditLimits, breaches: list[Breach]) -> Iterator[Block]:
    """Yield the findings on limits, the table of users, warnings, and shares over time."""
    if breaches:
        yield Listing([_breach_text(audit, breach) for breach in breaches], "limits")
    due_hours = audit.fairness.due_hours
    if limits.under is not None and not (due_hours >= limits.min_due).any():
        largest, least = number(float(due_hours.max())), number(limits.min_due)
        yield Prose(
            f"No user's share is judged: users are due at most {largest} cluster-hours, and shares "
            f"are judged from {least} on.",
            "warning",
        )
    names, fairness = audit.workload.users, audit.fairness
    order = np.flatnonzero(audit.active)
    order = order[largest_first(fairness.owed[order])]
    rows: list[list[Content]] = []
    for n in order.tolist():
        under = float(audit.under[n])
        wait = float(audit.longest_wait[n])
        begin = short_time(audit.workload, audit.wait_begin[n]) if wait else ""
        rows.append(
            [
                short_name(names[n]),
                figure(float(fairness.held_hours[n])),
                figure(float(fairness.due_hours[n])),
                figure(float(fairness.owed[n]), lambda hours: number(round(hours, ROUNDED))),
                figure(under, lambda lack: change(-lack, "as due")),
                figure(wait or np.nan, duration),
                Cell(begin, note=audit.wait_of[n] if wait else ""),
                count_cell(int(audit.running[n])),
                count_cell(int(audit.waiting[n])),
            ]
        )
    every = duration(fairness.interval)
    yield table_of(
        "What each user held and was due, the most owed first",
        [
            *words("user"),
            *numbers("held", "due", "owed", "against due", "longest wait"),
            *words("from"),
            *numbers("running", "waiting"),
        ],
        rows,
        each="user",
        rest="with less",
        note=(
            "held, due, owed: hours of the whole cluster, by dominant shares. Every "
            f"{every} the held shares are compared with the fair shares of "
            f"{fairness.mechanism.upper()} among the users whose tasks run or wait then. Hours "
            f"above the fair share make up for hours below it. {_hour_text(audit.workload)} "
            "longest wait: the longest time in which tasks of one kind of the user (on the same "
            "servers, with the same resources) wait and none of them runs. running, waiting: tasks "
            "at the end."
        ),
    )
    silent = audit.until - audit.last_event
    if silent > LARGEST_SILENCE * (audit.until - audit.since):
        yield Prose(
            f"The last event of the log is {duration(silent)} before the end of this period. Is "
            "the log an old copy? Jobs that had not ended count as running or waiting until the "
            "end.",
            "warning",
        )
    if audit.unplaceable:
        yield Prose(f"{left_out_text(audit)}.", "warning")
    if audit.held_too_much:
        yield Prose(HELD_TOO_MUCH, "warning")
    if fairness.unsolved_text:
        yield Prose(f"{fairness.unsolved_text}; these instants do not count.", "warning")
    if notes := audit.workload.notes:
        lines = [f"{what}: {count:,}" for what, count in notes.items()]
        yield Listing(lines, "when the log was read", "warning")
    yield _held_and_due(audit.workload, fairness)


def _held_and_due(workload: Workload, fairness: FairnessError) -> Section:
    """Draw held and fair shares over time of the users furthest from their fair share."""

    def pictures() -> Iterator[Block]:
        owed = fairness.owed.round(ROUNDED)
        active = np.flatnonzero(fairness.active.any(axis=0))
        furthest = active[largest_first(np.abs(owed[active]))[:USERS_DRAWN]]
        for n in furthest[largest_first(owed[furthest])].tolist():
            name = short_name(workload.users[n])
            drawn = held_and_due_figure(workload, fairness, n)
            about = f"Held share and fair share of {name} over time"
            yield Picture("", drawn, about, name, small=True)
        yield Prose("Dominant shares; the most owed user is the first.", "small")

    return Section("Held and fair shares over time", pictures, page_only=True)


def _hour_text(workload: Workload) -> str:
    """Explain an hour of the whole cluster by the amounts of its resources."""
    cluster = workload.cluster
    amounts = [
        f"{number(total)} {resource}{f' ({unit})' if unit else ''}"
        for resource, unit, total in zip(
            cluster.resources, cluster.units, cluster.total_capacity.tolist(), strict=True
        )
    ]
    return f"One such hour is an hour of {', '.join(amounts)}."


def left_out_text(audit: LogAudit) -> str:
    """Name the users of unplaceable tasks, with the first such job as an example."""
    users = named([short_name(name) for name in audit.unplaceable], USERS_NAMED)
    workload, first = audit.workload, int(audit.unplaceable_sets[0])
    asked = zip(
        workload.cluster.resources,
        workload.shapes[workload.set_shape[first]].tolist(),
        strict=True,
    )
    task = ", ".join(f"{number(amount)} {resource}" for resource, amount in asked if amount)
    job = short_name(str(workload.job_names[workload.set_job[first]]))
    text = "left out, as they fit no server that they may use: tasks of"
    return f"{text} {users}, such as those of job {job}, each with {task}"


def _breach_text(audit: LogAudit, breach: Breach) -> str:
    """Describe by how much, and when, a user was beyond a limit."""
    user, found, allowed = short_name(breach.user), breach.found, breach.allowed
    n = audit.workload.users.index(breach.user)
    if breach.limit == "wait":
        start = short_time(audit.workload, audit.wait_begin[n])
        kind = f" ({audit.wait_of[n]})" if audit.wait_of[n] else ""
        return f"{user}{kind}: waited {duration(found)} from {start}; at most {duration(allowed)}"
    worst = worst_time(audit.fairness, n)
    assert worst is not None
    start, end = (short_time(audit.workload, time) for time in worst)
    time = f"most of it from {start} to {end}"
    if breach.limit == "under":
        less = f"{percent(found)} less than its fair share"
        return f"{user}: {less}, {time}; at most {percent(allowed)}"
    return f"{user}: owed {number(found)} cluster-hours, {time}; at most {number(allowed)}"

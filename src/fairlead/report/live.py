"""Documents of what a running service says: jobs, users, servers, shares, usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from fairlead.report.document import (
    Cell,
    Column,
    Content,
    Document,
    Table,
    table_of,
    words,
)
from fairlead.report.numbers import duration, number, percent, spread

ROUNDING = 1e-6  # of a share
RESOURCES = (("cpu", "cores"), ("memory", "GiB"), ("gpu", "GPUs"))
Row = Mapping[str, Any]


def jobs_document(jobs: Sequence[Row]) -> Document:
    """Show jobs, one a line; names and reasons where there are any."""
    more = [what for what in ("name", "reason") if any(job.get(what) for job in jobs)]
    columns = (
        words("job"),
        words("user"),
        words("state"),
        Column("tasks"),
        Column("running"),
        Column("cores"),
        Column("GiB"),
        Column("GPUs"),
        words("server"),
        Column("exit"),
        words("since"),
        *map(words, more),
    )

    def row(k: int) -> Sequence[Content]:
        job = jobs[k]
        demand, status = job["demand"], job["exit_status"]
        since = job["ended"] or job["started"] or job["submitted"]
        return (
            job["id"],
            job["user"],
            job["state"],
            _count(job["tasks"]),
            _count(job["running"]),
            *(_amount(demand.get(name, 0.0)) for name, _ in RESOURCES),
            job["server"] or "",
            "" if status is None else str(status),
            _time(since),
            *(job.get(what) or "" for what in more),
        )

    table = Table("jobs", columns, len(jobs), row, each="job", rest="later ones")
    return _document("jobs", "no jobs wait or run", table, lambda: {"jobs": list(jobs)})


def users_document(users: Sequence[Row]) -> Document:
    """Show users, one a line."""
    columns = (words("user"), Column("weight"), Column("pending"), Column("running"))
    rows = [
        (u["name"], number(u["weight"]), _count(u["pending"]), _count(u["running"])) for u in users
    ]
    table = table_of("users", columns, rows, each="user", rest="later ones")
    return _document("users", "no users yet", table, lambda: {"users": list(users)})


def servers_document(servers: Sequence[Row]) -> Document:
    """Show servers, what they have and what is used."""
    columns = (
        words("server"),
        words("state"),
        *(Column(unit) for _, unit in RESOURCES),
        Column("tasks"),
        words("labels"),
    )
    rows = [
        (
            s["name"],
            s["state"],
            *(_of(s["used"].get(name, 0.0), s["capacity"].get(name, 0.0)) for name, _ in RESOURCES),
            _count(s["tasks"]),
            " ".join(f"{key}={value}" for key, value in sorted(s["labels"].items())),
        )
        for s in servers
    ]
    table = table_of("servers", columns, rows, each="server", rest="later ones")
    empty = "no servers yet: start fairlead worker on each machine"
    return _document("servers", empty, table, lambda: {"servers": list(servers)})


def shares_document(shares: Row) -> Document:
    """Compare each user's share with the fair one."""
    users = shares["users"]
    columns = (
        words("user"),
        Column("share"),
        Column("fair share"),
        Column("difference"),
        Column("waiting"),
        Column("running"),
    )
    rows = [
        (
            u["name"],
            Cell(percent(u["share"]), u["share"]),
            Cell(percent(u["fair_share"]), u["fair_share"]),
            _difference(u),
            _count(u["waiting"]),
            _count(u["running"]),
        )
        for u in users
    ]
    proof = shares["certificate"]
    held = "" if proof is None else f"; proof: {'holds' if proof['holds'] else 'DOES NOT HOLD'}"
    fair = f"Fair is what {shares['mechanism']} gives to what waits and runs now{held}."
    note = f"{fair} Shares are divided by the users' weights."
    table = table_of("shares", columns, rows, each="user", rest="later ones", note=note)
    return _document("shares", "no users yet", table, lambda: dict(shares))


def history_document(usage: Sequence[Row]) -> Document:
    """Show hours of resources by month and user."""
    columns = (
        words("month"),
        words("user"),
        Column("starts"),
        Column("core hours"),
        Column("GiB hours"),
        Column("GPU hours"),
    )
    rows = [
        (u["month"], u["user"], _count(u["tasks"]), *(number(u[name]) for name, _ in RESOURCES))
        for u in usage
    ]
    table = table_of("usage", columns, rows, keys=2, each="row", rest="later ones")
    return _document("usage", "no task has ended yet", table, lambda: {"usage": list(usage)})


def said_when(view: Row, now: float) -> str:
    """Say in one line when a job starts, or started."""
    job, starts, reason = f"job {view['job']}", view["starts"], view["reason"]
    if view["not_before"] is None and starts is not None:
        return f"{job} started at {_time(starts)}; it is {view['state']}"
    if starts is not None and starts - now < 1:
        return f"{job} starts now"
    if starts is not None:
        rest = "if nobody else comes, and what runs lasts until its time limit"
        return f"{job} starts at {_time(starts)}, in {duration(starts - now)}, {rest}"
    if view["not_before"] is None:
        return f"{job} is {view['state']}{f': {reason}' if reason else ''}"
    later = view["not_before"] - now
    least = f"not before {_time(view['not_before'])}, in {duration(later)}; " if later > 1 else ""
    return f"{job}: nobody can tell when it starts; {least}{reason}"


def _document(title: str, empty: str, table: Table, values: Any) -> Document:
    return Document(title, title, "" if table.count else empty, None, [table], values)


def _count(n: int) -> str:
    return f"{n:,}"


def _amount(amount: float) -> str:
    return number(amount) if amount else ""


def _of(used: float, capacity: float) -> str:
    return f"{number(used)}/{number(capacity)}" if capacity else ""


def _difference(user: Row) -> Cell:
    """Return by how much a share differs from the fair one, in percentage points."""
    part = user["difference"]
    is_none = abs(part) <= ROUNDING * max(user["share"], user["fair_share"])
    text = "0 %" if is_none else f"{'+' if part > 0 else ''}{spread(100 * part)} %"
    return Cell(text, part, kind="bad" if user["is_short"] else "")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%m-%d %H:%M:%S")

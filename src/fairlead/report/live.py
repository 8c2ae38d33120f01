"""Tables of the answers of a running service: jobs, users, servers, shares, usage.

They are laid out here, as importing Rich takes longer than the rest of a client's command.
"""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fairlead.report.numbers import counted, duration, number, percent, printable, spread

ROUNDING = 1e-6  # of a share or capacity
RESOURCES = (("cpu", "cores"), ("memory", "GiB"), ("gpu", "GPUs"))
GAP = "   "  # between columns
Row = Mapping[str, Any]


class RedText(str):
    """A text shown in red, for a waiting user below its fair share."""


class Heading(NamedTuple):
    """The heading of a column of right-aligned numbers, or of left-aligned words."""

    text: str
    is_words: bool = False


def words(*headings: str) -> list[Heading]:
    """Return the headings of columns of words."""
    return [Heading(heading, is_words=True) for heading in headings]


def numbers(*headings: str) -> list[Heading]:
    """Return the headings of columns of numbers."""
    return [Heading(heading) for heading in headings]


class LiveTable(NamedTuple):
    """An answer of a service, as a table for readers and as plain values for programs."""

    title: str
    empty: str  # printed if there are no rows
    columns: Sequence[Heading]
    rows: Sequence[Sequence[str]]
    values: Mapping[str, Any]  # the answer as plain values
    note: str = ""

    def to_json(self) -> str:
        """Return the answer as one JSON object, with its final newline."""
        return json.dumps(self.values, indent=2, allow_nan=False) + "\n"

    def to_text(self, plain: bool) -> str:
        """Return the answer as text with escaped control characters and a final newline.

        `plain` text has no colours and no bold type.
        """
        title = f"{self.title}: {'' if self.rows else self.empty}".rstrip()
        rows = [[column.text for column in self.columns], *self.rows]
        widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
        total = sum(widths) + len(GAP) * (len(widths) - 1)
        heading, *lines = (self._line(row, widths, plain) for row in rows)
        note = self.note
        if not plain:
            title, heading, note = (
                f"\x1b[1m{title}\x1b[0m",
                f"\x1b[1m{heading}\x1b[0m",
                f"\x1b[2m{note}\x1b[0m",
            )
        shown = [title, "", heading, f" {'─' * total}", *lines, *(["", note] if self.note else [])]
        return "".join(f"{line}\n" for line in shown)

    def _line(self, row: Sequence[str], widths: Sequence[int], plain: bool) -> str:
        cells = []
        for text, column, width in zip(row, self.columns, widths, strict=True):
            shown, blanks = printable(text), " " * (width - _width(text))
            if isinstance(text, RedText) and not plain:
                shown = f"\x1b[31m{shown}\x1b[0m"
            cells.append(f"{shown}{blanks}" if column.is_words else f"{blanks}{shown}")
        return f" {GAP.join(cells)}".rstrip()


def jobs_table(jobs: Sequence[Row]) -> LiveTable:
    """Tabulate jobs; columns of names and reasons only if a job has one."""
    more = [what for what in ("name", "reason") if any(job.get(what) for job in jobs)]
    columns = words("job", "user", "state") + numbers("tasks", "running", "cores", "GiB", "GPUs")
    columns += words("server") + numbers("exit") + words("since", *more)

    def row(job: Row) -> Sequence[str]:
        demand, status = job["demand"], job["exit_status"]
        since = job["ended"] or job["started"] or job["submitted"]
        return (
            job["id"],
            job["user"],
            job["state"],
            _count(job["tasks"]),
            _count(job["running"]),
            *(_amount(demand.get(name, 0.0)) for name, _ in RESOURCES),
            _place(job),
            "" if status is None else str(status),
            _time(since),
            *(job.get(what) or "" for what in more),
        )

    rows = [row(job) for job in jobs]
    return LiveTable("jobs", "no jobs wait or run", columns, rows, {"jobs": jobs})


def _place(job: Row) -> str:
    """Return the server of a job, with its GPUs, and the number of further servers."""
    devices = ", ".join(map(str, job.get("devices") or ()))
    more = (job.get("servers") or 0) - 1
    others = f" and {more:,} more" if more > 0 else ""
    return f"{job['server'] or ''}{others}{f' (GPU {devices})' if devices else ''}"


def users_table(users: Sequence[Row]) -> LiveTable:
    """Tabulate users; a column of queues only if a user has one."""
    columns = words("user") + numbers("weight", "pending", "running")
    rows = [
        [u["name"], number(u["weight"]), _count(u["pending"]), _count(u["running"])] for u in users
    ]
    if any(u.get("queue") for u in users):
        columns[1:1] = words("queue")
        for row, u in zip(rows, users, strict=True):
            row.insert(1, u["queue"] or "")
    return LiveTable("users", "no users yet", columns, rows, {"users": users})


def servers_table(servers: Sequence[Row]) -> LiveTable:
    """Tabulate servers with used and total amounts, and the GPUs in use if there are any."""
    has_gpus = any(server.get("gpus") for server in servers)
    columns = words("server", "state") + numbers(*(unit for _, unit in RESOURCES))
    columns += (words("GPUs in use") if has_gpus else []) + numbers("tasks") + words("labels")
    rows = [
        (
            s["name"],
            f"{s['state']}, overcommitted" if _is_overcommitted(s) else s["state"],
            *(_of(s["used"].get(name, 0.0), s["capacity"].get(name, 0.0)) for name, _ in RESOURCES),
            *([_gpus_in_use(s)] if has_gpus else []),
            _count(s["tasks"]),
            " ".join(f"{key}={value}" for key, value in sorted(s["labels"].items())),
        )
        for s in servers
    ]
    empty = "no servers yet: start fairlead worker on each machine"
    return LiveTable("servers", empty, columns, rows, {"servers": servers})


def shares_table(shares: Row) -> LiveTable:
    """Compare each user's share with the fair one."""
    users = shares["users"]
    columns = words("user") + numbers("share", "fair share", "difference", "waiting", "running")
    rows = [
        (
            u["name"],
            percent(part_of(u, "share")),
            percent(part_of(u, "fair_share")),
            _difference(u),
            _count(u["waiting"]),
            _count(u["running"]),
        )
        for u in users
    ]
    proof = shares["certificate"]
    proved = "" if proof is None else f"; proof: {'holds' if proof['holds'] else 'DOES NOT HOLD'}"
    fair = (
        f"Fair shares are those of {shares['mechanism']} for the waiting and running tasks{proved}."
    )
    note = f"{fair} Shares are parts of the cluster."
    return LiveTable("shares", "no users yet", columns, rows, shares, note)


def part_of(user: Row, name: str) -> float:
    """Return a user's share as a fraction of the cluster: the service has divided it by weight."""
    share: float = user[name]
    return share * (user.get("weight") or 1.0)


def quotas_table(shares: Row) -> LiveTable:
    """Compare held amounts of queues with their quotas."""
    columns = words("queue", "resource") + numbers("held", "quota") + words("servers")
    rows = [
        (
            use["queue"],
            resource,
            number(use["held"][resource]),
            number(quota),
            use["where"] or "all",
        )
        for use in shares["quotas"]
        for resource, quota in use["quota"].items()
    ]
    unmet = shares["unmet_quotas"]
    note = f"Not all quotas can be met: {unmet}." if unmet else ""
    return LiveTable("quotas", "no quotas", columns, rows, shares, note)


def share_hours_table(found: Row) -> LiveTable:
    """Tabulate cluster-hours that users held, were due and are owed; the most owed user first."""
    gpus = found["cluster"].get("gpu", 0.0)
    if gpus > 0:
        unit, resource, amount = "GPU hours", "GPUs", gpus
    else:
        unit, resource, amount = "core hours", "cores", found["cluster"]["cpu"]
    columns = words("user") + numbers("active for", "held", "fair", "owed", f"owed {unit}")
    users = sorted(found["users"], key=lambda u: -u["owed"])
    rows = [
        (
            u["user"],
            f"{number(u['active'])} h",
            *(f"{number(u[name])} h" for name in ("held", "fair", "owed")),
            number(u["owed"] * amount),
        )
        for u in users
    ]
    note = (
        "held, fair, owed: hours of the whole cluster by dominant shares, sampled every "
        f"minute. owed {unit}: owed, times the {resource} of the present servers; this is exact "
        f"for users whose dominant resource is {resource}."
    )
    return LiveTable("share hours", "nothing is recorded yet", columns, rows, found, note)


def what_if_table(found: Row) -> LiveTable:
    """Compare users' shares and fair shares before and after a tried change."""
    columns = words("user") + numbers("holds", "then", "fair", "then", "starts", "stops")
    users = sorted(found["users"], key=lambda u: (u["fair"] - u["fair_after"], u["name"]))
    rows = [
        (
            u["name"],
            percent(u["held"]),
            percent(u["held_after"]),
            percent(u["fair"]),
            percent(u["fair_after"]),
            _count(u["starts"]),
            _count(u["stops"]),
        )
        for u in users
    ]
    started = counted(found["starts"], "task") + (" at least" if found["is_cut"] else "")
    note = (
        f"Shares are dominant shares of the cluster; {started} would start now, and "
        f"{_count(found['stops'])} would stop."
    )
    if stays := found.get("stays"):
        note += (
            f" {counted(stays, 'task')} would go on running on the drained servers; shares include "
            "them (--remove shows the loss of a server)."
        )
    if unmet := found.get("unmet_quotas"):
        note += f" Not all quotas could be met: {unmet}."
    note += " Nothing was changed."
    return LiveTable("what if", "no users yet", columns, rows, found, note)


def history_table(usage: Sequence[Row]) -> LiveTable:
    """Tabulate resource-hours by month and user."""
    columns = words("month", "user")
    columns += numbers("ended tasks", "core hours", "GiB hours", "GPU hours")
    rows = [
        (u["month"], u["user"], _count(u["tasks"]), *(number(u[name]) for name, _ in RESOURCES))
        for u in usage
    ]
    empty = "no task has ended yet"
    note = "Tasks count when they end."
    return LiveTable("usage", empty, columns, rows, {"usage": usage}, note)


def forecast_text(view: Row, now: float) -> str:
    """Describe in one line when a job starts or has started."""
    job, starts, reason = f"job {view['job']}", view["starts"], view["reason"]
    if view["not_before"] is None and starts is not None:
        return f"{job} started at {_time(starts)}; it is {view['state']}"
    if starts is not None and starts - now < 1:
        return f"{job} starts now"
    if view.get("expected") is not None:
        soon = _rounded(view["expected"] - now)
        text = f"{job} is expected to start at {_time(view['expected'])}, in {soon}"
        if view["earliest"] is not None:
            text += f", and four times in five {_interval(view['earliest'], view['latest'], now)}"
        else:
            text += " (a rough guess: fewer than 20 forecast jobs have started)"
        if view.get("freed_by"):
            text += f", on {view['server']} after a task of {view['freed_by']}"
        text += f", going by the run times of {counted(view['rests_on'], 'ended task')}"
        if starts is not None:
            text += f"; at {_time(starts)} at the latest, by time limits, if no other job comes"
        return text
    if view["never"]:
        return f"{job} cannot start on the present servers: {reason}"
    if starts is not None:
        rest = "if tasks use their whole time limits and no other job is submitted"
        return f"{job} starts at {_time(starts)} at the latest, in {duration(starts - now)}, {rest}"
    if view["not_before"] is None:
        return f"{job} is {view['state']}{f': {reason}' if reason else ''}"
    later = view["not_before"] - now
    least = f"not before {_time(view['not_before'])}, in {duration(later)}; " if later > 1 else ""
    return f"{job}: start time unknown; {least}{reason}"


def _interval(earliest: float, latest: float, now: float) -> str:
    """Describe an interval of start times, relative to now."""
    soonest, last = (_rounded(at - now) for at in (earliest, latest))
    return f"within {last}" if earliest - now < 1 else f"between {soonest} and {last}"


def _rounded(seconds: float) -> str:
    """Format a duration with two digits."""
    return duration(float(f"{max(0.0, seconds):.2g}"))


def _width(text: str) -> int:
    """Return the width of a text in columns of a terminal."""
    text = printable(text)
    if text.isascii():
        return len(text)
    marks = sum(unicodedata.combining(c) > 0 for c in text)
    return len(text) - marks + sum(unicodedata.east_asian_width(c) in "WF" for c in text)


def _count(n: int) -> str:
    return f"{n:,}"


def _amount(amount: float) -> str:
    return number(amount) if amount else ""


def _of(used: float, capacity: float) -> str:
    return f"{number(used)}/{number(capacity)}" if capacity or used else ""


def _gpus_in_use(server: Row) -> str:
    """List the GPUs in use by number, with the used part of shared ones: ``0, 2 (0.75)``."""
    return ", ".join(
        gpu if part == 1 else f"{gpu} ({number(part)})"
        for gpu, part in (server.get("gpus") or {}).items()
    )


def _is_overcommitted(server: Row) -> bool:
    """Return whether tasks hold more than the server has, as after it rejoined with less."""
    capacity = server["capacity"]
    return any(
        held > capacity.get(name, 0.0) * (1 + ROUNDING) for name, held in server["used"].items()
    )


def _difference(user: Row) -> str:
    """Format the difference of a share from the fair share, in percentage points."""
    part = part_of(user, "difference")
    is_none = abs(part) <= ROUNDING * max(part_of(user, "share"), part_of(user, "fair_share"))
    text = "0 %" if is_none else f"{'+' if part > 0 else ''}{spread(100 * part)} %"
    return RedText(text) if user["is_short"] else text


def _time(seconds: float) -> str:
    return time.strftime("%m-%d %H:%M:%S", time.localtime(seconds))

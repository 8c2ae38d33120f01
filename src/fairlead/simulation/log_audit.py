"""Audit a recorded run: compare the shares that users held in a time with their fair shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from fairlead.errors import FairleadError, InputError
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.run_log import RunLog
from fairlead.model.task_kinds import kinds_of_tasks, unplaceable_sets
from fairlead.model.workload import JOIN, LEAVE, Workload
from fairlead.simulation.metrics.distribution import ratio
from fairlead.simulation.metrics.fairness_error import FairnessError, measure_fairness
from fairlead.simulation.metrics.starvation import waits_with_nothing
from fairlead.simulation.metrics.summary import plain, rows_of
from fairlead.simulation.metrics.task_outcomes import TaskOutcomes, follow_tasks
from fairlead.simulation.metrics.utilization import capacity_over_time
from fairlead.simulation.runs import recorded_run
from fairlead.traces.time_window import last_time

INSTANTS = 500
OWED_FRACTION = 0.8  # of a user's largest loss, which the time of `worst_time` contains
NEGLIGIBLE = 1e-9  # a value beyond a limit by less is a rounding error
DIGITS = 12  # of shares; further ones are rounding errors


class Breach(NamedTuple):
    """A user beyond a limit."""

    user: str
    limit: str  # name in `AuditLimits`
    found: float  # the user's value, in the unit of the limit
    allowed: float  # value of the limit


@dataclass(frozen=True)
class AuditLimits:
    """Limits of an audit; None is no limit."""

    under: float | None = None  # largest fraction of its fair share that a user may lack
    min_due: float = 0.0  # cluster-hours; `under` applies to users that are due at least this
    owed: float | None = None  # largest number of cluster-hours that a user may be owed
    wait: float | None = None  # longest time in which tasks of a user wait and none runs, seconds

    @property
    def has_limit(self) -> bool:
        """Whether there is a limit; `min_due` alone is none."""
        return (self.under, self.owed, self.wait) != (None, None, None)


@dataclass(frozen=True, eq=False)
class LogAudit:
    """The shares that N users held and were due from `since` to `until`, seconds of the trace."""

    workload: Workload
    fairness: FairnessError  # between these times
    # (N,): longest time, in seconds, in which tasks of one kind (equal constraint and resources)
    # wait and none of them runs. A wait that began before `since` counts from its start.
    longest_wait: FloatArray
    wait_begin: FloatArray  # (N,): start of that wait, in seconds of the trace; NaN if none
    wait_of: tuple[str, ...]  # (N,): kind of the waiting tasks; empty for a user of one kind
    running: IntArray  # (N,): tasks that run at `until`
    waiting: IntArray  # (N,): tasks that wait at `until`
    since: float
    until: float
    unplaceable_sets: IntArray  # sets of tasks that were active but fit no server; not counted
    last_event: float  # last submission, start or end up to `until`, seconds

    @property
    def unplaceable(self) -> tuple[str, ...]:
        """Users with tasks that were active and fit no server."""
        workload = self.workload
        users = np.unique(workload.job_user[workload.set_job[self.unplaceable_sets]])
        return tuple(workload.users[n] for n in users.tolist())

    @property
    def held_too_much(self) -> bool:
        """Whether a user held more than all servers have: the servers are not those of the log."""
        return bool((self.fairness.held * self.fairness.weight > 1 + 1e-6).any())

    @property
    def begins_after_log(self) -> bool:
        """Whether `since` is after the last event of the log."""
        return self.last_event < self.since and not self._has_later_jobs

    @property
    def ends_after_log(self) -> bool:
        """Whether the log's last event is before `until`, and no task runs or waits then."""
        active = bool((self.running + self.waiting).any())
        return self.last_event < self.until and not active and not self._has_later_jobs

    @property
    def _has_later_jobs(self) -> bool:
        """Whether jobs were submitted after `until`."""
        return bool((self.workload.job_submit > self.until).any())

    @property
    def under(self) -> FloatArray:
        """(N,) float: fraction of its due hours that a user lacks; NaN if nothing is due to it."""
        return ratio(self.fairness.owed, self.fairness.due_hours)

    @property
    def active(self) -> BoolArray:
        """(N,) bool: whether a task of the user waited or ran."""
        waits: BoolArray = self.longest_wait > 0
        return waits | self.fairness.active.any(axis=0) | (self.fairness.held_hours > 0)

    def breaches(self, limits: AuditLimits) -> Iterator[Breach]:
        """Yield the users beyond each limit, the largest value first; users of weight 0 never."""
        under = np.where(self.fairness.due_hours >= limits.min_due, self.under, np.nan)
        wait = np.where(self.workload.weight > 0, self.longest_wait, 0.0)
        found = {"under": under, "owed": self.fairness.owed, "wait": wait}
        for limit, values in found.items():
            allowed = getattr(limits, limit)
            if allowed is None:
                continue
            beyond = np.flatnonzero(values > allowed + NEGLIGIBLE)
            for n in beyond[np.argsort(-values[beyond], kind="stable")].tolist():
                yield Breach(self.workload.users[n], limit, float(values[n]), allowed)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, for JSON; times in seconds."""
        names = self.workload.users
        active = np.flatnonzero(self.active).tolist()
        worst = [worst_time(self.fairness, n) or (None, None) for n in active]
        columns = {
            "held_cluster_hours": self.fairness.held_hours,
            "due_cluster_hours": self.fairness.due_hours,
            "owed_cluster_hours": self.fairness.owed,
            "under": self.under,
            "longest_wait": self.longest_wait,
            "wait_from": self.wait_begin,
            "running_tasks": self.running,
            "waiting_tasks": self.waiting,
        }
        rows = rows_of(
            tuple(names[n] for n in active), {name: v[active] for name, v in columns.items()}
        )
        for n, row, (begin, end) in zip(active, rows.values(), worst, strict=True):
            row |= {"worst_from": begin, "worst_to": end, "wait_of": self.wait_of[n]}
        figures = {
            "since": self.since,
            "until": self.until,
            "last_event": self.last_event,
            "mechanism": self.fairness.mechanism,
            "instants": len(self.fairness.time),
            "unsolved": self.fairness.unsolved,
            "unplaceable": list(self.unplaceable),
            "users": rows,
        }
        layout: dict[str, Any] = plain(figures)
        return layout


def audit_log(
    workload: Workload,
    since: float = 0.0,
    until: float | None = None,
    *,
    mechanism: str = "drfh",
    instants: int = INSTANTS,
    complete_from: float = 0.0,
) -> LogAudit:
    """Compare the shares that users held in the recorded run with their fair shares.

    Jobs submitted before `since` count as long as they wait or run between the two times.

    Parameters
    ----------
    workload : Workload
        With recorded starts.
    since, until : float
        Seconds of the trace; `until` is the end of the recorded run when absent.
    mechanism : str
        Mechanism of the fair shares, of divisible tasks.
    instants : int
        Number of equal parts of the time; shares are compared in the middle of each.
    complete_from : float
        Time before which jobs may be missing in the log; waits count only from this time on.

    Raises
    ------
    InputError
        When the trace lacks the start times of tasks, or `since` is not before `until`.
    FairleadError
        When the mechanism has no answer at any instant.

    Notes
    -----
    The mechanism runs once for each instant. DRFH takes 1 ms for 10 users, 10 ms for 250.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from fairlead.traces.readers import read_workload
    >>> log, _ = read_workload(Path("examples/logs/lab.swf"))
    >>> audit = audit_log(log, 0, 86400)
    >>> bool(((audit.under <= 1) | np.isnan(audit.under)).all())
    True
    """
    log = recorded_run(workload)
    until = last_time(workload) if until is None else until
    if not since < until:
        raise InputError("is not before the end of the time to audit", "--from")
    # Tasks that fit no server are left out, as they do not wait because of other users.
    started = np.zeros(workload.n_tasks, dtype=bool)
    started[log.task] = True
    never_started = ~np.logical_or.reduceat(started, workload.first_task[:-1])
    log = replace(log, set_unplaceable=never_started & unplaceable_sets(workload))
    workload = _without_unused(workload, log, since)
    outcomes = follow_tasks(workload, log)
    fairness = measure_fairness(
        workload,
        log,
        outcomes,
        until,
        capacity_over_time(workload),
        instants=instants,
        mechanism=mechanism,
        since=since,
    )
    if fairness.has_no_answer:
        raise FairleadError(fairness.fault)
    active = (outcomes.submit <= until) & (until < outcomes.over) & ~outcomes.never_active
    runs = np.zeros(workload.n_tasks, dtype=bool)
    runs[log.task[(log.start <= until) & (until < log.end)]] = True
    times = np.concatenate([workload.job_submit, log.start, log.end])
    in_time = (workload.job_submit < until) & (workload.job_cancel > since)

    def by_user(tasks: BoolArray) -> IntArray:
        return np.bincount(outcomes.user[tasks], minlength=workload.n_users)

    waits = _longest_waits(workload, log, outcomes, since, until, complete_from)
    return LogAudit(
        workload,
        fairness,
        *waits,
        running=by_user(active & runs),
        waiting=by_user(active & ~runs),
        since=since,
        until=until,
        unplaceable_sets=np.flatnonzero(log.set_unplaceable & in_time[workload.set_job]),
        last_event=float(times[times <= until].max(initial=0.0)),
    )


def worst_time(fairness: FairnessError, user: int) -> tuple[float, float] | None:
    """Return start and end, in seconds, of the time in which most of a user's loss arose.

    The loss in a time is its due less its held hours. The shortest time with `OWED_FRACTION` of
    the largest loss is returned; None without a loss. O(I^2) for I instants.
    """
    missing = np.nan_to_num(fairness.fair[:, user] - fairness.held[:, user]).round(DIGITS)
    owed = np.concatenate([[0.0], missing.cumsum()]) * (fairness.weight[user] > 0)
    lost = owed - owed[:, None]  # [i, j]: between the instants i and j
    largest = np.triu(lost).max()
    if not largest > 0:
        return None
    enough = OWED_FRACTION * largest * (1 - NEGLIGIBLE)
    begin, end = np.nonzero(np.triu(lost) >= enough)
    k = int((end - begin).argmin())
    first, last = (fairness.since + fairness.interval * int(at) for at in (begin[k], end[k]))
    return first, last


def _without_unused(workload: Workload, log: RunLog, since: float) -> Workload:
    """Let servers that are out of service at the end of the record leave at `since`.

    Servers on which a task ran after `since` keep their events, and so do servers with several
    events, whose order must stay: a window keeps the later events of a server that joins after it.
    """
    if workload.recorded_until is None:
        return workload
    out = (workload.server_time >= workload.recorded_until) & (workload.server_event != JOIN)
    out &= np.bincount(workload.server, minlength=workload.n_servers)[workload.server] == 1
    unused = out & ~np.isin(workload.server, log.server[log.end > since])
    time = np.where(unused, np.minimum(since, workload.server_time), workload.server_time)
    order = np.argsort(time, kind="stable")
    return replace(
        workload,
        server_time=time[order],
        server_event=np.where(unused, LEAVE, workload.server_event)[order].astype(np.int8),
        server=workload.server[order],
    )


def _longest_waits(
    workload: Workload,
    log: RunLog,
    outcomes: TaskOutcomes,
    since: float,
    until: float,
    complete_from: float,
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return (N,) length, start and kind of each user's longest wait that ends after `since`."""
    user, shapes = workload.job_user[workload.set_job], workload.shapes[workload.set_shape]
    kinds = kinds_of_tasks(user, workload.set_place, shapes)
    waits = waits_with_nothing(kinds.of_set[outcomes.set], log, outcomes, until)
    begins = np.maximum(waits.begin, complete_from)
    length = np.where(waits.end > max(since, complete_from), waits.end - begins, 0.0)
    longest, begin = np.zeros(workload.n_users), np.full(workload.n_users, np.nan)
    kind_of = [""] * workload.n_users
    several = np.bincount(kinds.user, minlength=workload.n_users) > 1
    _, first_set = np.unique(kinds.of_set, return_index=True)
    for k in np.argsort(length, kind="stable").tolist():  # the longest is written last, and stays
        kind = waits.owner[k]
        n = kinds.user[kind]
        if length[k] > 0:
            longest[n], begin[n] = length[k], begins[k]
            kind_of[n] = _kind_name(workload, int(first_set[kind])) if several[n] else ""
    return longest, begin, tuple(kind_of)


def _kind_name(workload: Workload, k: int) -> str:
    """Name the resources and the servers of a set of tasks: ``cpu, gpu on g1..g2``."""
    cluster = workload.cluster
    resources = compress(cluster.resources, workload.shapes[workload.set_shape[k]] > 0)
    places = workload.places[workload.set_place[k]]
    groups = list(compress(cluster.groups, places))
    where = "all servers" if places.all() else ", ".join(groups[:2])
    more = f" and {len(groups) - 2} more" if len(groups) > 2 and not places.all() else ""
    return f"{', '.join(resources)} on {where}{more}"

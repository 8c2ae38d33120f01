"""Audit of a recorded run: what users held between two times beside their fair shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.run_log import RunLog
from fairlead.model.task_kinds import kinds_of_tasks
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.distribution import ratio
from fairlead.simulation.metrics.fairness_error import (
    FairnessError,
    measure_fairness,
)
from fairlead.simulation.metrics.starvation import waits_with_nothing
from fairlead.simulation.metrics.summary import plain, rows_of
from fairlead.simulation.metrics.task_outcomes import TaskOutcomes, follow_tasks
from fairlead.simulation.metrics.utilization import capacity_over_time
from fairlead.simulation.runs import recorded_run
from fairlead.traces.problem_at_time import end_of_run

INSTANTS = 500
ROUNDED = 12  # digits of shares, beyond which they are rounding


class Breach(NamedTuple):
    """A user beyond a limit."""

    user: str
    limit: str  # name in `AuditLimits`
    found: float
    most: float


@dataclass(frozen=True)
class AuditLimits:
    """AuditLimits of an audit; None is no limit."""

    under: float | None = None  # part of its fair share by which a user may be below it
    owed: float | None = None  # cluster-hours
    wait: float | None = None  # seconds in which tasks of a user wait and none runs

    @property
    def is_any(self) -> bool:
        """Whether there is a limit."""
        return self != AuditLimits()


@dataclass(frozen=True, eq=False)
class LogAudit:
    """What each of N users held and was due from `since` to `until`, in seconds of the trace."""

    workload: Workload
    fairness: FairnessError  # between these times
    # (N,): the longest time in which tasks of one kind wait (of the same servers and resources) and
    # none of them runs, seconds, of those that reach into the time; also before `since`.
    longest_wait: FloatArray
    wait_begin: FloatArray  # (N,): its begin, in seconds of the trace; not a number without one
    running: IntArray  # (N,): tasks that run at `until`
    waiting: IntArray  # (N,): tasks that wait at `until`
    since: float
    until: float
    last_event: float  # before `until`; later nothing is recorded

    @property
    def worst_time(self) -> FloatArray:
        """(N, 2) float: begin and end of the time in which each user was owed most, in seconds.

        Its hours above the fair share are fewer than those below. Not a number for a user that was
        owed nothing at any time.
        """
        return worst_times(self.fairness)

    @property
    def held_too_much(self) -> bool:
        """Whether a user held more than all servers have, as with the machines of another log."""
        return bool((self.fairness.held * self.fairness.weight > 1 + 1e-6).any())

    @property
    def under(self) -> FloatArray:
        """(N,) float: the part of its due hours that a user lacks; not a number if due nothing."""
        return ratio(self.fairness.owed, self.fairness.due_hours)

    @property
    def active(self) -> BoolArray:
        """(N,) bool: whether a task of the user waited or ran."""
        waits: BoolArray = self.longest_wait > 0
        return waits | self.fairness.active.any(axis=0) | (self.fairness.held_hours > 0)

    def breaches(self, limits: AuditLimits) -> Iterator[Breach]:
        """Yield the users beyond each limit, the furthest first."""
        found = {"under": self.under, "owed": self.fairness.owed, "wait": self.longest_wait}
        for limit, values in found.items():
            most = getattr(limits, limit)
            if most is None:
                continue
            beyond = np.flatnonzero(values > most)
            for n in beyond[np.argsort(-values[beyond], kind="stable")].tolist():
                yield Breach(self.workload.users[n], limit, float(values[n]), most)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, for JSON; times in seconds."""
        columns = {
            "held_cluster_hours": self.fairness.held_hours,
            "due_cluster_hours": self.fairness.due_hours,
            "owed_cluster_hours": self.fairness.owed,
            "under": self.under,
            "worst_from": self.worst_time[:, 0],
            "worst_to": self.worst_time[:, 1],
            "longest_wait": self.longest_wait,
            "wait_from": self.wait_begin,
            "running_tasks": self.running,
            "waiting_tasks": self.waiting,
        }
        names = self.workload.users
        active = np.flatnonzero(self.active).tolist()
        rows = rows_of(
            tuple(names[n] for n in active), {name: v[active] for name, v in columns.items()}
        )
        figures = {
            "since": self.since,
            "until": self.until,
            "last_event": self.last_event,
            "mechanism": self.fairness.mechanism,
            "instants": len(self.fairness.time),
            "unsolved": self.fairness.unsolved,
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
) -> LogAudit:
    """Compare what users held in the recorded run with their fair shares.

    Jobs submitted earlier count as long as they wait or run between the two times.

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

    Raises
    ------
    InputError
        When the trace lacks the times of tasks, or `since` is not before `until`.
    RefusalError
        When the mechanism does not admit the problem of some instant.

    Notes
    -----
    Cost that of the mechanism for each instant: under DRFH 1 ms for 10 users, 10 ms for 250.

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
    until = end_of_run(workload) if until is None else until
    if not since < until:
        raise InputError("is not before the end of the time to audit", "--from")
    # A task that fits no server waits for nothing that others hold.
    started = np.zeros(workload.n_tasks, dtype=bool)
    started[log.task] = True
    never = ~np.logical_or.reduceat(started, workload.first_task[:-1])
    log = replace(log, set_unplaceable=never & workload.set_too_large)
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
    active = (outcomes.submit <= until) & (until < outcomes.over) & ~outcomes.never_active
    runs = np.zeros(workload.n_tasks, dtype=bool)
    runs[log.task[(log.start <= until) & (until < log.end)]] = True
    times = np.concatenate([workload.job_submit, log.start, log.end])

    def by_user(tasks: BoolArray) -> IntArray:
        return np.bincount(outcomes.user[tasks], minlength=workload.n_users)

    return LogAudit(
        workload,
        fairness,
        *_longest_waits(workload, log, outcomes, since, until),
        by_user(active & runs),
        by_user(active & ~runs),
        since,
        until,
        float(times[times <= until].max(initial=0.0)),
    )


def worst_times(fairness: FairnessError) -> FloatArray:
    """Return the part of the time with the largest sum of owed hours, as `LogAudit.worst_time`."""
    short = np.nan_to_num(fairness.fair - fairness.held).round(ROUNDED) * (fairness.weight > 0)
    owed = np.vstack([np.zeros_like(short[:1]), short.cumsum(axis=0)])
    gained = owed - np.minimum.accumulate(owed, axis=0)
    last = gained.argmax(axis=0)
    found = np.full((short.shape[1], 2), np.nan)
    for n in np.flatnonzero(gained.max(axis=0) > 0).tolist():
        part = owed[: last[n], n]
        first = last[n] - 1 - int(part[::-1].argmin())  # the latest of equal ones
        found[n] = fairness.since + fairness.part * np.array([first, last[n]])
    return found


def _longest_waits(
    workload: Workload, log: RunLog, outcomes: TaskOutcomes, since: float, until: float
) -> tuple[FloatArray, FloatArray]:
    """Return the length and the begin (N,) of each user's longest wait that reaches into a time."""
    user = workload.job_user[workload.set_job]
    kinds = kinds_of_tasks(user, workload.set_place, workload.shapes[workload.set_shape])
    waits = waits_with_nothing(kinds.of_set[outcomes.set], log, outcomes, until)
    length = np.where(waits.end > since, waits.end - waits.begin, 0.0)
    order = np.argsort(length, kind="stable")  # the longest is written last, and stays
    of_user = kinds.user[waits.owner[order]]
    longest, begin = np.zeros(workload.n_users), np.full(workload.n_users, np.nan)
    longest[of_user] = length[order]
    begin[of_user] = np.where(length > 0, waits.begin, np.nan)[order]
    return longest, begin

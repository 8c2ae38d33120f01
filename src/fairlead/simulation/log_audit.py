"""Audit of a recorded run: what users held between two times beside their fair shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.distribution import ratio
from fairlead.simulation.metrics.fairness_error import (
    FairnessError,
    measure_fairness,
)
from fairlead.simulation.metrics.starvation import measure_starvation
from fairlead.simulation.metrics.summary import plain, rows_of
from fairlead.simulation.metrics.task_outcomes import follow_tasks
from fairlead.simulation.metrics.utilization import capacity_over_time
from fairlead.simulation.runs import recorded_run
from fairlead.traces.problem_at_time import end_of_run

INSTANTS = 500


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
    longest_wait: FloatArray  # (N,): longest time in which tasks of the user wait and none runs, s
    running: IntArray  # (N,): tasks that run at `until`
    waiting: IntArray  # (N,): tasks that wait at `until`
    since: float
    until: float

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
            "longest_wait": self.longest_wait,
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
        When the trace lacks the times of tasks, `since` is not before `until`, or no task waits or
        runs between them.
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
    outcomes = follow_tasks(workload, log)
    capacity = capacity_over_time(workload)
    fairness = measure_fairness(
        workload,
        log,
        outcomes,
        until,
        capacity,
        instants=instants,
        mechanism=mechanism,
        since=since,
    )
    if not fairness.active.any():
        raise InputError("no task waits or runs in this time", "--from")
    starvation = measure_starvation(workload, log, outcomes, until, since=since, until=until)
    active = (outcomes.submit <= until) & (until < outcomes.over) & ~outcomes.never_active
    runs = np.zeros(workload.n_tasks, dtype=bool)
    runs[log.task[(log.start <= until) & (until < log.end)]] = True

    def by_user(tasks: BoolArray) -> IntArray:
        return np.bincount(outcomes.user[tasks], minlength=workload.n_users)

    return LogAudit(
        workload,
        fairness,
        starvation.longest,
        by_user(active & runs),
        by_user(active & ~runs),
        since,
        until,
    )

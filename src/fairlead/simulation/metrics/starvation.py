"""Starvation: times in which tasks of a user wait and none runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.task_outcomes import TaskOutcomes

Owners: TypeAlias = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Starvation:
    """Starvation of N users."""

    # (N,): the longest uninterrupted time in which tasks of the user wait and none runs, seconds.
    # A wait without end counts until the last event. Time before `since` and after `until` does not
    # count.
    longest: FloatArray
    # (N,): whether the user had active tasks while jobs arrived, but none ran in that time; or
    # whether tasks waited, but none ran, from `since` to `until`.
    got_nothing: BoolArray
    # (N,): whether the user has tasks, but none started in the whole run, even if none could. False
    # if the log lacks the times of some.
    never_ran: BoolArray


class Waits(NamedTuple):
    """W times in which tasks of an owner wait and none runs, ordered by owner and time."""

    owner: Owners  # (W,)
    begin: FloatArray  # (W,): seconds
    end: FloatArray  # (W,)


def waits_with_nothing(owner: Owners, log: RunLog, outcomes: TaskOutcomes, until: float) -> Waits:
    """Return the waits until a time, given the owner of each task (T,), such as its user.

    O((T + P) log (T + P)) for P starts of tasks.
    """
    return _waits(_intervals(owner, log, outcomes, until, 0.0, until))


def measure_starvation(
    workload: Workload,
    log: RunLog,
    outcomes: TaskOutcomes,
    arrivals: float,
    *,
    since: float = 0.0,
    until: float | None = None,
) -> Starvation:
    """Measure starvation from `since` to `until`; jobs arrive until `arrivals`.

    All times are in seconds. When absent, `until` is the time of the last event.
    O((T + P) log (T + P)) for P starts of tasks.
    """
    n_users = workload.n_users
    over = outcomes.over[~outcomes.never_active & np.isfinite(outcomes.over)]
    last = max(arrivals, *(float(t.max(initial=0.0)) for t in (outcomes.submit, over, log.end)))
    intervals = _intervals(
        outcomes.user, log, outcomes, last, since, last if until is None else until
    )
    waits = _waits(intervals)
    longest = np.zeros(n_users)
    np.maximum.at(longest, waits.owner, waits.end - waits.begin)

    def has_any(users: np.ndarray) -> BoolArray:
        return np.bincount(users, minlength=n_users) > 0

    user, early = intervals.owner, intervals.begin < arrivals
    was_active = has_any(user[intervals.active & early])
    ran = has_any(user[intervals.running & early])
    started = has_any(outcomes.user[log.task])
    return Starvation(
        longest,
        got_nothing=(was_active & ~ran) | (~has_any(user[intervals.running]) & (longest > 0)),
        never_ran=has_any(outcomes.user) & ~started & ~has_any(outcomes.user[outcomes.unrecorded]),
    )


class _Intervals(NamedTuple):
    """Intervals between two events of an owner, ordered by owner and time."""

    owner: Owners
    begin: FloatArray
    end: FloatArray
    active: BoolArray  # whether tasks wait or run
    running: BoolArray  # whether tasks run


def _intervals(
    owner: Owners, log: RunLog, outcomes: TaskOutcomes, last: float, since: float, until: float
) -> _Intervals:
    """Return the intervals up to the `last` event, cut off at `since` and `until`."""
    ever_active = ~outcomes.never_active
    over = ever_active & np.isfinite(outcomes.over)
    n_owners = int(owner.max(initial=-1)) + 1
    # Events: times, owners, changes in the number of active tasks, changes in that of running ones.
    parts = (
        (outcomes.submit[ever_active], owner[ever_active], 1, 0),
        (outcomes.over[over], owner[over], -1, 0),
        (log.start, owner[log.task], 0, 1),
        (log.end, owner[log.task], 0, -1),
        (np.full(n_owners, max(last, until)), np.arange(n_owners), 0, 0),  # ends the last interval
    )
    time, owners = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    changes = np.concatenate([np.full((len(part[0]), 2), part[2:]) for part in parts])
    order = np.lexsort((time, owners))
    time, owners = time[order], owners[order]
    counts = np.cumsum(changes[order], axis=0)
    before = np.searchsorted(owners, np.arange(n_owners))
    counts -= np.vstack([np.zeros((1, 2), dtype=counts.dtype), counts])[before][owners]
    # From each event to the owner's next one; empty intervals are left out.
    begins, ends = np.maximum(time[:-1], since), np.minimum(time[1:], until)
    kept = np.flatnonzero((owners[1:] == owners[:-1]) & (ends > begins))
    active, running = (counts[kept] > 0).T
    return _Intervals(owners[kept], begins[kept], ends[kept], active, running)


def _waits(intervals: _Intervals) -> Waits:
    """Join consecutive intervals in which tasks of an owner wait and none runs."""
    owner, is_wait = intervals.owner, intervals.active & ~intervals.running
    continues = is_wait[1:] & is_wait[:-1] & (owner[1:] == owner[:-1])
    first = np.flatnonzero(is_wait & ~np.append(False, continues))
    last = np.flatnonzero(is_wait & ~np.append(continues, False))
    return Waits(owner[first], intervals.begin[first], intervals.end[last])

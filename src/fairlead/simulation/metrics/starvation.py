"""Users that wait without any running task, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.task_outcomes import TaskOutcomes


@dataclass(frozen=True, eq=False)
class Starvation:
    """Starvation of N users."""

    # (N,): the longest uninterrupted time in which tasks of the user wait and none runs, seconds;
    # where a task waits for ever, until the last event. Waits before `since` and after `until` do
    # not count.
    longest: FloatArray
    # (N,): whether the user had active tasks while jobs arrived and none ran in that time; or none
    # of its tasks ran from `since` to `until`, though some waited.
    got_nothing: BoolArray
    # (N,): whether the user has tasks and none ever started, also where none could run. False where
    # the log does not record the times of some. Of the whole run.
    never_ran: BoolArray


def measure_starvation(
    workload: Workload,
    log: RunLog,
    outcomes: TaskOutcomes,
    arrivals: float,
    *,
    since: float = 0.0,
    until: float | None = None,
) -> Starvation:
    """Measure starvation between two times; jobs arrive until `arrivals`.

    All of it is in seconds; `until` is the last event when absent. O((T + P) log (T + P)).
    """
    n_users = workload.n_users
    wants = ~outcomes.never_active
    over = wants & np.isfinite(outcomes.over)
    happened = (outcomes.submit, outcomes.over[over], log.end)
    last = max(arrivals, *(float(times.max(initial=0.0)) for times in happened))
    until = last if until is None else until
    # Changes to the number of active and of running tasks of a user.
    parts = (
        (outcomes.submit[wants], outcomes.user[wants], 1, 0),
        (outcomes.over[over], outcomes.user[over], -1, 0),
        (log.start, outcomes.user[log.task], 0, 1),
        (log.end, outcomes.user[log.task], 0, -1),
        (np.full(n_users, max(last, until)), np.arange(n_users), 0, 0),
    )
    time, user = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    changes = np.concatenate([np.full((len(part[0]), 2), part[2:]) for part in parts])
    order = np.lexsort((time, user))
    time, user = time[order], user[order]
    counts = np.cumsum(changes[order], axis=0)
    before = np.searchsorted(user, np.arange(n_users))
    counts -= np.vstack([np.zeros((1, 2), dtype=counts.dtype), counts])[before][user]
    # Intervals from the last event at one time to the next time of the same user.
    begins, ends = np.maximum(time[:-1], since), np.minimum(time[1:], until)
    here = np.flatnonzero((user[1:] == user[:-1]) & (ends > begins))
    begin, end, of = begins[here], ends[here], user[here]
    wanting, running = (counts[here] > 0).T
    without = wanting & ~running
    longest = np.zeros(n_users)
    if without.any():
        follows = without[1:] & without[:-1] & (of[1:] == of[:-1])
        first = np.flatnonzero(without & ~np.append(False, follows))
        lengths = np.add.reduceat(np.where(without, end - begin, 0.0), first)
        np.maximum.at(longest, of[first], lengths)

    def has_any(users: np.ndarray) -> BoolArray:
        return np.bincount(users, minlength=n_users) > 0

    early = begin < arrivals
    wanted, ran = has_any(of[wanting & early]), has_any(of[running & early])
    started = has_any(outcomes.user[log.task])
    return Starvation(
        longest,
        got_nothing=(wanted & ~ran) | (~has_any(of[running]) & (longest > 0)),
        never_ran=has_any(outcomes.user) & ~started & ~has_any(outcomes.user[outcomes.unrecorded]),
    )

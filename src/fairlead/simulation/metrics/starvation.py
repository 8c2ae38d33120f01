"""Who waits with nothing, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.task_outcomes import TaskOutcomes


@dataclass(frozen=True, eq=False)
class Starvation:
    """How long users had nothing while they wanted something; N users."""

    # (N,): the longest time without a break in which tasks of the user wait and none runs, seconds;
    # where something waits for ever, as long as anything happens.
    longest: FloatArray
    # (N,): whether the user got nothing: it wanted something as long as jobs came, and nothing of
    # it ran in that time; or nothing of it ever ran, though something waited.
    got_nothing: BoolArray
    # (N,): whether the user has tasks and none of them ever started, also where none could run
    # anywhere. False where the log does not say when one of them ran.
    never_ran: BoolArray


def measure_starvation(
    workload: Workload, log: RunLog, course: TaskOutcomes, arrivals: float
) -> Starvation:
    """Measure how long users waited with nothing; jobs come for `arrivals` seconds.

    Notes
    -----
    Cost O((T + P) log (T + P)).
    """
    n_users = workload.n_users
    wants = ~course.never_active
    ends = wants & np.isfinite(course.over)
    happened = (course.submit, course.over[ends], log.end)
    until = max(arrivals, *(float(times.max(initial=0.0)) for times in happened))
    # What changes how many tasks of a user want to run, and how many do.
    parts = (
        (course.submit[wants], course.user[wants], 1, 0),
        (course.over[ends], course.user[ends], -1, 0),
        (log.start, course.user[log.task], 0, 1),
        (log.end, course.user[log.task], 0, -1),
        (np.full(n_users, until), np.arange(n_users), 0, 0),
    )
    time, user = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    changes = np.concatenate([np.full((len(part[0]), 2), part[2:]) for part in parts])
    order = np.lexsort((time, user))
    time, user = time[order], user[order]
    counts = np.cumsum(changes[order], axis=0)
    before = np.searchsorted(user, np.arange(n_users))
    counts -= np.vstack([np.zeros((1, 2), dtype=counts.dtype), counts])[before][user]
    # Between the last of the events of a moment and the next moment of the same user.
    here = np.flatnonzero((user[1:] == user[:-1]) & (time[1:] > time[:-1]))
    begin, end, of = time[here], time[here + 1], user[here]
    wanting, running = (counts[here] > 0).T
    without = wanting & ~running
    longest = np.zeros(n_users)
    if without.any():
        follows = without[1:] & without[:-1] & (of[1:] == of[:-1])
        first = np.flatnonzero(without & ~np.append(False, follows))
        lengths = np.add.reduceat(np.where(without, end - begin, 0.0), first)
        np.maximum.at(longest, of[first], lengths)
    early = begin < arrivals
    wanted, ran, ever = (
        np.bincount(of[which], minlength=n_users) > 0
        for which in (wanting & early, running & early, running)
    )
    started, asked, unknown = (
        np.bincount(users, minlength=n_users) > 0
        for users in (course.user[log.task], course.user, course.user[course.unrecorded])
    )
    return Starvation(
        longest,
        got_nothing=(wanted & ~ran) | (~ever & (longest > 0)),
        never_ran=asked & ~started & ~unknown,
    )

"""Explain why a job waits at a time of a replay, by replaying up to that time."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np

from fairlead.errors import InputError, RefusalError
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.run_log import RECORDED, RunLog
from fairlead.model.workload import Workload
from fairlead.scheduler.explanation import Explanation
from fairlead.simulation.replay import Progress, StartedReplay


@dataclass(frozen=True)
class WaitingJob:
    """Why a job waits at a time of a replay."""

    job: str
    user: str
    submitted: float  # seconds from the start of the workload, as all times
    time: float  # the explained time
    starts: float  # the next start of an explained task; infinite if none starts
    # Number, from 1, of the job's first waiting set, whose tasks are explained; in a gang the tasks
    # of all sets are.
    set: int
    sets: int  # number of sets of the job
    reserved_for: str | None  # under easy, the job with a reservation, if any
    explanation: Explanation  # with servers as GROUP/NUMBER

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values, for JSON."""
        found: dict[str, Any] = self.explanation.to_dict()
        del found["group"]
        if found["reservation"] is not None:
            found["reservation"] |= {"group": self.reserved_for}
        starts = self.starts if isfinite(self.starts) else None
        times = {"submitted": self.submitted, "moment": self.time, "starts_at": starts}
        which = {"set": self.set, "sets": self.sets}
        return {"job": self.job, "user": self.user, **which, **times, **found}


def explain_job(
    workload: Workload,
    log: RunLog,
    job: str,
    time: float,
    *,
    strict_fifo: bool = False,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> WaitingJob:
    """Explain why a job waits at a time, after all events and decisions of that time.

    Parameters
    ----------
    workload : Workload
    log : RunLog
        The run of a policy, by `fairlead.simulation.replay.replay`.
    job : str
        Name of the job.
    time : float
        Seconds from the start of the workload.
    strict_fifo, seed, on_progress
        As for the replay, which is repeated up to the time.

    Raises
    ------
    InputError
        When there is no such job, or none of its tasks waits then: the message tells its state.
    RefusalError
        When the log is recorded.
    """
    j = _find_job(workload, job)
    check_explained(log.policy)
    started = StartedReplay(workload, log.policy, strict_fifo, seed)
    loop = started.loop
    groups = loop.groups.setdefault(j, [])
    started.run(on_progress, time)
    sets = np.arange(workload.first_set[j], workload.first_set[j + 1])
    if workload.job_submit[j] <= time < workload.job_cancel[j]:
        left_out = np.where(started.unplaceable, workload.set_tasks, 0)
        loop.submit(j, left_out.tolist())
    waiting = {
        loop.first_task[group.id] + group.first_index(): group
        for group in groups
        if group.waiting > 0
    }
    if not waiting:
        raise InputError(_describe_state(workload, log, j, time), "job")
    task, group = min(waiting.items())
    first = _set_of(workload, task)
    starts = _start_times(workload, log, sets if _is_gang(workload, j) else np.array([first]))
    quanta = [1 / per_unit for per_unit in started.quanta.per_unit]
    explanation = loop.explain(group, list(workload.cluster.resources), quanta, time)
    reserved_for = None
    if explanation.reservation is not None:
        k = _set_of(workload, loop.first_task[explanation.reservation.group])
        reserved_for = str(workload.job_names[workload.set_job[k]])
    return WaitingJob(
        job,
        workload.users[workload.job_user[j]],
        float(workload.job_submit[j]),
        time,
        float(starts[starts > time].min(initial=inf)),
        first - int(sets[0]) + 1,
        len(sets),
        reserved_for,
        explanation,
    )


def check_explained(policy: str) -> None:
    """Raise `RefusalError` for the policy ``recorded``."""
    if policy == RECORDED:
        fault = "a log does not record why tasks waited; replay a policy, such as -p drf/best-fit"
        raise RefusalError(policy, fault)


def longest_wait(
    workload: Workload, log: RunLog, user: str, since: float = 0.0
) -> tuple[str, float] | None:
    """Return a user's longest-waiting job, and the middle of its wait in seconds; or None.

    Only jobs submitted from `since` on count; None if none of them waited. Raises InputError when
    there is no such user.
    """
    if user not in workload.users:
        raise InputError(f"there is no user {user!r:.60} in the trace", "user")
    own = workload.job_user == workload.users.index(user)
    own &= workload.job_submit >= since
    waits = np.where(own, _waited_until(workload, log) - workload.job_submit, 0.0)
    j = int(waits.argmax())
    if not waits[j] > 0:
        return None
    return str(workload.job_names[j]), float(workload.job_submit[j] + waits[j] / 2)


def middle_of_wait(workload: Workload, log: RunLog, job: str) -> float:
    """Return the middle, in seconds, of a job's wait; raises InputError for an unknown job."""
    j = _find_job(workload, job)
    return float(workload.job_submit[j] + _waited_until(workload, log)[j]) / 2


def _waited_until(workload: Workload, log: RunLog) -> FloatArray:
    """Return (J,) the first start of the last task of each job, or the job's withdrawal."""
    first = np.full(workload.n_tasks, max(log.makespan, workload.span))
    np.minimum.at(first, log.task, log.start)
    last = np.maximum.reduceat(first, workload.first_task[workload.first_set[:-1]])
    until: FloatArray = np.minimum(last, workload.job_cancel)
    return until


def _find_job(workload: Workload, job: str) -> int:
    found = np.flatnonzero(workload.job_names == job)
    if not len(found):
        raise InputError(f"there is no job {job!r:.60} in the trace", "job")
    return int(found[0])


def _is_gang(workload: Workload, j: int) -> bool:
    return bool(workload.job_gang[j]) and bool(workload.job_tasks[j] > 1)


def _set_of(workload: Workload, task: int) -> int:
    """Return the set of a task."""
    return int(np.searchsorted(workload.first_task, task, side="right")) - 1


def _start_times(workload: Workload, log: RunLog, sets: IntArray) -> FloatArray:
    """Return the starts of the tasks of consecutive sets."""
    tasks = workload.first_task[[sets[0], sets[-1] + 1]]
    starts: FloatArray = log.start[(log.task >= tasks[0]) & (log.task < tasks[1])]
    return starts


def _describe_state(workload: Workload, log: RunLog, j: int, time: float) -> str:
    """Describe the state of a job without waiting tasks."""
    name, submit = workload.job_names[j], float(workload.job_submit[j])
    if submit > time:
        return f"{name} is submitted at {submit:.6g} s, after {time:.6g} s"
    if workload.job_cancel[j] <= time:
        return f"{name} was withdrawn at {workload.job_cancel[j]:.6g} s"
    sets = np.arange(workload.first_set[j], workload.first_set[j + 1])
    starts = _start_times(workload, log, sets)
    first, last = float(starts.min()), float(starts[starts <= time].max())
    if first == last == submit:
        return f"{name} started at its submission, at {submit:.6g} s"
    return f"no task of {name} waits at {time:.6g} s: all had started by {last:.6g} s"

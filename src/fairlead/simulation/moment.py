"""A moment of a replay as a live scheduler, which can be asked why somebody waits then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np

from fairlead.errors import InputError, RefusalError
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.quanta import to_quanta
from fairlead.model.run_log import RECORDED, RunLog
from fairlead.model.workload import DRAIN, LEAVE, Workload
from fairlead.scheduler.explanation import Explanation
from fairlead.scheduler.policies import parse_policy
from fairlead.scheduler.scheduler import Scheduler
from fairlead.simulation.kinds import kinds_of

NAMED = 3  # groups of servers, in words
# Called with how much is done, and of how much.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class WaitingJob:
    """Why a job waits at a moment of a replay.

    Attributes
    ----------
    submitted, moment : float
        Seconds from the start of the workload.
    starts : float
        When a task of those explained starts next in that run; infinite if none does.
    set, sets : int
        Which set of the job's tasks is explained, the first that waits, from 1; and how many the
        job has. Of a gang it is all of them.
    reserved_for : str or None
        Under easy, the job that something is reserved for, if any is.
    explanation : Explanation
        Servers are GROUP/NUMBER.
    """

    job: str
    user: str
    submitted: float
    moment: float
    starts: float
    set: int
    sets: int
    reserved_for: str | None
    explanation: Explanation

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        found: dict[str, Any] = self.explanation.to_dict()
        del found["group"]
        if found["reservation"] is not None:
            found["reservation"] |= {"group": self.reserved_for}
        starts = self.starts if isfinite(self.starts) else None
        times = {"submitted": self.submitted, "moment": self.moment, "starts_at": starts}
        which = {"set": self.set, "sets": self.sets}
        return {"job": self.job, "user": self.user, **which, **times, **found}


def explain_job(
    workload: Workload,
    log: RunLog,
    job: str,
    moment: float,
    *,
    strict_fifo: bool = False,
    on_progress: Progress | None = None,
) -> WaitingJob:
    """Return why a job waits at a moment, after all that happened and was decided then.

    Parameters
    ----------
    workload : Workload
    log : RunLog
        What a policy did with it: `fairlead.simulation.replay.replay`.
    job : str
        Its name.
    moment : float
        Seconds from the start of the workload.
    strict_fifo : bool
        As it was replayed.
    on_progress : callable, optional

    Raises
    ------
    InputError
        When there is no such job, or none of its tasks waits then; it says what became of it.
    RefusalError
        When the log is recorded, or the policy's offers were oblivious; see `check_explained`.

    Notes
    -----
    O(T + S + running and waiting tasks): the state is built, nothing is replayed again.
    """
    j = _job_of(workload, job)
    sets = np.arange(workload.first_set[j], workload.first_set[j + 1])
    state = _AtMoment(workload, log, moment)
    if not state.waiting[sets].any():
        raise InputError(_why_not(workload, log, j, moment), "job")
    scheduler, group_of = _scheduler_at(state, strict_fifo, j, on_progress)
    first = next(k for k in sets.tolist() if state.waiting[k])
    is_gang = bool(workload.job_gang[j]) and workload.job_tasks[j] > 1
    starts = _starts(workload, log, sets if is_gang else np.array([first]))
    found = scheduler.explain(group_of[first], moment)
    reserved_for = None
    if found.reservation is not None:
        k = next(k for k, group in group_of.items() if group == found.reservation.group)
        reserved_for = str(workload.job_names[workload.set_job[k]])
    return WaitingJob(
        job,
        workload.users[workload.job_user[j]],
        float(workload.job_submit[j]),
        moment,
        float(starts[starts > moment].min(initial=inf)),
        first - int(sets[0]) + 1,
        len(sets),
        reserved_for,
        found,
    )


def check_explained(policy: str) -> None:
    """Raise `RefusalError` for a policy whose run logs say too little to explain a moment."""
    if policy == RECORDED:
        raise RefusalError(policy, "a log does not say why tasks waited; name a policy to replay")
    if parse_policy(policy).is_oblivious:
        fault = "who declined which offer, and until when, is in no log of a run"
        raise RefusalError(policy, fault)


def longest_wait(workload: Workload, log: RunLog, user: str) -> tuple[str, float] | None:
    """Return a user's longest-waiting job and the middle of its wait in seconds; None without wait.

    Raises InputError when there is no such user.
    """
    if user not in workload.users:
        raise InputError(f"there is no user {user!r:.60} in the trace", "user")
    own = workload.job_user == workload.users.index(user)
    waits = np.where(own, _waited_until(workload, log) - workload.job_submit, 0.0)
    j = int(waits.argmax())
    if not waits[j] > 0:
        return None
    return str(workload.job_names[j]), float(workload.job_submit[j] + waits[j] / 2)


def middle_of_wait(workload: Workload, log: RunLog, job: str) -> float:
    """Return the middle, in seconds, of a job's wait; raises InputError for an unknown job."""
    j = _job_of(workload, job)
    return float(workload.job_submit[j] + _waited_until(workload, log)[j]) / 2


def _waited_until(workload: Workload, log: RunLog) -> FloatArray:
    """Return (J,) when the last task of each job started first, or the job was withdrawn."""
    first = np.full(workload.n_tasks, max(log.makespan, workload.span))
    np.minimum.at(first, log.task, log.start)
    last = np.maximum.reduceat(first, workload.first_task[workload.first_set[:-1]])
    until: FloatArray = np.minimum(last, workload.job_cancel)
    return until


def _job_of(workload: Workload, job: str) -> int:
    found = np.flatnonzero(workload.job_names == job)
    if not len(found):
        raise InputError(f"there is no job {job!r:.60} in the trace", "job")
    return int(found[0])


def _starts(workload: Workload, log: RunLog, sets: IntArray) -> FloatArray:
    """Return when tasks of sets that follow each other started."""
    tasks = workload.first_task[[sets[0], sets[-1] + 1]]
    starts: FloatArray = log.start[(log.task >= tasks[0]) & (log.task < tasks[1])]
    return starts


class _AtMoment:
    """What runs and waits of each set at a moment."""

    def __init__(self, workload: Workload, log: RunLog, moment: float) -> None:
        check_explained(log.policy)
        self.workload, self.log, self.moment = workload, log, moment
        started = np.flatnonzero(log.start <= moment)
        self.runs: IntArray = started[log.end[started] > moment]
        done = started[(log.end[started] <= moment) & ~log.lost[started]]
        set_of_task = np.repeat(np.arange(workload.n_sets), workload.set_tasks)
        self.set_of_start = set_of_task[log.task[self.runs]]
        self.running = np.bincount(self.set_of_start, minlength=workload.n_sets)
        ended = np.bincount(set_of_task[log.task[done]], minlength=workload.n_sets)
        job = workload.set_job
        came = (workload.job_submit[job] <= moment) & (workload.job_cancel[job] > moment)
        self.waiting = np.where(came, workload.set_tasks - self.running - ended, 0)

    def servers(self) -> tuple[BoolArray, BoolArray]:
        """Return which servers are there, and which of them are drained."""
        workload = self.workload
        there, drained = workload.there_at_start.copy(), np.zeros(workload.n_servers, dtype=bool)
        for x in np.flatnonzero(workload.server_time <= self.moment).tolist():
            s, event = workload.server[x], workload.server_event[x]
            there[s] = event != LEAVE
            drained[s] = event == DRAIN
        return there, drained


def _scheduler_at(
    state: _AtMoment, strict_fifo: bool, asked: int, on_progress: Progress | None
) -> tuple[Scheduler, dict[int, int]]:
    """Return the scheduler as it is then, and the group of each set with anything there."""
    workload, log, kinds = state.workload, state.log, kinds_of(state.workload)
    quanta, cluster = to_quanta(kinds.problem), workload.cluster
    quantum = [1 / per_unit for per_unit in quanta.per_unit]
    policy = parse_policy(log.policy)
    named: dict[str, Any] = dict(zip(cluster.resources, quantum, strict=True))

    def amounts(row: Any) -> dict[str, Any]:
        pairs = zip(cluster.resources, row.tolist(), quantum, strict=True)
        return {name: amount * q for name, amount, q in pairs}

    largest = None
    if policy.slots:  # cut from the largest server that is ever there
        whole = np.where((cluster.capacity > 0).all(axis=0), quanta.capacity.max(axis=0), 0)
        largest = {name: amount for name, amount in amounts(whole).items() if amount}
    scheduler = Scheduler(
        list(cluster.resources), log.policy, named, strict_fifo=strict_fifo, largest=largest
    )
    names = [
        f"{group}/{k}" for group, count in zip(cluster.groups, cluster.count, strict=True)
        for k in range(count)
    ]  # fmt: skip
    group_of_server = np.repeat(np.arange(len(cluster.groups)), cluster.count)
    places = _conditions(workload)
    labels = [
        {key: "yes" for row, where in zip(workload.places, places, strict=True) if row[g]
         for key in where or ()}
        for g in range(len(cluster.groups))
    ]  # fmt: skip
    there, drained = state.servers()
    capacity = [amounts(row) for row in quanta.capacity]
    sets = np.flatnonzero((state.waiting > 0) | (state.running > 0))
    never = log.set_unplaceable[sets] & (workload.set_job[sets] != asked)
    sets = sets[~never]  # what can never run was not told to the scheduler
    total, done = int(there.sum()) + len(sets) + len(state.runs), 0

    def tick() -> None:
        nonlocal done
        done += 1
        if on_progress is not None and done % 256 == 0:
            on_progress(done, total)

    for s in np.flatnonzero(there).tolist():
        g = int(group_of_server[s])
        scheduler.add_server(names[s], capacity[g], labels[g], order=s)
        tick()
    for user in np.unique(workload.job_user).tolist():
        scheduler.add_queue(workload.users[user], float(workload.weight[user]))
    demand = [amounts(row) for row in quanta.demand]
    group_of: dict[int, int] = {}
    first_of_job = np.flatnonzero(np.diff(workload.set_job[sets], prepend=-1))
    for members in np.split(sets, first_of_job[1:]) if len(sets) else []:
        job = int(workload.set_job[members[0]])
        is_gang = bool(workload.job_gang[job]) and workload.job_tasks[job] > 1
        rows = [
            (
                demand[kinds.of_set[k]],
                int(state.waiting[k] + state.running[k]),
                places[workload.set_place[k]],
            )
            for k in members.tolist()
        ]
        queue, now = workload.users[workload.job_user[job]], float(workload.job_submit[job])
        limit = float(workload.job_limit[job])
        known: dict[str, Any] = {"now": now, "time_limit": limit if limit < inf else None}
        if is_gang:
            group = scheduler.submit_gang(queue, rows, **known)
            group_of |= dict.fromkeys(members.tolist(), group)
        else:
            for k, (row, tasks, place) in zip(members.tolist(), rows, strict=True):
                group_of[k] = scheduler.submit(queue, row, tasks, place, **known)
        tick()
    order = np.lexsort((state.runs, state.set_of_start))  # a gang's shapes in their order
    for start, k in zip(
        state.runs[order].tolist(), state.set_of_start[order].tolist(), strict=True
    ):
        since = float(log.start[start])
        scheduler.assume(group_of[k], names[log.server[start]], since)
        tick()
    for s in np.flatnonzero(drained & there).tolist():
        scheduler.drain(names[s])
    return scheduler, group_of


def _conditions(workload: Workload) -> list[dict[str, str] | None]:
    """Return each place as a condition on labels, which says what servers those are."""
    groups, conditions = workload.cluster.groups, Counter[str]()
    found: list[dict[str, str] | None] = []
    for row in workload.places:
        allowed = [groups[g] for g in np.flatnonzero(row).tolist()]
        more = f" and {len(allowed) - NAMED} groups more" if len(allowed) > NAMED else ""
        words = f"servers of {', '.join(allowed[:NAMED])}{more}"
        conditions[words] += 1
        if conditions[words] > 1:  # where there are more groups, the others differ
            words += f" ({conditions[words]})"
        found.append(None if row.all() else {words: "yes"})
    return found


def _why_not(workload: Workload, log: RunLog, j: int, moment: float) -> str:
    """Describe the end of a job without waiting tasks."""
    name, submit = workload.job_names[j], float(workload.job_submit[j])
    if submit > moment:
        return f"{name} comes at {submit:.6g} s, after {moment:.6g} s"
    if workload.job_cancel[j] <= moment:
        return f"{name} was withdrawn at {workload.job_cancel[j]:.6g} s"
    sets = np.arange(workload.first_set[j], workload.first_set[j + 1])
    starts = _starts(workload, log, sets)
    first, last = float(starts.min()), float(starts[starts <= moment].max())
    if first == last == submit:
        return f"{name} started as soon as it came, at {submit:.6g} s"
    return f"nothing of {name} waits at {moment:.6g} s: all of it had started by {last:.6g} s"

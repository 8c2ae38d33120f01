"""Explain why a job waits at a time of a replay, by rebuilding the scheduler of that time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from math import inf, isfinite
from typing import Any

import numpy as np

from fairlead.errors import InputError, RefusalError
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.devices import choose_devices
from fairlead.model.quanta import to_quanta
from fairlead.model.queues import amounts_and_tasks
from fairlead.model.quotas import groups_of, quotas_of
from fairlead.model.run_log import RECORDED, RunLog
from fairlead.model.unplaceable import kinds_of
from fairlead.model.workload import DRAIN, LEAVE, Workload
from fairlead.scheduler.explanation import Explanation
from fairlead.scheduler.policies import parse_policy
from fairlead.scheduler.scheduler import Scheduler
from fairlead.simulation.replay import largest_server, queues_of

NAMED = 3  # most groups of servers that a condition names
# Called with the done steps and all steps of the rebuild.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class WaitingJob:
    """Why a job waits at a time of a replay."""

    job: str
    user: str
    submitted: float  # seconds from the start of the workload, as all times
    time: float  # for which the wait is explained
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
    strict_fifo : bool
        As in the replay.
    on_progress : callable, optional

    Raises
    ------
    InputError
        When there is no such job, or none of its tasks waits then: the message tells its state.
    RefusalError
        When the log is recorded, or the policy's offers are oblivious; see `check_explained`.

    Notes
    -----
    O(T + S + running and waiting tasks): the state is built, nothing is replayed again.
    """
    j = _find_job(workload, job)
    sets = np.arange(workload.first_set[j], workload.first_set[j + 1])
    state = _StateAt(workload, log, time)
    if not state.waiting[sets].any():
        raise InputError(_describe_state(workload, log, j, time), "job")
    scheduler, group_of = _scheduler_at(state, strict_fifo, j, on_progress)
    first = next(k for k in sets.tolist() if state.waiting[k])
    starts = _start_times(workload, log, sets if _is_gang(workload, j) else np.array([first]))
    explanation = scheduler.explain(group_of[first], time)
    reserved_for = None
    if explanation.reservation is not None:
        k = next(k for k, group in group_of.items() if group == explanation.reservation.group)
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
    """Raise `RefusalError` for a policy whose run logs hold too little to explain a wait."""
    if policy == RECORDED:
        fault = "a log does not say why tasks waited; replay a policy, such as -p drf/best-fit"
        raise RefusalError(policy, fault)
    if parse_policy(policy).is_oblivious:
        fault = "a run log does not hold declined offers, nor until when they are declined"
        raise RefusalError(policy, fault)


def longest_wait(
    workload: Workload, log: RunLog, user: str, since: float = 0.0
) -> tuple[str, float] | None:
    """Return a user's longest-waiting job and the middle of its wait in seconds; None without wait.

    Only jobs submitted from `since` on count. Raises InputError when there is no such user.
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


def _start_times(workload: Workload, log: RunLog, sets: IntArray) -> FloatArray:
    """Return the starts of the tasks of consecutive sets."""
    tasks = workload.first_task[[sets[0], sets[-1] + 1]]
    starts: FloatArray = log.start[(log.task >= tasks[0]) & (log.task < tasks[1])]
    return starts


class _StateAt:
    """Running and waiting tasks of each set at a time."""

    def __init__(self, workload: Workload, log: RunLog, time: float) -> None:
        check_explained(log.policy)
        self.workload, self.log, self.time = workload, log, time
        started = np.flatnonzero(log.start <= time)
        self.runs: IntArray = started[log.end[started] > time]
        done = started[(log.end[started] <= time) & ~log.lost[started]]
        set_of_task = np.repeat(np.arange(workload.n_sets), workload.set_tasks)
        self.set_of_run = set_of_task[log.task[self.runs]]
        self.running = np.bincount(self.set_of_run, minlength=workload.n_sets)
        ended = np.bincount(set_of_task[log.task[done]], minlength=workload.n_sets)
        job = workload.set_job
        is_present = (workload.job_submit[job] <= time) & (workload.job_cancel[job] > time)
        self.waiting = np.where(is_present, workload.set_tasks - self.running - ended, 0)

    def servers(self) -> tuple[BoolArray, BoolArray]:
        """Return the present and the draining servers, as masks."""
        workload = self.workload
        there, drained = workload.there_at_start.copy(), np.zeros(workload.n_servers, dtype=bool)
        for x in np.flatnonzero(workload.server_time <= self.time).tolist():
            s, event = workload.server[x], workload.server_event[x]
            there[s] = event != LEAVE
            drained[s] = event == DRAIN
        return there, drained


def _scheduler_at(
    state: _StateAt, strict_fifo: bool, explained: int, on_progress: Progress | None
) -> tuple[Scheduler, dict[int, int]]:
    """Rebuild the scheduler of a time; return also the task group of each active set.

    The steps: servers; queues with limits and quotas; task groups of the active sets; the running
    tasks; drained servers. Unplaceable sets are left out, as in the replay, except those of the job
    `explained`.
    """
    workload, log, kinds = state.workload, state.log, kinds_of(state.workload)
    quanta, cluster = to_quanta(kinds.problem), workload.cluster
    quantum: dict[str, Any] = {
        name: 1 / per_unit
        for name, per_unit in zip(cluster.resources, quanta.per_unit, strict=True)
    }

    def amounts(row: list[int]) -> dict[str, Any]:
        return {name: amount * q for (name, q), amount in zip(quantum.items(), row, strict=True)}

    largest = None
    if parse_policy(log.policy).slots:  # slots are parts of the largest server
        parts = amounts(largest_server(workload, quanta))
        largest = {name: amount for name, amount in parts.items() if amount}
    scheduler = Scheduler(
        list(cluster.resources),
        log.policy,
        quantum,
        strict_fifo=strict_fifo,
        largest=largest,
        devices=cluster.devices,
    )
    names = [
        f"{group}/{k}"
        for group, count in zip(cluster.groups, cluster.count, strict=True)
        for k in range(count)
    ]
    group_of_server = np.repeat(np.arange(len(cluster.groups)), cluster.count).tolist()
    places = _label_conditions(workload)
    labels = [
        {label: "yes" for k, place in enumerate(places) if eligible[k] for label in place or ()}
        for eligible in workload.places.T.tolist()
    ]
    there, drained = state.servers()
    sets = np.flatnonzero((state.waiting > 0) | (state.running > 0))
    sets = sets[~log.set_unplaceable[sets] | (workload.set_job[sets] == explained)]
    total, done = int(there.sum()) + len(sets) + len(state.runs), 0

    def tick() -> None:
        nonlocal done
        done += 1
        if on_progress is not None and done % 256 == 0:
            on_progress(done, total)

    # Servers
    capacity = [amounts(row) for row in quanta.capacity.tolist()]
    for s in np.flatnonzero(there).tolist():
        g = group_of_server[s]
        scheduler.add_server(names[s], capacity[g], labels[g], order=s)
        tick()
    # Queues
    for name, weight, parent in queues_of(workload):
        scheduler.add_queue(name, weight, parent)
        if name in workload.limits:
            limits = amounts_and_tasks(workload.limits[name], workload.cluster.resources)
            scheduler.set_limit(name, *limits)
        for quota in quotas_of(workload.quotas.get(name, ())):
            groups = groups_of(quota, cluster)
            where = [names[s] for s, g in enumerate(group_of_server) if g in groups]
            is_all = len(groups) == len(cluster.groups)
            scheduler.set_quota(name, quota.amounts, None if is_all else where or ["no server"])
    # Task groups
    demand = [amounts(row) for row in quanta.demand.tolist()]
    group_of: dict[int, int] = {}
    job_of_set = workload.set_job.tolist()
    for job, sets_of_job in groupby(sets.tolist(), key=job_of_set.__getitem__):
        members = list(sets_of_job)
        rows = [
            (
                demand[kinds.of_set[k]],
                int(state.waiting[k] + state.running[k]),
                places[workload.set_place[k]],
            )
            for k in members
        ]
        queue, now = workload.users[workload.job_user[job]], float(workload.job_submit[job])
        limit = float(workload.job_limit[job])
        times: dict[str, Any] = {"now": now, "time_limit": limit if limit < inf else None}
        if _is_gang(workload, job):
            group_of |= dict.fromkeys(members, scheduler.submit_gang(queue, rows, **times))
        else:
            for k, row in zip(members, rows, strict=True):
                group_of[k] = scheduler.submit(queue, *row, **times)
        tick()
    # Running tasks
    set_of_task = np.repeat(np.arange(workload.n_sets), workload.set_tasks)
    run_demand = quanta.demand[kinds.of_set[set_of_task[log.task]]]
    server_capacity = quanta.capacity[group_of_server]
    devices = {
        cluster.resources[r]: _devices_of_runs(
            log, state.time, run_demand[:, r], server_capacity[:, r], unit
        )
        for r, unit in quanta.device.items()
    }
    order = np.lexsort((state.runs, state.set_of_run))  # a gang's shapes in their order
    for run, k in zip(state.runs[order].tolist(), state.set_of_run[order].tolist(), strict=True):
        own = {name: found[run] for name, found in devices.items() if run in found}
        server, since = names[log.server[run]], float(log.start[run])
        scheduler.assume(group_of[k], server, since, devices=own or None)
        tick()
    for s in np.flatnonzero(drained & there).tolist():
        scheduler.drain(names[s])
    return scheduler, group_of


def _devices_of_runs(
    log: RunLog, time: float, demand: IntArray, capacity: IntArray, unit: int
) -> dict[int, list[int]]:
    """Replay starts and ends up to a time; return the devices of each running task, by its row.

    At equal times tasks end before others start, as in the event loop, and starts have the order of
    the log. Reserved starts may have had other devices. `demand` (n,) of each run, `capacity` (S,)
    of each server and `unit`, the size of one device, are in quanta of the resource. O(n log n).
    """
    # A run that is preempted as it starts takes nothing.
    rows = np.flatnonzero((log.start <= time) & (log.start < log.end) & (demand > 0))
    ended = rows[log.end[rows] <= time]
    at = np.concatenate([log.start[rows], log.end[ended]])
    is_start = np.concatenate([np.ones(len(rows), dtype=bool), np.zeros(len(ended), dtype=bool)])
    row = np.concatenate([rows, ended])
    free: dict[int, list[int]] = defaultdict(list)
    for server in np.unique(log.server[rows]).tolist():
        free[server] = [unit] * (int(capacity[server]) // unit)
    found: dict[int, list[int]] = {}
    for k in np.lexsort((row, is_start, at)).tolist():
        run = int(row[k])
        devices, asked = free[int(log.server[run])], int(demand[run])
        if is_start[k]:
            found[run] = choose_devices(devices, asked, unit)
            for number in found[run]:
                devices[number] -= min(asked, unit)
        else:
            for number in found.pop(run):
                devices[number] += min(asked, unit)
    return found


def _label_conditions(workload: Workload) -> list[dict[str, str] | None]:
    """Return each placement constraint as a condition on a label, whose name names the groups."""
    groups, uses = workload.cluster.groups, Counter[str]()
    conditions: list[dict[str, str] | None] = []
    for row in workload.places:
        allowed = [groups[g] for g in np.flatnonzero(row).tolist()]
        more = f" and {len(allowed) - NAMED} groups more" if len(allowed) > NAMED else ""
        label = f"servers of {', '.join(allowed[:NAMED])}{more}"
        uses[label] += 1
        if uses[label] > 1:  # another constraint with the same first groups
            label += f" ({uses[label]})"
        conditions.append(None if row.all() else {label: "yes"})
    return conditions


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

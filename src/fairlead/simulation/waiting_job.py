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

    Unplaceable sets are left out, as in the replay, except those of the job `explained`.
    """
    rebuild = _Rebuild(state, strict_fifo, explained, on_progress)
    rebuild.add_servers()
    rebuild.add_queues()
    rebuild.submit_sets()
    rebuild.assume_runs()
    rebuild.drain_servers()
    return rebuild.scheduler, rebuild.group_of


class _Rebuild:
    """The steps that rebuild the scheduler of a time."""

    def __init__(
        self, state: _StateAt, strict_fifo: bool, explained: int, on_progress: Progress | None
    ) -> None:
        self.state, self._on_progress = state, on_progress
        self.workload = workload = state.workload
        self.kinds = kinds_of(workload)
        self.quanta = to_quanta(self.kinds.problem)
        cluster = workload.cluster
        self.quantum: dict[str, Any] = {
            name: 1 / per_unit
            for name, per_unit in zip(cluster.resources, self.quanta.per_unit, strict=True)
        }
        self.server_names = [
            f"{group}/{k}"
            for group, count in zip(cluster.groups, cluster.count, strict=True)
            for k in range(count)
        ]
        self.group_of_server: list[int] = np.repeat(
            np.arange(len(cluster.groups)), cluster.count
        ).tolist()
        self.conditions = _label_conditions(workload)
        self.there, self.drained = state.servers()
        sets = np.flatnonzero((state.waiting > 0) | (state.running > 0))
        is_kept = ~state.log.set_unplaceable[sets] | (workload.set_job[sets] == explained)
        self.sets: list[int] = sets[is_kept].tolist()
        self.group_of: dict[int, int] = {}  # task group of each set
        self._done = 0
        self._steps = int(self.there.sum()) + len(self.sets) + len(state.runs)
        self.scheduler = Scheduler(
            list(cluster.resources),
            state.log.policy,
            self.quantum,
            strict_fifo=strict_fifo,
            largest=self._largest_server(),
            devices=cluster.devices,
        )

    def add_servers(self) -> None:
        labels = [
            {
                label: "yes"
                for k, condition in enumerate(self.conditions)
                if eligible[k]
                for label in condition or ()
            }
            for eligible in self.workload.places.T.tolist()
        ]
        capacity = [self._amounts(row) for row in self.quanta.capacity.tolist()]
        for s in np.flatnonzero(self.there).tolist():
            g = self.group_of_server[s]
            self.scheduler.add_server(self.server_names[s], capacity[g], labels[g], order=s)
            self._count_step()

    def add_queues(self) -> None:
        """Add the queues with their limits and quotas."""
        workload, cluster = self.workload, self.workload.cluster
        for name, weight, parent in queues_of(workload):
            self.scheduler.add_queue(name, weight, parent)
            if name in workload.limits:
                limits = amounts_and_tasks(workload.limits[name], cluster.resources)
                self.scheduler.set_limit(name, *limits)
            for quota in quotas_of(workload.quotas.get(name, ())):
                groups = groups_of(quota, cluster)
                where = [
                    server
                    for server, g in zip(self.server_names, self.group_of_server, strict=True)
                    if g in groups
                ]
                is_all = len(groups) == len(cluster.groups)
                servers = None if is_all else where or ["no server"]
                self.scheduler.set_quota(name, quota.amounts, servers)

    def submit_sets(self) -> None:
        """Submit the waiting and running tasks of the active sets."""
        workload, state = self.workload, self.state
        demand = [self._amounts(row) for row in self.quanta.demand.tolist()]
        for job, members in groupby(self.sets, key=workload.set_job.tolist().__getitem__):
            sets = list(members)
            rows = [
                (
                    demand[self.kinds.of_set[k]],
                    int(state.waiting[k] + state.running[k]),
                    self.conditions[workload.set_place[k]],
                )
                for k in sets
            ]
            queue, limit = workload.users[workload.job_user[job]], float(workload.job_limit[job])
            times: dict[str, Any] = {
                "now": float(workload.job_submit[job]),
                "time_limit": limit if limit < inf else None,
            }
            if _is_gang(workload, job):
                group = self.scheduler.submit_gang(queue, rows, **times)
                self.group_of |= dict.fromkeys(sets, group)
            else:
                for k, row in zip(sets, rows, strict=True):
                    self.group_of[k] = self.scheduler.submit(queue, *row, **times)
            self._count_step()

    def assume_runs(self) -> None:
        """Place the running tasks where the log has them."""
        state, log = self.state, self.state.log
        devices = self._devices()
        order = np.lexsort((state.runs, state.set_of_run))  # a gang's shapes in their order
        runs, sets = state.runs[order].tolist(), state.set_of_run[order].tolist()
        for run, k in zip(runs, sets, strict=True):
            own = {name: found[run] for name, found in devices.items() if run in found}
            server, since = self.server_names[log.server[run]], float(log.start[run])
            self.scheduler.assume(self.group_of[k], server, since, devices=own or None)
            self._count_step()

    def drain_servers(self) -> None:
        for s in np.flatnonzero(self.drained & self.there).tolist():
            self.scheduler.drain(self.server_names[s])

    def _devices(self) -> dict[str, dict[int, list[int]]]:
        """Return the devices of the running tasks, by resource and row of the log."""
        workload, log = self.workload, self.state.log
        set_of_task = np.repeat(np.arange(workload.n_sets), workload.set_tasks)
        demand = self.quanta.demand[self.kinds.of_set[set_of_task[log.task]]]
        capacity = self.quanta.capacity[self.group_of_server]
        return {
            workload.cluster.resources[r]: _devices_of_runs(
                log, self.state.time, demand[:, r], capacity[:, r], unit
            )
            for r, unit in self.quanta.device.items()
        }

    def _largest_server(self) -> dict[str, Any] | None:
        """Return the positive amounts of the largest server, whose parts are slots; else None."""
        if not parse_policy(self.state.log.policy).slots:
            return None
        amounts = self._amounts(largest_server(self.workload, self.quanta))
        return {name: amount for name, amount in amounts.items() if amount}

    def _amounts(self, row: list[int]) -> dict[str, Any]:
        """Return a row in quanta as amounts by resource."""
        return {name: n * q for (name, q), n in zip(self.quantum.items(), row, strict=True)}

    def _count_step(self) -> None:
        self._done += 1
        if self._on_progress is not None and self._done % 256 == 0:
            self._on_progress(self._done, self._steps)


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

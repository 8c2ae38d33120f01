"""The problem of one moment of a trace: the present servers, and the users with active tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fairlead.errors import InputError
from fairlead.model.allocation import FORMAT_VERSION
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.devices import with_devices
from fairlead.model.fitting import ROUNDING
from fairlead.model.problem import Problem
from fairlead.model.run_log import RECORDED
from fairlead.model.workload import JOIN, IndexArray, Workload


@dataclass(frozen=True)
class ProblemAtTime:
    """A problem, and the numbers of tasks from which it was made."""

    problem: Problem
    held: FloatArray  # (N, G, R): amounts of running tasks on the servers that the trace records
    running: int  # tasks
    waiting: int  # tasks
    too_large: int  # active tasks left out, as they fit no present server that they may use
    unplaced: int  # running tasks whose server is not recorded; `held` lacks them
    averaged: tuple[str, ...]  # users with tasks of several shapes or places
    overfull: tuple[str, ...]  # servers on which more runs than they have, by the trace

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values, for JSON."""
        return {
            "users": self.problem.n_users,
            "groups": self.problem.n_groups,
            "servers": int(self.problem.count.sum()),
            "running": self.running,
            "waiting": self.waiting,
            "too_large": self.too_large,
            "averaged": list(self.averaged),
            "overfull": list(self.overfull),
        }

    def allocation(self) -> dict[str, Any]:
        """Return the held amounts in the layout of allocation files.

        Raises InputError where the trace does not record the server of each running task.
        """
        if self.unplaced:
            fault = f"the trace does not record the servers of {self.unplaced:,} of "
            raise InputError(f"{fault}{self.running:,} running tasks", "--held")
        cluster = self.problem.cluster
        rows = []
        for name, weight, amounts in zip(
            self.problem.users.names, self.problem.weight.tolist(), self.held, strict=True
        ):
            on = np.flatnonzero(amounts.any(axis=1)).tolist()
            held = {
                cluster.groups[g]: dict(zip(cluster.resources, amounts[g].tolist(), strict=True))
                for g in on
            }
            rows.append({"name": name, "weight": weight, "amounts": held})
        return {"fairlead": FORMAT_VERSION, "mechanism": RECORDED, "users": rows}


def problem_at(workload: Workload, seconds: float) -> ProblemAtTime:
    """Return the users with tasks that wait or run at a time of the recorded run, as a problem.

    A task is active from its submission to its recorded end. A task without a recorded start waits
    until its job is withdrawn. A user's demand is the mean of its active tasks, its limit their
    number; it may use the groups that any of them may use. Weights and queues are those of the
    trace; its limits and quotas are left out. Servers that drain or are away count only while tasks
    run on them. Devices are kept where each mean is of a part of one, or of whole ones.

    Parameters
    ----------
    workload : Workload
    seconds : float
        Since the start of the trace.

    Raises
    ------
    InputError
        For a time after the end of the trace, a time at which no task is active, or a user whose
        mean task fits no server.

    Notes
    -----
    Cost O(T + X + servers + K G) for K sets with active tasks.

    Examples
    --------
    >>> from fairlead.traces.generator import generate_day
    >>> day = generate_day(servers=20, users=5, jobs=200, hours=24)
    >>> problem_at(day, 3600).problem.n_users <= 5
    True
    """
    active, runs = _active_tasks(workload, seconds)
    number = np.add.reduceat(active, workload.first_task[:-1], dtype=np.int64)
    count = _present_servers(workload, seconds, runs)
    sets = np.flatnonzero(number)
    places, shape = workload.places[workload.set_place[sets]], workload.set_shape[sets]
    fit = (places & workload.fits[shape] & (count > 0)).any(axis=1)
    too_large = int(number[sets[~fit]].sum())
    sets, places, shape = sets[fit], places[fit], shape[fit]
    if not len(sets):
        fits = " that fits a server" if too_large else ""
        raise InputError(f"no task{fits} waits or runs at {seconds:g} s", "--at")
    names, first, user = np.unique(
        workload.job_user[workload.set_job[sets]], return_index=True, return_inverse=True
    )
    limit = np.bincount(user, number[sets])
    # As a distance from the first shape, which keeps the amounts of users with one shape exact.
    demand = workload.shapes[shape[first]]
    distance = np.zeros_like(demand)
    np.add.at(distance, user, (workload.shapes[shape] - demand[user]) * number[sets, None])
    demand = demand + distance / limit[:, None]
    eligible = np.zeros((len(names), len(count)), dtype=bool)
    np.logical_or.at(eligible, user, places)
    cluster = workload.cluster
    users = [workload.users[n] for n in names]
    for name, mean, allowed in zip(users, demand, eligible & (count > 0), strict=True):
        if not (mean <= cluster.capacity[allowed] * (1 + ROUNDING)).all(axis=1).any():
            fault = f"user {name!r:.60}: the mean of its tasks fits no server that it may use"
            raise InputError(f"{fault}; leave the user out with --exclude", "--at")
    problem = Problem.from_arrays(
        cluster.capacity,
        demand,
        count=count,
        weight=workload.weight[names],
        eligible=eligible,
        task_limit=limit,
        resources=cluster.resources,
        units=cluster.units,
        groups=cluster.groups,
        users=users,
        labels=cluster.labels,
        devices=with_devices(cluster, demand, cluster.devices).devices,
    )
    if workload.queues is not None:
        problem = problem.in_tree(workload.queues.of_users(names.astype(np.int64)))
    kept = np.zeros(workload.n_sets, dtype=bool)
    kept[sets] = True
    runs &= np.repeat(kept, workload.set_tasks)
    running = int(runs.sum())
    used = _used_amounts(workload, runs, names)
    waiting = int(number[sets].sum()) - running
    kinds = np.unique(np.column_stack([user, workload.set_place[sets], shape]), axis=0)[:, 0]
    averaged = tuple(users[n] for n in np.flatnonzero(np.bincount(kinds) > 1))
    return ProblemAtTime(
        problem, used.held, running, waiting, too_large, used.unplaced, averaged, used.overfull
    )


def _active_tasks(workload: Workload, seconds: float) -> tuple[BoolArray, BoolArray]:
    """Return which tasks wait or run, and which run; both (T,) bool."""
    job = np.repeat(workload.set_job, workload.set_tasks)
    start = workload.task_start
    started = np.isfinite(start)
    end: FloatArray = np.where(started, start + workload.task_duration, workload.job_cancel[job])
    last = max(workload.span, float(end[np.isfinite(end)].max(initial=0.0)))
    if seconds > last:
        raise InputError(f"{seconds:g} s is after the end of the trace, {last:g} s", "--at")
    active = (workload.job_submit[job] <= seconds) & (seconds < end)
    return active, active & started & (start <= seconds)


class _UsedAmounts(NamedTuple):
    held: FloatArray
    unplaced: int
    overfull: tuple[str, ...]


def _used_amounts(workload: Workload, runs: BoolArray, names: IndexArray) -> _UsedAmounts:
    """Add up the tasks that run, by user and group and by server."""
    tasks = np.flatnonzero(runs)
    placed = tasks[workload.task_server[tasks] >= 0]
    sets = np.repeat(np.arange(workload.n_sets), workload.set_tasks)[placed]
    demand = workload.shapes[workload.set_shape[sets]]
    user = np.searchsorted(names, workload.job_user[workload.set_job[sets]])
    first, cluster = workload.first_server, workload.cluster
    server = workload.task_server[placed]
    group = np.searchsorted(first, server, side="right") - 1
    held = np.zeros((len(names), len(cluster.groups), len(cluster.resources)))
    np.add.at(held, (user, group), demand)
    used_servers, row = np.unique(server, return_inverse=True)
    used = np.zeros((len(used_servers), len(cluster.resources)))
    np.add.at(used, row, demand)
    groups = np.searchsorted(first, used_servers, side="right") - 1
    beyond = (used > cluster.capacity[groups] * (1 + ROUNDING)).any(axis=1)
    overfull = tuple(
        f"{cluster.groups[g]}-{s - first[g]}"
        for s, g in zip(used_servers[beyond].tolist(), groups[beyond].tolist(), strict=True)
    )
    return _UsedAmounts(held, len(tasks) - len(placed), overfull)


def _present_servers(workload: Workload, seconds: float, runs: BoolArray) -> IntArray:
    """Return (G,) int: the servers that take tasks at a time, or on which tasks run."""
    there = workload.there_at_start.copy()
    past = workload.server_time <= seconds
    # Times ascend, so the last event of a server stays.
    there[workload.server[past]] = workload.server_event[past] == JOIN
    used = workload.task_server[runs]
    there[used[used >= 0]] = True
    present: IntArray = np.add.reduceat(there, workload.first_server[:-1], dtype=np.int64)
    return present

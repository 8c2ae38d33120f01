"""Build the problem at one time of a trace from its present servers and active tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, compress
from itertools import count as count_from
from typing import Any, NamedTuple

import numpy as np

from fairlead.errors import InputError
from fairlead.model.allocation import FORMAT_VERSION
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.devices import with_devices
from fairlead.model.fitting import ROUNDING
from fairlead.model.problem import Problem
from fairlead.model.queues import Queues
from fairlead.model.run_log import RECORDED
from fairlead.model.task_kinds import (
    TaskKinds,
    is_name_of_kind,
    kinds_of_tasks,
    weights_of_kinds,
)
from fairlead.model.workload import JOIN, Workload


@dataclass(frozen=True)
class ProblemAtTime:
    """A problem, and the tasks from which it was made."""

    problem: Problem
    held: FloatArray  # (N, G, R): amounts of the running tasks whose server is recorded
    running: int  # number of running tasks
    waiting: int  # number of waiting tasks
    too_large: int  # active tasks left out, as they fit no present server that they may use
    unplaced: int  # running tasks whose server is not recorded; `held` does not include them
    # For each user of the trace with several kinds of tasks: its users of the problem, one a kind.
    kinds: Mapping[str, list[str]]
    of_one_size: bool  # whether all tasks of each user of the problem are equal
    overfull: tuple[str, ...]  # servers whose recorded tasks exceed the capacity
    # New names of users of the trace whose names look like those of kinds, such as a@b.
    renamed: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values, for JSON."""
        return {
            "users": self.problem.n_users,
            "groups": self.problem.n_groups,
            "servers": int(self.problem.count.sum()),
            "running": self.running,
            "waiting": self.waiting,
            "too_large": self.too_large,
            "kinds": dict(self.kinds),
            "overfull": list(self.overfull),
            "renamed": dict(self.renamed),
        }

    def allocation(self) -> dict[str, Any]:
        """Return the held amounts in the layout of allocation files.

        Raises InputError if the trace does not record the server of each running task.
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
        return {
            "fairlead": FORMAT_VERSION,
            "mechanism": RECORDED,
            # If tasks differ in size, a user may hold less than one mean task.
            "whole_tasks": self.of_one_size,
            "users": rows,
        }


def problem_at(workload: Workload, seconds: float) -> ProblemAtTime:
    """Return the users with tasks that wait or run at a time of the recorded run, as a problem.

    - A task is active from its submission to its recorded end. A task without a recorded start
      waits until its job is withdrawn.
    - A user's demand is the mean of its active tasks; its task limit is their number.
    - A user with several kinds of tasks (`fairlead.model.task_kinds`) is split into a user for each
      kind, named by the groups open to it, such as ``ana@big`` and ``ana@old``. These share the
      weight. In a tree of queues, the split user becomes their queue.
    - Weights and queues are those of the trace; its limits and quotas are left out.
    - Servers that drain or are absent count only while tasks run on them.
    - A resource stays in devices if each mean demand is a part of one device or a whole number of
      devices.

    Parameters
    ----------
    workload : Workload
    seconds : float
        Time since the start of the trace.

    Raises
    ------
    InputError
        For a time after the end of the trace, a time without active tasks, or a kind of tasks whose
        mean fits no server.

    Notes
    -----
    Cost O(tasks + servers + server events), and O(groups) for each set with active tasks.

    Examples
    --------
    >>> from fairlead.traces.generator import generate_day
    >>> day = generate_day(servers=20, users=5, jobs=200, hours=24)
    >>> problem_at(day, 3600).problem.n_users <= 5
    True
    """
    # The sets with active tasks that fit a server, with their shapes and places.
    active, runs = _active_tasks(workload, seconds)
    n_active = np.add.reduceat(active, workload.first_task[:-1], dtype=np.int64)
    count = _present_servers(workload, seconds, runs)
    sets = np.flatnonzero(n_active)
    # Places that differ only in groups without present servers are the same for kinds of tasks.
    places, place_number = np.unique(workload.places & (count > 0), axis=0, return_inverse=True)
    place = place_number.reshape(-1)[workload.set_place[sets]]  # a column in NumPy 2.0.0
    shape = workload.set_shape[sets]
    fit = (places[place] & workload.fits[shape]).any(axis=1)
    too_large = int(n_active[sets[~fit]].sum())
    sets, place, shape = sets[fit], place[fit], shape[fit]
    if not len(sets):
        fits = " that fits a server" if too_large else ""
        raise InputError(f"no task{fits} waits or runs at {workload.time_text(seconds)}", "--at")
    # The users of the problem are the kinds of these tasks.
    user = workload.job_user[workload.set_job[sets]]
    kinds = kinds_of_tasks(user, place, workload.shapes[shape])
    limit = np.bincount(kinds.of_set, n_active[sets])
    # The mean is the first shape plus a mean difference, which is exact for equal tasks.
    _, first = np.unique(kinds.of_set, return_index=True)
    first_shape = workload.shapes[shape[first]]
    differences = workload.shapes[shape] - first_shape[kinds.of_set]
    sums = np.zeros_like(first_shape)
    np.add.at(sums, kinds.of_set, differences * n_active[sets, None])
    demand = first_shape + sums / limit[:, None]
    eligible = np.zeros((len(limit), len(count)), dtype=bool)  # also on absent servers
    np.logical_or.at(eligible, kinds.of_set, workload.places[workload.set_place[sets]])
    cluster = workload.cluster
    users = _name_kinds(workload, kinds, demand, places[kinds.place], count > 0)
    for name, mean, allowed in zip(users, demand, places[kinds.place], strict=True):
        if not (mean <= cluster.capacity[allowed] * (1 + ROUNDING)).all(axis=1).any():
            fault = f"user {name!r:.60}: the mean of its tasks fits no server that it may use"
            raise InputError(f"{fault}; leave the user out with --exclude", "--at")
    wanted, present_capacity = demand * limit[:, None], count @ cluster.capacity
    problem = Problem.from_arrays(
        cluster.capacity,
        demand,
        count=count,
        weight=weights_of_kinds(workload.weight, kinds.user, wanted, present_capacity),
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
        problem = problem.in_tree(_queues_of_kinds(workload, workload.queues, kinds.user))
    # The amounts that running tasks of these kinds hold.
    kind_of_set = np.full(workload.n_sets, -1)
    kind_of_set[sets] = kinds.of_set
    runs &= np.repeat(kind_of_set >= 0, workload.set_tasks)
    running = int(runs.sum())
    used = _sum_running(workload, runs, kind_of_set, len(users))
    split = _split_users(kinds.user)
    return ProblemAtTime(
        problem=problem,
        held=used.held,
        running=running,
        waiting=int(n_active[sets].sum()) - running,
        too_large=too_large,
        unplaced=used.unplaced,
        kinds={
            workload.users[n]: [users[m] for m in np.flatnonzero(kinds.user == n).tolist()]
            for n in split
        },
        of_one_size=not differences.any(),
        overfull=used.overfull,
        renamed={
            workload.users[n]: name
            for n, name in zip(kinds.user.tolist(), users, strict=True)
            if n not in split and name != workload.users[n]
        },
    )


def end_of_run(workload: Workload) -> float:
    """Return the last time of a trace, in seconds; no task that ends then is active. O(tasks)."""
    if workload.recorded_until is not None:
        return workload.recorded_until
    end = _end_times(workload)
    return max(workload.span, float(end[np.isfinite(end)].max(initial=0.0)))


def _end_times(workload: Workload) -> FloatArray:
    """Return (T,) when each task ended or was withdrawn; infinite if neither is recorded."""
    job = np.repeat(workload.set_job, workload.set_tasks)
    ended = workload.task_start + workload.task_duration
    return np.where(np.isfinite(workload.task_start), ended, workload.job_cancel[job])


def _split_users(user_of_kind: IntArray) -> list[int]:
    """Return the users with several kinds of tasks."""
    split: list[int] = np.flatnonzero(np.bincount(user_of_kind) > 1).tolist()
    return split


def _name_kinds(
    workload: Workload,
    kinds: TaskKinds,
    demand: FloatArray,
    eligible: BoolArray,
    present: BoolArray,
) -> list[str]:
    """Return a name for each kind: the user's name, for a split user with servers and resources.

    `eligible` (M, G) has the present groups of each kind, `present` (G,) all present groups. A user
    of one kind whose name looks like that of a kind, such as ``ana@big``, is renamed, so that
    reports do not add its amounts to those of ``ana``.
    """
    cluster, split = workload.cluster, set(_split_users(kinds.user))
    names: list[str] = []
    queues = () if workload.queues is None else workload.queues.names
    taken = {*workload.users, *queues}
    for m, n in enumerate(kinds.user.tolist()):
        user = workload.users[n]
        if n not in split:
            if is_name_of_kind(user, cluster):
                numbered = (f"{user} (user {k})" for k in count_from(2))
                free = (name for name in chain([f"{user} (user)"], numbered) if name not in taken)
                user = next(free)
            names.append(user)
            taken.add(user)
            continue
        everywhere = bool((eligible[m] == present).all())
        place = "all" if everywhere else _name_place(list(compress(cluster.groups, eligible[m])))
        name = f"{user}@{place}"
        if ((kinds.user == n) & (kinds.place == kinds.place[m])).sum() > 1:
            name = f"{name}:{'+'.join(compress(cluster.resources, demand[m] > 0))}"
        free = (f"{name} ({k})" for k in count_from(2))
        names.append(name if name not in taken else next(k for k in free if k not in taken))
        taken.add(names[-1])
    return names


def _name_place(groups: list[str]) -> str:
    """Join the names of at most two groups; for more, name the first and count the others."""
    return "+".join(groups) if len(groups) <= 2 else f"{groups[0]}+{len(groups) - 1} more"


def _queues_of_kinds(workload: Workload, queues: Queues, user_of_kind: IntArray) -> Queues:
    """Return the tree with each split user as the queue of its kinds."""
    split = [n for n in _split_users(user_of_kind) if workload.weight[n] > 0]
    above = queues.of_user.copy()
    above[split] = len(queues.names) + np.arange(len(split))
    return Queues(
        (*queues.names, *(workload.users[n] for n in split)),
        np.append(queues.weight, workload.weight[split]),
        np.append(queues.parent, queues.of_user[split]),
        above[user_of_kind],
    )


def _active_tasks(workload: Workload, seconds: float) -> tuple[BoolArray, BoolArray]:
    """Return whether each task waits or runs, and whether it runs; both (T,) bool.

    Raises InputError for a time after the end of the trace.
    """
    submit = np.repeat(workload.job_submit[workload.set_job], workload.set_tasks)
    start, end = workload.task_start, _end_times(workload)
    last = end_of_run(workload)
    if seconds > last:
        asked, end_time = (workload.time_text(time) for time in (seconds, last))
        raise InputError(f"{asked} is after the end of the trace, {end_time}", "--at")
    active = (submit <= seconds) & (seconds < end)
    return active, active & np.isfinite(start) & (start <= seconds)


class _UsedAmounts(NamedTuple):
    """Three fields of `ProblemAtTime`."""

    held: FloatArray
    unplaced: int
    overfull: tuple[str, ...]


def _sum_running(
    workload: Workload, runs: BoolArray, kind_of_set: IntArray, n_kinds: int
) -> _UsedAmounts:
    """Add up the amounts of running tasks by kind and group; find overfull servers.

    `kind_of_set` (K,) is the kind of each set.
    """
    tasks = np.flatnonzero(runs)
    placed = tasks[workload.task_server[tasks] >= 0]
    sets = np.repeat(np.arange(workload.n_sets), workload.set_tasks)[placed]
    demand = workload.shapes[workload.set_shape[sets]]
    first, cluster = workload.first_server, workload.cluster
    server = workload.task_server[placed]
    group = np.searchsorted(first, server, side="right") - 1
    held = np.zeros((n_kinds, len(cluster.groups), len(cluster.resources)))
    np.add.at(held, (kind_of_set[sets], group), demand)
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
    """Return (G,) int: the number of servers of each group that accept or run tasks at a time."""
    is_present = workload.there_at_start.copy()
    past = workload.server_time <= seconds
    # Events are in order of time, so the last event of each server decides.
    is_present[workload.server[past]] = workload.server_event[past] == JOIN
    used = workload.task_server[runs]
    is_present[used[used >= 0]] = True
    present: IntArray = np.add.reduceat(is_present, workload.first_server[:-1], dtype=np.int64)
    return present

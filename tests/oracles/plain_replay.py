"""Replay a workload, and fill a problem, by the definitions: short programs over a scheduler."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, inf
from typing import Any

import numpy as np

import fairlead
from fairlead.errors import InputError
from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta
from fairlead.model.quantity import exact
from fairlead.model.run_log import RunLog
from fairlead.model.task_kinds import kinds_of
from fairlead.model.workload import DRAIN, JOIN, LEAVE, Workload
from oracles.plain_scheduler import Scheduler

Row = tuple[int, int, float, float, bool]  # task, server, start, end, lost


def plain_replay(
    workload: Workload,
    policy: str,
    *,
    on_progress: Callable[[int, float], None] | None = None,
    **options: Any,
) -> RunLog:
    """Replay a workload by the definitions; the options are those of the plain scheduler."""
    make: Callable[..., Any] = Scheduler
    if "/over-" in policy:
        make = fairlead.Scheduler  # the plain one has no preemption
    replay = PlainReplay(make, workload, policy, **options)
    rows = replay.run()
    task, server, start, end, lost = zip(*rows, strict=True) if rows else [()] * 5
    log = RunLog(
        policy=policy,
        task=np.array(task, dtype=np.int32),
        server=np.array(server, dtype=np.int32),
        start=np.array(start, dtype=float),
        end=np.array(end, dtype=float),
        lost=np.array(lost, dtype=bool),
        set_unplaceable=np.array(replay.unplaceable, dtype=bool),
    )
    if on_progress is not None:
        on_progress(len(log.task), log.makespan)
    return log


class PlainReplay:
    """Runs a workload by a scheduler, one event after the other."""

    def __init__(
        self, make: Callable[..., Any], workload: Workload, policy: str, **options: Any
    ) -> None:
        self.w = workload
        self.preempts = "/over-" in policy
        self.unplaceable = unplaceable_sets(workload, policy)
        cluster = workload.cluster
        if policy.startswith("slots:"):
            on_all = (cluster.capacity > 0).all(axis=0)
            options["largest"] = self.amounts(cluster.capacity.max(axis=0) * on_all)
        per_unit = to_quanta(kinds_of(workload).problem).per_unit
        quanta = {r: 1 / units for r, units in zip(cluster.resources, per_unit, strict=True)}
        options["devices"] = cluster.devices
        self.scheduler = make(list(cluster.resources), policy, quanta, **options)
        self.group_of = [g for g, k in enumerate(cluster.count.tolist()) for _ in range(k)]
        self.present: set[int] = set()  # servers that joined and have not left
        tree = workload.queues
        for row in [] if tree is None else tree.rows():
            self.scheduler.add_queue(row["name"], row.get("weight", 1), row.get("parent"))
        above = [None] * len(workload.users) if tree is None else tree.user_queue()
        for n, user in enumerate(workload.users):
            self.scheduler.add_queue(user, float(workload.weight[n]), above[n])
        for name, limit in workload.limits.items():
            amounts = {r: most for r, most in limit.items() if r != "tasks"}
            self.scheduler.set_limit(name, amounts, limit.get("tasks"))
        for name, rows in workload.quotas.items():
            for row in rows:
                amounts = {r: most for r, most in row.items() if r != "where"}
                groups = row.get("where")
                on = groups and [
                    f"s{i}" for i, g in enumerate(self.group_of) if cluster.groups[g] in groups
                ]
                self.scheduler.set_quota(name, amounts, on)
        for i in range(workload.n_servers):
            if workload.there_at_start[i]:
                self.join(i)
        self.groups: dict[int, list[int]] = {}  # by job
        self.first_task: dict[int, int] = {}  # by group: its first task in the workload
        self.running: dict[int, int] = {}  # by running task: its row in the log
        self.log: list[Row] = []

    def amounts(self, row: Any) -> dict[str, float]:
        return dict(zip(self.w.cluster.resources, row.tolist(), strict=True))

    def join(self, i: int) -> None:
        if i in self.present:
            self.scheduler.undrain(f"s{i}")
        else:
            capacity = self.amounts(self.w.cluster.capacity[self.group_of[i]])
            self.scheduler.add_server(f"s{i}", capacity, order=i)
            self.present.add(i)

    def leave(self, i: int, now: float) -> None:
        self.present.discard(i)
        for task in self.scheduler.remove_server(f"s{i}"):
            row = self.running.pop(task)
            self.log[row] = (*self.log[row][:3], now, True)

    def submit(self, job: int, now: float) -> None:
        """Submit the sets of a job that are placeable: a gang together, others as groups."""
        w, sets = self.w, range(*self.w.first_set[job : job + 2].tolist())
        user = w.users[w.job_user[job]]
        limit = float(w.job_limit[job])
        options = {"now": now} | ({"time_limit": limit} if limit < inf else {})
        members = {}
        for k in sets:
            allowed = w.places[w.set_place[k]]
            where = [f"s{i}" for i, g in enumerate(self.group_of) if allowed[g]]
            demand = self.amounts(w.shapes[w.set_shape[k]])
            if not self.unplaceable[k]:
                members[k] = (demand, int(w.set_tasks[k]), where)
        if w.job_gang[job] and w.job_tasks[job] > 1 and members:
            self.add_group(
                job, sets[0], self.scheduler.submit_gang(user, list(members.values()), **options)
            )
        else:
            for k, (demand, tasks, where) in members.items():
                group = self.scheduler.submit(user, demand, tasks, where=where, **options)
                self.add_group(job, k, group)

    def add_group(self, job: int, first_set: int, group: int) -> None:
        self.groups.setdefault(job, []).append(group)
        self.first_task[group] = int(self.w.first_task[first_set])

    def cancel(self, job: int) -> None:
        for group in self.groups.get(job, []):
            try:
                self.scheduler.cancel(group)
            except InputError:  # it has ended
                continue

    def run(self) -> list[Row]:
        """Replay. At each time: ends of tasks, servers, arrivals, withdrawals, then placements."""
        w, step = self.w, {JOIN: self.join, DRAIN: lambda i: self.scheduler.drain(f"s{i}")}
        changes = list(
            zip(w.server_time.tolist(), w.server_event.tolist(), w.server.tolist(), strict=True)
        )
        submits, cancels = list(enumerate(w.job_submit)), list(enumerate(w.job_cancel))
        while True:
            times = [self.log[row][3] for row in self.running.values()] + [c[0] for c in changes]
            if not self.preempts:
                times.append(float(self.scheduler.next_offer()))
            now = min([*times, *(t for _, t in submits + cancels)], default=inf)
            if now == inf:
                return self.log
            self.scheduler.advance(now)
            for task, row in sorted(self.running.items(), key=lambda r: r[1]):
                if self.log[row][3] == now:
                    self.scheduler.finish(task)
                    del self.running[task]
            for _, event, i in [c for c in changes if c[0] == now]:
                self.leave(i, now) if event == LEAVE else step[event](i)
            for job, _ in [s for s in submits if s[1] == now]:
                self.submit(job, now)
            for job, _ in [c for c in cancels if c[1] == now]:
                self.cancel(job)
            changes = [c for c in changes if c[0] > now]
            submits = [s for s in submits if s[1] > now]
            cancels = [c for c in cancels if c[1] > now]
            self.place(now)
            while self.preempts and self.preempt(now):
                self.place(now)

    def place(self, now: float) -> None:
        for start in self.scheduler.place(now):
            self.log_start(start, now)

    def preempt(self, now: float) -> bool:
        """Run a round of preemption and stop its victims; return whether a task started."""
        found = self.scheduler.preempt(now, limit=64)
        for starts, victims in found:
            for task in victims:
                row = self.running.pop(task)
                self.log[row] = (*self.log[row][:3], float(now), True)
                if task in self.scheduler._state.running:  # else its gang stopped before
                    self.scheduler.evict(task)
            for start in starts:
                self.log_start(start, now)
        return bool(found)

    def log_start(self, start: Any, now: float) -> None:
        task = self.first_task[start.group] + start.index
        self.running[start.task] = len(self.log)
        end = now + float(self.w.task_duration[task])
        self.log.append((task, int(start.server[1:]), float(now), end, False))


def unplaceable_sets(w: Workload, policy: str) -> list[bool]:
    """Return whether each task set is too large for the empty servers."""
    policy = policy.removesuffix("/over-share")
    capacity = [[exact(a) for a in row] for row in w.cluster.capacity.tolist()]
    shapes = [[exact(a) for a in row] for row in w.shapes.tolist()]
    if policy.startswith("slots:"):
        capacity, shapes = in_slots(capacity, shapes, int(policy.removeprefix("slots:")))
    rows = list(zip(capacity, w.cluster.count.tolist(), strict=True))
    return [_is_unplaceable(w, k, rows, shapes) for k in range(w.n_sets)]


def in_slots(
    capacity: list[list[Fraction]], shapes: list[list[Fraction]], slots: int
) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    """Return capacities and demands with slots in place of the resources that all servers have."""
    shared = [r for r in range(len(capacity[0])) if all(c[r] > 0 for c in capacity)]
    others = [r for r in range(len(capacity[0])) if r not in shared]
    slot = {r: max(c[r] for c in capacity) / slots for r in shared}
    rows = [
        [Fraction(min(floor(c[r] / slot[r]) for r in shared)), *(c[r] for r in others)]
        for c in capacity
    ]
    tasks = [
        [Fraction(max(ceil(d[r] / slot[r]) for r in shared)), *(d[r] for r in others)]
        for d in shapes
    ]
    return rows, tasks


def _is_unplaceable(
    w: Workload, k: int, servers: list[tuple[list[Fraction], int]], shapes: list[list[Fraction]]
) -> bool:
    """Return whether a set is too large; a gang's sets also if those of one shape are together."""
    job = w.set_job[k]
    is_gang = w.job_gang[job] and w.job_tasks[job] > 1
    sets = range(*w.first_set[job : job + 2].tolist()) if is_gang else [k]
    alike = [[t for t in sets if w.set_shape[t] == w.set_shape[s]] for s in sets]
    for together in [[s] for s in sets] + alike:
        allowed = w.places[w.set_place[together]].any(axis=0)
        demand = shapes[w.set_shape[together[0]]]
        room = sum(
            n * min(floor(c / d) for c, d in zip(capacity, demand, strict=True) if d > 0)
            for (capacity, n), may in zip(servers, allowed, strict=True)
            if may
        )
        if room < (sum(int(w.set_tasks[s]) for s in together) if is_gang else 1):
            return True
    return False


def filling(problem: Problem, policy: str, seed: int = 0) -> Scheduler:
    """Return a scheduler to which all tasks of a problem were submitted."""
    resources, users = list(problem.cluster.resources), problem.users.names
    per_unit = to_quanta(problem).per_unit
    quanta = {r: 1 / units for r, units in zip(resources, per_unit, strict=True)}
    scheduler = Scheduler(resources, policy, quanta, seed, devices=problem.cluster.devices)

    def amounts(row: Any) -> dict[str, float]:
        return dict(zip(resources, row.tolist(), strict=True))

    group_of = [g for g, count in enumerate(problem.count.tolist()) for _ in range(count)]
    for i, g in enumerate(group_of):
        scheduler.add_server(f"s{i}", amounts(problem.cluster.capacity[g]))
    for n, user in enumerate(users):
        scheduler.add_queue(user, problem.weight.tolist()[n])
        limit = problem.task_limit.tolist()[n]
        if limit >= 1:
            where = [f"s{i}" for i, g in enumerate(group_of) if problem.users.eligible[n, g]]
            tasks = 2**40 if limit == inf else int(limit)
            scheduler.submit(user, amounts(problem.demand[n]), tasks, where=where)
    return scheduler


def plain_fill(problem: Problem, policy: str, seed: int = 0) -> list[tuple[int, int]]:
    """Place all tasks of a problem; return the user and the server of each placement."""
    users = problem.users.names
    placed = filling(problem, policy, seed).place()
    return [(users.index(p.queue), int(p.server[1:])) for p in placed]


def is_filling(problem: Problem, policy: str, order: list[tuple[int, int]]) -> bool:
    """Return whether a policy makes these placements; in rounds, for some orders of servers."""
    if "/rrr" not in policy:
        return plain_fill(problem, policy) == order
    scheduler = filling(problem, policy)
    servers = scheduler.servers_in_order()

    def roomy() -> set[int]:
        """Return the servers on which some user's task fits."""
        return {i for i, server in enumerate(servers) if scheduler.next_plan(server)}

    roomy_after = [roomy()]
    for n, i in order:
        plan = scheduler.next_plan(servers[i])
        if [group.queue.name for group, _, _ in plan] != [problem.users.names[n]]:
            return False
        scheduler.start(plan, 0.0)
        roomy_after.append(roomy())
    # A round visits no server twice, and each server with room for a task at the round's end.
    ends = {0}
    for end in range(1, len(order) + 1):
        for begin in sorted(ends):
            visited = [i for _, i in order[begin:end]]
            if len(set(visited)) == len(visited) and roomy_after[end] <= set(visited):
                ends.add(end)
    return len(order) in ends and not roomy_after[-1]

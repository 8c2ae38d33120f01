"""A workload replayed, and a problem filled, as short programs over an open scheduler."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from fairlead.errors import InputError
from fairlead.model.problem import Problem
from fairlead.model.workload import DRAIN, JOIN, LEAVE, Workload

Row = tuple[int, int, float, float, bool]  # task, server, start, end, lost


class OpenReplay:
    """What a scheduler makes of a workload, which is told to it one event after the other.

    `make` gives a scheduler for (resources, policy, seed=, strict_fifo=, largest=).
    """

    def __init__(
        self,
        make: Callable[..., Any],
        workload: Workload,
        policy: str,
        unplaceable: list[bool],
        *,
        strict: bool = False,
        seed: int = 0,
    ) -> None:
        self.w, self.unplaceable = workload, unplaceable
        cluster = workload.cluster
        options = {}
        if policy.startswith("slots:"):
            on_all = (cluster.capacity > 0).all(axis=0)
            options["largest"] = self.amounts(cluster.capacity.max(axis=0) * on_all)
        self.scheduler = make(
            list(cluster.resources), policy, seed=seed, strict_fifo=strict, **options
        )
        self.group_of = [g for g, k in enumerate(cluster.count.tolist()) for _ in range(k)]
        self.there: set[int] = set()
        for user, weight in zip(workload.users, workload.weight.tolist(), strict=True):
            self.scheduler.add_queue(user, weight)
        for i in range(workload.n_servers):
            if workload.there_at_start[i]:
                self.join(i)
        self.groups: dict[int, list[int]] = {}  # of each job
        self.first_task: dict[int, int] = {}  # of each group
        self.running: dict[int, int] = {}  # row of each task that runs
        self.log: list[Row] = []

    def amounts(self, row: Any) -> dict[str, float]:
        return dict(zip(self.w.cluster.resources, row.tolist(), strict=True))

    def join(self, i: int) -> None:
        if i in self.there:
            self.scheduler.undrain(f"s{i}")
        else:
            capacity = self.amounts(self.w.cluster.capacity[self.group_of[i]])
            self.scheduler.add_server(f"s{i}", capacity, order=i)
            self.there.add(i)

    def leave(self, i: int, now: float) -> None:
        self.there.discard(i)
        for task in self.scheduler.remove_server(f"s{i}"):
            row = self.running.pop(task)
            self.log[row] = (*self.log[row][:3], now, True)

    def submit(self, job: int, now: float) -> None:
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
        if w.job_gang[job] and members:
            self.note(
                job, sets[0], self.scheduler.submit_gang(user, list(members.values()), **options)
            )
        elif not w.job_gang[job]:
            for k, (demand, tasks, where) in members.items():
                group = self.scheduler.submit(user, demand, tasks, where=where, **options)
                self.note(job, k, group)

    def note(self, job: int, first_set: int, group: int) -> None:
        self.groups.setdefault(job, []).append(group)
        self.first_task[group] = int(self.w.first_task[first_set])

    def cancel(self, job: int) -> None:
        for group in self.groups.get(job, []):
            try:
                self.scheduler.cancel(group)
            except InputError:  # it is over
                continue

    def run(self) -> list[Row]:
        """Replay; at one moment tasks end, servers change, jobs come, jobs go, tasks are placed."""
        w, step = self.w, {JOIN: self.join, DRAIN: lambda i: self.scheduler.drain(f"s{i}")}
        changes = list(
            zip(w.server_time.tolist(), w.server_event.tolist(), w.server.tolist(), strict=True)
        )
        submits, cancels = list(enumerate(w.job_submit)), list(enumerate(w.job_cancel))
        while True:
            times = [self.log[row][3] for row in self.running.values()] + [c[0] for c in changes]
            if hasattr(self.scheduler, "next_offer"):
                times.append(float(self.scheduler.next_offer()))
            now = min([*times, *(t for _, t in submits + cancels)], default=inf)
            if now == inf:
                return self.log
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
            for p in self.scheduler.place(now):
                task = self.first_task[p.group] + p.index
                self.running[p.task] = len(self.log)
                end = now + float(w.task_duration[task])
                self.log.append((task, int(p.server[1:]), float(now), end, False))


def fill_openly(
    make: Callable[..., Any], problem: Problem, policy: str, seed: int = 0
) -> list[tuple[int, int]]:
    """Submit everything, place, done: user and server of each placement."""
    resources, users = list(problem.cluster.resources), problem.users.names
    scheduler = make(resources, policy, seed=seed)
    servers = [
        f"{g}-{k}" for g, count in enumerate(problem.count.tolist()) for k in range(int(count))
    ]

    def amounts(row: Any) -> dict[str, float]:
        return dict(zip(resources, row.tolist(), strict=True))

    for name in servers:
        group = name.partition("-")[0]
        capacity = amounts(problem.cluster.capacity[int(group)])
        scheduler.add_server(name, capacity, labels={"group": group})
    for n, user in enumerate(users):
        scheduler.add_queue(user, problem.weight.tolist()[n])
        limit = problem.task_limit.tolist()[n]
        if limit >= 1:
            where = [s for s in servers if problem.users.eligible[n, int(s.partition("-")[0])]]
            tasks = 2**40 if limit == inf else int(limit)
            scheduler.submit(user, amounts(problem.demand[n]), tasks, where=where)
    return [(users.index(p.queue), servers.index(p.server)) for p in scheduler.place()]

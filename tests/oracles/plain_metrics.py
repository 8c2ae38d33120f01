"""Compute figures of a run log at one time by full scans, and integrals as sums over intervals."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from fairlead.model.quantity import exact
from fairlead.model.run_log import RunLog
from fairlead.model.workload import DRAIN, JOIN, Workload

Row = list[Fraction]


class PlainMetrics:
    """Figures of a run log at a time t; an interval contains its start, and not its end."""

    def __init__(self, workload: Workload, log: RunLog) -> None:
        self.w, self.log = workload, log
        self.starts = list(
            zip(
                log.task.tolist(),
                log.server.tolist(),
                log.start.tolist(),
                log.end.tolist(),
                log.lost.tolist(),
                strict=True,
            )
        )
        self.set_of = [k for k, n in enumerate(workload.set_tasks.tolist()) for _ in range(n)]
        self.job_of = [int(workload.set_job[k]) for k in self.set_of]
        self.user_of = [int(workload.job_user[j]) for j in self.job_of]
        self.demand = [
            [exact(a) for a in workload.shapes[workload.set_shape[k]].tolist()] for k in self.set_of
        ]
        self.group_of = [g for g, n in enumerate(workload.cluster.count.tolist()) for _ in range(n)]
        self.capacity = [[exact(a) for a in row] for row in workload.cluster.capacity.tolist()]
        # Asked again for each user of a time.
        self.known_running: dict[Fraction, list[int]] = {}
        self.known_active: dict[Fraction, list[int]] = {}

    def running(self, t: Fraction) -> list[int]:
        if t not in self.known_running:
            self.known_running[t] = [
                task for task, _, start, end, _ in self.starts if start <= t < end
            ]
        return self.known_running[t]

    def active(self, t: Fraction) -> list[int]:
        """Return the waiting and running tasks; waiting ones of withdrawn jobs are left out."""
        if t not in self.known_active:
            self.known_active[t] = self.find_active(t)
        return self.known_active[t]

    def find_active(self, t: Fraction) -> list[int]:
        running = set(self.running(t))
        done = {task for task, _, _, end, lost in self.starts if not lost and end <= t}
        return [
            task
            for task, j in enumerate(self.job_of)
            if not self.log.set_unplaceable[self.set_of[task]]
            and self.w.job_submit[j] <= t
            and task not in done
            and (t < self.w.job_cancel[j] or task in running)
        ]

    def servers(self, t: Fraction) -> list[bool]:
        """Return whether each server is present, draining or not."""
        present = self.w.there_at_start.tolist()
        events = zip(
            self.w.server_time.tolist(), self.w.server_event, self.w.server.tolist(), strict=True
        )
        for time, event, i in events:
            if time <= t and event != DRAIN:
                present[i] = event == JOIN
        return present

    def total(self, t: Fraction) -> Row:
        """Return (R,) the capacity of all present servers."""
        rows = [
            self.capacity[g]
            for g, is_present in zip(self.group_of, self.servers(t), strict=True)
            if is_present
        ]
        return [sum((row[r] for row in rows), Fraction(0)) for r in range(len(self.capacity[0]))]

    def held(self, t: Fraction, user: int | None = None) -> Row:
        """Return (R,) the amounts of running tasks, of a user or of all."""
        tasks = [task for task in self.running(t) if user in (None, self.user_of[task])]
        return [
            sum((self.demand[task][r] for task in tasks), Fraction(0))
            for r in range(len(self.capacity[0]))
        ]

    def share(self, t: Fraction, user: int) -> Fraction:
        pairs = zip(self.held(t, user), self.total(t), strict=True)
        return max(Fraction(0) if c == 0 else h / c for h, c in pairs)

    def least(self, t: Fraction) -> Fraction | None:
        """Return the least dominant share over weight of the users with active tasks."""
        users = {self.user_of[task] for task in self.active(t)}
        users = {u for u in users if self.w.weight[u]}
        return min((self.share(t, u) / exact(self.w.weight[u]) for u in users), default=None)

    def intervals(self, begin: float, end: float) -> Iterator[tuple[Fraction, Fraction]]:
        """Iterate over the intervals between events: the start and the length of each."""
        times = {begin, end, *self.w.job_submit.tolist(), *self.w.job_cancel.tolist()}
        times |= {*self.log.start.tolist(), *self.log.end.tolist(), *self.w.server_time.tolist()}
        cuts = [Fraction(t) for t in sorted(times) if begin <= t <= end]
        for one, other in pairwise(cuts):
            yield one, other - one

    def longest_without(self, user: int, begin: float, end: float) -> float:
        """Return the longest time in which tasks of a user wait and none runs."""
        longest = stretch = Fraction(0)
        for t, length in self.intervals(begin, end):
            wants = any(self.user_of[task] == user for task in self.active(t))
            runs = any(self.user_of[task] == user for task in self.running(t))
            stretch = stretch + length if wants and not runs else Fraction(0)
            longest = max(longest, stretch)
        return float(longest)

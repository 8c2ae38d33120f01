"""A workload replayed as it is defined: one event after the other, and then whatever fits."""

from __future__ import annotations

from math import inf

import numpy as np

from fairlead.model.run_log import RunLog
from fairlead.model.workload import JOIN, LEAVE
from oracles.plain_scheduler import PlainScheduler, Start


class PlainSimulation(PlainScheduler):
    """Replays the workload that it is given."""

    now = 0.0

    def finish(self, position: int, k: int, i: int, now: float, *, lost: bool) -> None:
        self.hold(self.user[k], k, i, -1)
        task, _, start, _, _ = self.log[position]
        self.log[position] = (task, i, start, now, lost)
        if lost and not self.w.job_cancel[self.w.set_job[k]] < now:
            self.waiting[k] = sorted([*self.waiting[k], task])
            self.revive(self.user[k])

    def change_server(self, event: int, i: int, now: float) -> None:
        self.open[i], self.there[i] = event == JOIN, event != LEAVE
        if event == JOIN:
            self.free_up(i)
        if event != LEAVE:
            return
        hit = {self.w.set_job[k] for _, _, k, server in self.running if server == i}
        gangs = {job for job in hit if self.gang[job]}
        lost = [r for r in self.running if r[3] == i or self.w.set_job[r[2]] in gangs]
        self.running = [r for r in self.running if r not in lost]
        for _, position, k, server in sorted(lost, key=lambda r: r[1]):
            self.finish(position, k, server, now, lost=True)
            self.free_up(server)

    def submit(self, job: int) -> None:
        for k in self.sets(job):
            if not self.unplaceable[k]:
                self.waiting[k] = list(
                    range(int(self.w.first_task[k]), int(self.w.first_task[k + 1]))
                )

    def withdraw(self, k: int) -> None:
        self.waiting[k] = []

    def run(self) -> list[Start]:
        """Replay everything; of events at one time finishes go first, then those of servers."""
        w = self.w
        changes = list(
            zip(w.server_time.tolist(), w.server_event.tolist(), w.server.tolist(), strict=True)
        )
        submits = list(enumerate(w.job_submit.tolist()))
        cancels = [(j, t) for j, t in enumerate(w.job_cancel.tolist()) if t < inf]
        while self.running or changes or submits or cancels or self.next_offer() < inf:
            times = [c[0] for c in changes] + [t for _, t in submits + cancels]
            now = min([r[0] for r in self.running] + times + [self.next_offer()])
            for end, position, k, i in sorted(r for r in self.running if r[0] == now):
                self.running.remove((end, position, k, i))
                self.finish(position, k, i, now, lost=False)
                self.free_up(i)
            for time, event, i in [c for c in changes if c[0] == now]:
                changes.remove((time, event, i))
                self.change_server(event, i, now)
            for job, _ in [s for s in submits if s[1] == now]:
                self.submit(job)
            for job, _ in [c for c in cancels if c[1] == now]:
                for k in self.sets(job):
                    self.withdraw(k)
            submits = [s for s in submits if s[1] > now]
            cancels = [c for c in cancels if c[1] > now]
            self.now = now
            self.place_all(now)
        return self.log

    def revive(self, user: int) -> None:
        """Where offers are refused, new tasks end that."""

    def next_offer(self) -> float:
        return inf

    def as_log(self) -> RunLog:
        """Replay, and return the log as the library gives it."""
        columns = [np.array(column) for column in zip(*self.run(), strict=True)] or [
            np.empty(0)
        ] * 5
        task, server, start, end, lost = columns
        unplaceable = np.array(self.unplaceable)
        return RunLog(
            self.name,
            task.astype(np.int32),
            server.astype(np.int32),
            start.astype(float),
            end.astype(float),
            lost.astype(bool),
            unplaceable,
        )

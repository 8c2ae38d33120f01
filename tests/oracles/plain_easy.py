"""EASY on one pool of processors, as in textbooks: by a shadow time and extra processors.

Mu'alem and Feitelson 2001: jobs start in order of arrival. The first one without room is to start
at the shadow time, when enough running jobs have ended at their limits. A later job starts before
it if it fits now, and either ends by the shadow time, or takes at most the processors that are
extra at that time. An overdue job is expected to end now.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple


class Job(NamedTuple):
    submit: float
    processors: int
    run: float
    limit: float  # infinite without a limit


class PlainEasy:
    """Runs jobs, sorted by submission, of which each fits."""

    def __init__(self, jobs: list[Job], processors: int) -> None:
        self.jobs, self.processors, self.free = jobs, processors, processors
        self.starts = [inf] * len(jobs)
        self.queue: list[int] = []
        self.running: list[int] = []
        self.now = 0.0

    def run(self) -> list[float]:
        """Return the start of each job, in seconds."""
        arrived = 0
        while arrived < len(self.jobs) or self.running:
            coming = self.jobs[arrived].submit if arrived < len(self.jobs) else inf
            self.now = min([coming, *map(self.end, self.running)])
            self.free += sum(
                self.jobs[n].processors for n in self.running if self.end(n) == self.now
            )
            self.running = [n for n in self.running if self.end(n) > self.now]
            while arrived < len(self.jobs) and self.jobs[arrived].submit == self.now:
                self.queue.append(arrived)
                arrived += 1
            while self.queue and self.jobs[self.queue[0]].processors <= self.free:
                self.start(self.queue.pop(0))
            if self.queue:
                self.backfill()
        return self.starts

    def end(self, n: int) -> float:
        return self.starts[n] + self.jobs[n].run

    def expected_end(self, n: int) -> float:
        """Return the end of a running job by its limit, or now if it is overdue."""
        return max(self.starts[n] + self.jobs[n].limit, self.now)

    def start(self, n: int) -> None:
        self.starts[n] = self.now
        self.free -= self.jobs[n].processors
        self.running.append(n)

    def backfill(self) -> None:
        """Start later jobs that do not delay the first one."""
        shadow, extra = self.shadow(self.jobs[self.queue[0]].processors)
        for n in self.queue[1:]:
            job = self.jobs[n]
            in_time = self.now + job.limit <= shadow
            if job.processors <= self.free and (in_time or job.processors <= extra):
                extra -= 0 if in_time else job.processors
                self.queue.remove(n)
                self.start(n)

    def shadow(self, wanted: int) -> tuple[float, int]:
        """Return the shadow time of a job, and the processors that are extra then."""
        for time in sorted({self.expected_end(n) for n in self.running} - {inf}):
            ending = [n for n in self.running if self.expected_end(n) <= time]
            ended = sum(self.jobs[n].processors for n in ending)
            if self.free + ended >= wanted:
                return time, self.free + ended - wanted
        return inf, self.processors

"""Time each event and query of a scheduler on a full cluster with a million waiting tasks.

    python benchmarks/live_scheduler.py
    python benchmarks/live_scheduler.py drf/best-fit tsf/first-fit

The cluster has 12,583 servers of Google's classes and 1,000 queues. A task group of twelve tasks is
submitted for each of 100,000 shapes of two resources. All tasks that fit are placed; about a
million wait. Then tasks finish and others start, groups, servers and weights change, and queries
are made, each many times. Prints the median (p50) and the 99th percentile (p99) of each, in
milliseconds of wall time. Each policy has its own process.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from typing import Annotated, Any

import numpy as np
import typer

from fairlead.compiled import how_it_runs
from fairlead.errors import InputError
from fairlead.scheduler.scheduler import Scheduler

SERVERS, QUEUES, SHAPES, TASKS = 12_583, 1_000, 100_000, 12
# Capacities of Google's servers, as fractions of the largest, and their counts in 12,583.
KINDS = [
    (0.50, 0.50, 6732), (0.50, 0.25, 3863), (0.50, 0.75, 1001), (1.00, 1.00, 795),
    (0.25, 0.25, 126), (0.50, 0.12, 52), (0.50, 0.03, 5), (0.50, 0.97, 5), (1.00, 0.50, 3),
    (0.50, 0.06, 1),
]  # fmt: skip
# Repetitions of events, of explanations, and of calls that visit the whole state.
EVENTS, EXPLANATIONS, WHOLE_STATE_CALLS = 500, 30, 5


def main(
    policies: Annotated[
        list[str] | None, typer.Argument(help="Policies, such as drf/best-fit.")
    ] = None,
) -> None:
    """Time each policy in its own process."""
    print(f"The scheduler is {how_it_runs()}; {os.cpu_count()} processors.")
    for policy in policies or ["drf/best-fit"]:
        with get_context("spawn").Pool(1) as pool:
            found = pool.apply(times_of, (policy,))
        print(f"\n{policy + ', in ms':40}{'p50':>14}{'p99':>10}")
        for what, times in found.items():
            print(f"{what:40}{percentiles(times)}")


def percentiles(times: list[float]) -> str:
    """Format the median and the 99th percentile, in ms."""
    p50, p99 = 1000 * np.percentile(times, [50, 99])
    return f"{p50:14,.3f}{p99:10,.3f}"


def times_of(policy: str) -> dict[str, list[float]]:
    """Return the seconds of each event and query, by name."""
    live = Live(policy)
    gc.collect()
    gc.freeze()  # as a service does; else collections of the lasting state would count
    live.run()
    return live.took


class Live:
    """A full cluster, and the seconds of each event and query."""

    def __init__(self, policy: str) -> None:
        self.random = np.random.default_rng(1)
        self.took: dict[str, list[float]] = {}
        self.s = s = Scheduler(["cpu", "memory"], policy)
        start = time.perf_counter()
        capacity = [kind[:2] for kind in KINDS for _ in range(kind[2])]
        for k in self.random.permutation(SERVERS).tolist():
            s.add_server(f"s{k}", dict(zip(("cpu", "memory"), capacity[k], strict=True)))
        self.queues = [f"q{k}" for k in range(QUEUES)]
        for name in self.queues:
            s.add_queue(name, int(self.random.integers(1, 5)))
        sizes = np.exp(self.random.normal(-3.5, 1.0, (SHAPES, 2)))
        self.demand = sizes.clip(0.002, 0.5).round(5).tolist()
        self.groups = [self.submit(shape) for shape in range(SHAPES)]
        self.took["building"] = [time.perf_counter() - start]
        self.tasks = [p.task for p in self.timed("placing all that fits", s.place)]

    def timed(self, what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function, and record its seconds."""
        start = time.perf_counter()
        result = call(*arguments, **options)
        self.took.setdefault(what, []).append(time.perf_counter() - start)
        return result

    def submit(self, shape: int) -> int:
        """Submit a group of a shape; return its id."""
        cpu, memory = self.demand[shape]
        queue = self.queues[int(self.random.integers(QUEUES))]
        return int(self.s.submit(queue, {"cpu": cpu, "memory": memory}, TASKS))

    def some_task(self) -> int:
        """Remove a random running task from the list, and return it."""
        k = int(self.random.integers(len(self.tasks)))
        self.tasks[k], self.tasks[-1] = self.tasks[-1], self.tasks[k]
        return int(self.tasks.pop())

    def finish_and_place(self) -> None:
        """Finish a task, and place one."""
        self.s.finish(self.some_task())
        self.tasks += [p.task for p in self.s.place(limit=1)]

    def place_all(self) -> None:
        """Place all tasks that fit."""
        self.tasks += [p.task for p in self.s.place()]

    def some_waiting(self) -> int:
        """Return a random group with waiting tasks."""
        while True:
            group = self.groups[int(self.random.integers(SHAPES))]
            with suppress(InputError):  # it may have ended
                if self.s.explain(group).waiting:
                    return group

    def run(self) -> None:
        """Time all events and queries."""
        s = self.s
        for _ in range(EVENTS):
            self.timed("finish + place(limit=1)", self.finish_and_place)
        for _ in range(EVENTS):
            self.timed("submit", self.submit, int(self.random.integers(SHAPES)))
        self.place_all()
        for k in range(EVENTS):
            capacity = {"cpu": 0.5, "memory": 0.5}
            self.timed("add_server", s.add_server, f"new {k}", capacity)
            if k < EXPLANATIONS:
                self.timed("place on a new server", self.place_all)
        self.place_all()
        for _ in range(EVENTS):
            queue = self.queues[int(self.random.integers(QUEUES))]
            self.timed("set_weight", s.set_weight, queue, int(self.random.integers(1, 5)))
        self.place_all()
        for group in [self.some_waiting() for _ in range(EXPLANATIONS)]:
            self.timed("explain", s.explain, group)
        for group in [self.some_waiting() for _ in range(EXPLANATIONS)]:
            for _ in range(10):
                s.finish(self.some_task())
            self.timed("explain after ten tasks ended", s.explain, group)
            self.place_all()
        for _ in range(WHOLE_STATE_CALLS):
            self.timed("shares", s.shares)
        for _ in range(WHOLE_STATE_CALLS):
            data = self.timed("snapshot", s.snapshot)
        for _ in range(WHOLE_STATE_CALLS):
            restored = self.timed("restore", Scheduler.restore, data)
        assert restored.snapshot() == data


if __name__ == "__main__":
    typer.run(main)

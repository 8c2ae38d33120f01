"""A live scheduler of 12,583 servers, 1,000 queues, 100,000 shapes and a million pending tasks.

Prints how long each event takes from Python, and snapshot and restore: of a processor, and on the
clock, where others who use the machine count. Run with ``make bench``; for one policy: ``pytest
benchmarks/test_live.py -k drf/best``. Most of the time goes into building it.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fairlead.scheduler.scheduler import Scheduler

SERVERS, QUEUES, SHAPES, GROUP, ROUNDS = 12_583, 1_000, 100_000, 20, 2_000
# Capacities of Google's servers, as shares of the largest, and how many there are in 12,583.
KINDS = [
    (0.50, 0.50, 6732), (0.50, 0.25, 3863), (0.50, 0.75, 1001), (1.00, 1.00, 795),
    (0.25, 0.25, 126), (0.50, 0.12, 52), (0.50, 0.03, 5), (0.50, 0.97, 5), (1.00, 0.50, 3),
    (0.50, 0.06, 1),
]  # fmt: skip


class Live:
    """The state, and how long each event took that it was told."""

    def __init__(self, policy: str) -> None:
        self.random = np.random.default_rng(1)
        self.took: dict[str, list[tuple[int, int]]] = {}
        self.s = Scheduler(["cpu", "memory"], policy)
        capacity = [kind[:2] for kind in KINDS for _ in range(kind[2])]
        for k in self.random.permutation(SERVERS).tolist():
            self.add_server(f"s{k}", capacity[k])
        self.queues = [f"q{k}" for k in range(QUEUES)]
        for name in self.queues:
            self.s.add_queue(name, int(self.random.integers(1, 5)))
        sizes = np.exp(self.random.normal(-3.5, 1.0, (2 * SHAPES, 2)))
        self.demand = sizes.clip(0.002, 0.5).round(5)
        self.submitted = 0
        for _ in range(SHAPES):
            self.submit("a shape's first group")
        self.tasks: list[int] = []
        self.groups: list[int] = []
        start = time.perf_counter()
        self.take(self.s.place())
        self.filling = time.perf_counter() - start

    def timed(self, what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call, and note how long it took."""
        start, used = time.perf_counter_ns(), time.process_time_ns()
        result = call(*arguments, **options)
        took = time.process_time_ns() - used, time.perf_counter_ns() - start
        self.took.setdefault(what, []).append(took)
        return result

    def add_server(self, name: str, capacity: tuple[float, float]) -> None:
        """Add a server."""
        amounts = dict(zip(("cpu", "memory"), capacity, strict=True))
        self.timed("a server while it is built", self.s.add_server, name, amounts)

    def submit(self, what: str, shape: int | None = None) -> int:
        """Submit a group of a shape, of a new one without; return its id."""
        row = self.demand[self.submitted if shape is None else shape].tolist()
        self.submitted += shape is None
        queue = self.queues[int(self.random.integers(QUEUES))]
        demand = {"cpu": row[0], "memory": row[1]}
        return int(self.timed(what, self.s.submit, queue, demand, GROUP))

    def take(self, placements: list[Any]) -> list[Any]:
        """Remember which tasks run."""
        self.tasks += [p.task for p in placements]
        return placements

    def place(self, what: str, **options: Any) -> list[Any]:
        """Place, and record the time, in all and for each placement."""
        placements = self.take(self.timed(what, self.s.place, **options))
        used, took = self.took[what][-1]
        n = len(placements)
        self.took.setdefault("a placement", []).extend([(used // n, took // n)] * n if n else [])
        return placements

    def some_task(self) -> int:
        """Return a task that runs and is forgotten here."""
        k = int(self.random.integers(len(self.tasks)))
        self.tasks[k], self.tasks[-1] = self.tasks[-1], self.tasks[k]
        return self.tasks.pop()

    def live(self) -> None:
        """End tasks, and submit and start others, as in a full cluster."""
        for k in range(ROUNDS):
            self.timed("finish", self.s.finish, self.some_task())
            if k % 2:
                self.place("place")
            else:
                while self.place("place(limit=1)", limit=1):
                    pass
            if k % 4 == 0:
                self.groups.append(self.submit("submit", int(self.random.integers(SHAPES))))
                self.place("place after submit")
            if k % 8 == 1:
                self.groups.append(self.submit("a shape's first group, live"))
            if k % 8 == 3:
                self.timed("evict", self.s.evict, self.some_task())
                self.place("place after evict")
            if k % 8 == 5 and self.groups:
                self.timed("cancel", self.s.cancel, self.groups.pop(0))
            if k % 8 == 7:
                queue = self.queues[int(self.random.integers(QUEUES))]
                self.timed("set_weight", self.s.set_weight, queue, int(self.random.integers(1, 5)))
        for _ in range(20):
            for _ in range(30):
                self.s.finish(self.some_task())
            self.place("place after 30 ended")
        for k in range(20):
            capacity = {"cpu": 0.5, "memory": 0.5}
            self.timed("add_server", self.s.add_server, f"new {k}", capacity)
            self.place("place on a new server")
            lost = set(self.timed("remove_server", self.s.remove_server, f"s{k}"))
            self.tasks = [t for t in self.tasks if t not in lost]
            self.place("place after remove_server")


@pytest.mark.parametrize(
    "policy",
    [
        "drf/first-fit",
        "drf/best-fit",
        "tsf/first-fit",
        "ps-dsf/first-fit",
        "fifo/first-fit",
        "easy/first-fit",
    ],
)
def test_each_event_of_a_live_scheduler(policy: str, report: Callable[[str], None]) -> None:
    live = Live(policy)
    s, n = live.s, len(live.tasks)
    waiting = s._waiting
    report(f"{policy}: {n:,} tasks run, {waiting:,} wait; filled in {live.filling:.2f} s")
    gc.collect()
    gc.freeze()
    live.live()
    for what, times in live.took.items():
        (p50, wall), (p99, wall_99) = np.percentile(times, [50, 99], axis=0) / 1000
        report(
            f"  {what}: p50 {p50:,.1f} us, p99 {p99:,.1f} of a processor,"
            f" {wall:,.1f} and {wall_99:,.1f} on the clock ({len(times):,})"
        )
    waiting_groups = np.flatnonzero(s._core.groups["waiting"][: s._core.numbers[0].groups])
    some = live.random.choice(waiting_groups, 15).tolist()
    for name in ("snapshot", "restore", "what_if: evict, place", "explain", "shares"):
        times = []
        for _ in range(3):
            task, group = live.tasks[len(some)], s._group_id(some.pop())
            start = time.perf_counter()
            if name.startswith("what_if"):
                with s.what_if():
                    s.evict(task)
                    s.place()
            elif name == "explain":
                s.explain(group)
            elif name == "shares":
                s.shares()
            elif name == "snapshot":
                data = s.snapshot()
            else:
                restored = Scheduler.restore(data)
            times.append(time.perf_counter() - start)
        report(f"  {name}: {min(times):.3f} s at best, {max(times):.3f} at worst of 3")
    assert restored.snapshot() == data
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    report(f"  snapshot: {len(data) / 1e6:.1f} MB; most memory of the process: {memory:.2f} GB")
    gc.unfreeze()

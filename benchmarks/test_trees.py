"""What depth costs: a thousand queues at the root, in teams, and in teams in teams."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from fairlead.scheduler.scheduler import Scheduler

SERVERS, QUEUES, TASKS = 1_000, 1_000, 100_000


def filled(fan_out: list[int]) -> float:
    """Return seconds to place all tasks, given the number of children at each depth."""
    random = np.random.default_rng(1)
    s = Scheduler(["cpu", "memory"], "drf/first-fit")
    for k in range(SERVERS):
        s.add_server(f"s{k}", {"cpu": 120, "memory": 120})
    names: list[str | None] = [None]
    for width in fan_out:
        below: list[str | None] = []
        for parent in names:
            for k in range(width):
                name = f"{parent or ''}/{k}"
                s.add_queue(name, int(random.integers(1, 5)), parent)
                below.append(name)
        names = below
    for name in names:
        demand = random.uniform(0.1, 1, 2).round(2).tolist()
        s.submit(str(name), dict(zip(("cpu", "memory"), demand, strict=True)), TASKS // QUEUES)
    start = time.process_time()
    placed = 0
    while more := len(s.place(limit=4_096)):
        placed += more
    assert placed == TASKS
    return time.process_time() - start


@pytest.mark.parametrize("fan_out", [[20, 50], [10, 10, 10], [1, 1, 1, 1, 1_000]])
def test_depth(fan_out: list[int], report: Callable[[str], None]) -> None:
    filled([1, QUEUES])  # warms up
    flat = min(filled([QUEUES]) for _ in range(3))
    deep = min(filled(fan_out) for _ in range(3))
    each = flat / TASKS * 1e6
    report(f"queues {fan_out}: {deep / flat:.2f} times as long as flat, {each:.1f} us a task")

"""Without an event no task starts before `next_moment`."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from effort import cases
from fairlead.scheduler.scheduler import Scheduler

TIMED = ["easy/first-fit", "easy/best-fit", "drf/rrr/oblivious", "ps-dsf/rrr/oblivious"]


def check_next_moment(s: Scheduler, now: float, rng: random.Random, seen: Counter[str]) -> None:
    """Assert that no task would start before `next_moment`; count whether one does then."""
    moment = s.next_moment()
    if moment <= now:
        seen["not later"] += 1
        return
    until = math.nextafter(min(moment, now + 20.0), -math.inf)
    twin = Scheduler.restore(s.snapshot())
    for at in sorted([*(rng.uniform(now, until) for _ in range(3)), until]):
        assert twin.place(at) == []
    if moment == math.inf:
        seen["never"] += 1
    else:
        started = Scheduler.restore(s.snapshot()).place(moment)
        seen["a task starts" if started else "none starts"] += 1


def check_random_events(policy: str, seed: int, seen: Counter[str]) -> None:
    """Check `next_moment` after each of some random events."""
    rng, now = random.Random(seed), 0.0
    s = Scheduler(["cpu", "memory"], policy, refuse_seconds=3.0)
    for name in "abc":
        s.add_server(name, {"cpu": rng.randint(2, 6), "memory": rng.randint(2, 6)})
    for name in ("ana", "bo"):
        s.add_queue(name)
    running: list[int] = []
    for _ in range(40):
        now += rng.choice([0.0, 0.25, 1.0, 2.5])
        event = rng.random()
        if event < 0.55:
            demand = {"cpu": rng.randint(1, 4), "memory": rng.randint(1, 4)}
            s.submit(
                rng.choice(["ana", "bo"]),
                demand,
                rng.randint(1, 3),
                time_limit=rng.choice([None, 1.0, 4.0, 9.0]),
                gang=rng.random() < 0.2,
            )
        elif running and event < 0.9:
            s.finish(running.pop(rng.randrange(len(running))))
        running += [p.task for p in s.place(now)]
        check_next_moment(s, now, rng, seen)


@pytest.mark.parametrize("policy", TIMED)
def test_no_task_starts_before_next_moment(policy: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(cases(4)):
        check_random_events(policy, seed, seen)
    assert seen["never"] > cases(3)
    assert seen["a task starts"] > cases(1)
    assert seen["not later"] == 0

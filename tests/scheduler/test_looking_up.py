"""Parked lines that are looked up one by one are placed as if all that fit were woken."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from test_open_core import look_up_always

from fairlead.errors import InputError
from fairlead.scheduler.scheduler import Scheduler

QUEUES = [f"q{k}" for k in range(6)]


def history(policy: str, seed: int) -> list[list[tuple[str, str, int]]]:
    """Return what is placed after each of many events on a cluster that is full."""
    random, tasks, placed = Random(seed), [], []
    s = Scheduler(["cpu", "memory"], policy, {"cpu": 1, "memory": 1})
    servers = [f"s{k}" for k in range(8)]
    for name in servers:
        add(s, name, random)
    for name in QUEUES:
        s.add_queue(name, random.randint(1, 3))
    groups = [submitted(s, random) for _ in range(60)]

    def place() -> None:
        found = s.place(limit=random.choice([None, None, 1, 2]))
        placed.append([(p.queue, p.server, p.index) for p in found])
        tasks.extend(p.task for p in found)
        s.check()

    place()
    for _ in range(60):
        event = random.random()
        for _ in range(random.choice([1, 1, 1, 3])):
            if event < 0.7 and tasks:
                task = tasks.pop(random.randrange(len(tasks)))
                (s.finish if event < 0.5 else s.evict)(task)
        if 0.7 <= event < 0.8:
            groups.append(submitted(s, random))
        elif event < 0.85:
            s.set_weight(random.choice(QUEUES), random.randint(1, 5))
        elif event < 0.9:
            name = random.choice(servers)
            s.drain(name) if event < 0.87 else s.undrain(name)
        elif event < 0.93:
            name = random.choice(servers)
            lost = s.remove_server(name)
            tasks = [task for task in tasks if task not in lost]
            add(s, name, random)
        elif event < 0.96:
            drop(s, groups.pop(random.randrange(len(groups))))
        place()
    return placed


def add(s: Scheduler, name: str, random: Random) -> None:
    capacity = {"cpu": random.randint(8, 20), "memory": random.randint(8, 20)}
    s.add_server(name, capacity, {"a": name[1:]})


def drop(s: Scheduler, group: int) -> None:
    with suppress(InputError):  # it is over
        s.cancel(group)


def submitted(s: Scheduler, random: Random) -> int:
    """Submit a group; one in three is small, and goes before or behind others."""
    most = 3 if random.random() < 1 / 3 else 12
    demand = {"cpu": random.randint(0, most), "memory": random.randint(1, most)}
    where = random.choice([None, None, {"a": str(random.randint(0, 7))}])
    return s.submit(
        random.choice(QUEUES), demand, random.randint(1, 4), where, now=random.randint(0, 9)
    )


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", ["drf/first-fit", "tsf/best-fit", "ps-dsf/first-fit"])
def test_what_is_looked_up_is_placed_as_what_is_woken(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = range(2)
    expected = [history(policy, seed) for seed in seeds]
    found = look_up_always(monkeypatch)
    assert [history(policy, seed) for seed in seeds] == expected
    assert len(found) >= 50

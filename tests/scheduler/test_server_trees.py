"""Trees of queues under ps-dsf/rrr: each server is divided by hierarchical DRF, as a pool."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from effort import cases
from fairlead.errors import RefusalError
from fairlead.scheduler.scheduler import Scheduler
from random_trees import random_queues
from scheduler.random_life import Both

SHAPES = [{"cpu": 1}, {"gpu": 1}, {"cpu": 1, "gpu": 1}, {"cpu": 2, "gpu": 1}, {"cpu": 1, "gpu": 3}]


def add_tree(s: Scheduler | Both, random: Random, leaves: int) -> None:
    """Add a random tree whose leaves are u0, u1, ..."""
    rows, of_leaf = random_queues(random, leaves)
    used = {*of_leaf, *(row["parent"] for row in rows)}
    for row in rows:
        if row["name"] in used:
            s.add_queue(row["name"], row["weight"], row["parent"])
    for n, queue in enumerate(of_leaf):
        s.add_queue(f"u{n}", random.choice([1, 1, 2, 3, 0]), queue)


@pytest.mark.parametrize("seed", range(cases(12)))
def test_crowded_servers_are_filled_as_defined(seed: int) -> None:
    """Many tasks on each server, leaves that may run on some servers only, and ending tasks."""
    random = Random(seed)
    s = Both(("cpu", "gpu"), "ps-dsf/rrr", seed=seed)
    names = "abc"[: random.randint(1, 3)]
    for name in names:
        s.add_server(name, {"cpu": random.randint(4, 12), "gpu": random.randint(4, 12)})
    add_tree(s, random, 5)
    for n in range(5):
        for _ in range(2):
            where = random.choice([None, None, random.sample(names, 1)])
            s.submit(f"u{n}", random.choice(SHAPES), random.randint(2, 10), where=where)
    running = s.place()
    placed = len(running)
    for _ in range(12):
        ended = random.sample(running, min(2, len(running)))
        for placement in ended:
            s.finish(placement.task)
            running.remove(placement)
        started = s.place()
        running += started
        placed += len(started)
    assert placed >= 10


@pytest.mark.parametrize("seed", range(cases(8)))
def test_one_server_is_divided_as_a_pool(seed: int) -> None:
    placed = []
    for policy in ("ps-dsf/rrr", "drf/first-fit"):
        random = Random(seed)
        s = Scheduler(("cpu", "gpu"), policy)
        s.add_server("pool", {"cpu": 60, "gpu": 90})
        add_tree(s, random, 6)
        for n in range(6):
            s.submit(f"u{n}", random.choice(SHAPES), 30)
        placed.append([p.queue for p in s.place()])
    assert placed[0] == placed[1]


def test_a_team_counts_on_a_server_with_members_admitted_there() -> None:
    """Members on the other server do not count, so each user gets 20 of the 60 cores."""
    s = Scheduler(("cpu",), "ps-dsf/rrr")
    for name in ("left", "right"):
        s.add_server(name, {"cpu": 30})
    s.add_queue("team")
    for name, where in (("ana", ["left"]), ("bo", ["right"])):
        s.add_queue(name, parent="team")
        s.submit(name, {"cpu": 1}, 100, where=where)
    s.add_queue("cy")
    s.submit("cy", {"cpu": 1}, 100)
    assert Counter(p.queue for p in s.place()) == {"ana": 20, "bo": 20, "cy": 20}


def test_no_start_is_reserved_in_a_tree() -> None:
    s = Scheduler(("cpu",), "ps-dsf/rrr/reserve")
    s.add_queue("team")
    with pytest.raises(RefusalError, match="need drf"):
        s.add_queue("ana", parent="team")

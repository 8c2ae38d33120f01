"""Trees of queues: the next queue is as defined, from the root down."""

from __future__ import annotations

from collections import Counter

import pytest

from effort import cases
from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.policies import ROWS, parse_policy
from fairlead.scheduler.scheduler import Scheduler
from scheduler.random_life import WEIGHTS, ComparedLife, compared

POLICIES = ["drf/first-fit", "drf/best-fit", "slots:3", "fifo/first-fit", "easy/best-fit"]
TREE = {"left": None, "right": None, "inner": "left", "n": "inner", "p": "right", "q": "inner"}


class LifeInATree(ComparedLife):
    """Teams, and a team in a team, are there first."""

    def add_queues(self) -> None:
        for number, (name, parent) in enumerate(TREE.items()):
            self.s.add_queue(name, 1 + number % 2, parent)

    def on_add_queue(self) -> None:
        parent = self.random.choice(["left", "inner", "right", "n", None])
        self.s.add_queue(self.name("rst"), self.random.choice(WEIGHTS), parent)

    def on_weigh_a_team(self) -> None:
        self.s.set_weight(
            self.random.choice(["left", "right", "inner"]), self.random.choice(WEIGHTS)
        )


@pytest.mark.parametrize("policy", POLICIES)
def test_the_next_queue_of_a_tree_is_as_defined(policy: str) -> None:
    placed = 0
    for seed in range(cases(4)):
        life = compared(policy, seed, LifeInATree)
        for _ in range(100):
            life.tell()
        placed += len(life.tasks)
    assert placed >= 20


def cluster(policy: str = "drf/first-fit", **amounts: float) -> Scheduler:
    s = Scheduler(list(amounts), policy)
    s.add_server("a", amounts)
    return s


def test_a_team_gets_its_part_however_many_it_has() -> None:
    s = cluster(cpu=120)
    s.add_queue("one", 1)
    s.add_queue("two", 3)
    for k in range(7):
        s.add_queue(f"one {k}", parent="one")
        s.submit(f"one {k}", {"cpu": 1}, 100)
    for name, weight in (("two a", 1), ("two b", 2)):
        s.add_queue(name, weight, parent="two")
        s.submit(name, {"cpu": 1}, 100)
    got = Counter(p.queue for p in s.place())
    assert (got["two a"], got["two b"]) == (30, 60)
    assert sorted(got[f"one {k}"] for k in range(7)) == [4, 4, 4, 4, 4, 5, 5]


@pytest.mark.parametrize("depth", [1, 5, 40])
def test_a_chain_of_single_children_changes_nothing(depth: int) -> None:
    flat, deep = cluster(cpu=10, memory=7), cluster(cpu=10, memory=7)
    for s, levels in ((flat, 0), (deep, depth)):
        for name in ("ana", "bo"):
            parent = None
            for level in range(levels):
                s.add_queue(f"{name} {level}", parent=parent)
                parent = f"{name} {level}"
            s.add_queue(name, parent=parent)
        s.submit("ana", {"cpu": 2, "memory": 1}, 9)
        s.submit("bo", {"cpu": 1, "memory": 2}, 9)
    assert [p.queue for p in deep.place()] == [p.queue for p in flat.place()]
    deep.check()


def test_naive_sums_may_starve_a_queue() -> None:
    """Naive sums are the definition; hierarchical DRF (Bhattacharya et al. 2013) is not yet."""
    s = cluster(cpu=10, gpu=10)
    s.add_queue("n1")
    s.add_queue("n2")
    s.add_queue("n21", parent="n2")
    s.add_queue("n22", parent="n2")
    s.submit("n21", {"cpu": 1}, 100)
    s.submit("n22", {"gpu": 1}, 100)
    s.submit("n1", {"gpu": 1}, 100)
    tasks = s.place()
    assert Counter(p.queue for p in tasks)["n21"] == 10
    for _ in range(30):  # whatever GPU is freed goes to n1
        freed = next((p for p in tasks if p.queue == "n22"), None)
        if freed is None:
            break
        s.finish(freed.task)
        tasks.remove(freed)
        tasks += s.place()
    assert Counter(p.queue for p in tasks) == {"n21": 10, "n1": 10}


def test_only_leaves_take_tasks_and_may_be_removed() -> None:
    s = cluster(cpu=4)
    s.add_queue("team")
    s.submit("team", {"cpu": 8})
    with pytest.raises(InputError, match="tasks of 'team' wait or run"):
        s.add_queue("ana", parent="team")
    with pytest.raises(InputError, match="no parent 'nobody'"):
        s.add_queue("ana", parent="nobody")
    s.cancel(s.submit("team", {"cpu": 1}))
    s.remove_server("a")
    s = cluster(cpu=4)
    s.add_queue("team")
    s.add_queue("ana", parent="team")
    with pytest.raises(InputError, match="submit to one of these"):
        s.submit("team", {"cpu": 1})
    with pytest.raises(InputError, match="queues below 'team'"):
        s.remove_queue("team")
    s.remove_queue("ana")
    s.submit("team", {"cpu": 1})
    assert [p.queue for p in s.place()] == ["team"]


def test_other_policies_refuse_depth() -> None:
    for policy in [*ROWS, "slots:8"]:
        s = Scheduler(["cpu"], policy)
        s.add_queue("team")
        before = s.snapshot()
        if parse_policy(policy).has_trees:
            s.add_queue("ana", parent="team")
            continue
        with pytest.raises(RefusalError, match="need drf, fifo or easy"):
            s.add_queue("ana", parent="team")
        assert s.snapshot() == before

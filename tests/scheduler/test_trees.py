"""Queues below queues: who is next is what the definition says, from the root down."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from test_events import ManyGangs

from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.policies import ROWS, parse_policy
from fairlead.scheduler.scheduler import Scheduler
from scheduler_machine import LIMITS, WEIGHTS, drive, machine_for

POLICIES = ["drf/first-fit", "drf/best-fit", "slots:3", "fifo/first-fit", "easy/best-fit"]
# Queues and their parents; names that the machine adds itself come to be among them.
TREE = {"left": None, "right": None, "inner": "left", "ana": "inner", "bo": "right", "cy": "inner"}
TREE |= {"di": "left", "ed": "right"}


class InATree(ManyGangs):
    """Teams and a team in a team are there first; whoever is added is in one of them."""

    def tell(self, event: str, *arguments: Any, **options: Any) -> Any:
        if event == "add_queue" and "left" not in self.plain.queues:
            for name in ("left", "right", "inner", "cy", "di"):
                super().tell(event, name, 1 + len(name) % 2, parent=TREE[name])
            for name in ("cy", "di"):
                self.enter("submit", name, self.demand(29), 6)
        if event == "add_queue" and arguments[0] in list(TREE) and options.get("parent") is None:
            options["parent"] = TREE[arguments[0]]
        answer = super().tell(event, *arguments, **options)
        if event == "place" and answer:
            waits = {g.queue.name for g in self.plain.groups.values() if g.waits()}
            self.seen["siblings wait"] += len(waits & {"ana", "cy"}) == 2
            self.seen["depths wait"] += len(waits & {"di", "cy", "ana"}) > 1
        return answer

    @rule(
        name=st.sampled_from(["left", "right", "inner"]),
        weight=st.sampled_from(WEIGHTS),
        limit=LIMITS,
    )
    def weigh_a_team(self, name: str, weight: Any, limit: int) -> None:
        self.tell("set_weight", name, weight)
        self.place(limit)


@pytest.mark.parametrize("policy", POLICIES)
def test_who_is_next_in_a_tree_is_as_it_is_defined(policy: str) -> None:
    machine = machine_for(policy, Scheduler, InATree)
    seen = drive(machine, examples=8, steps=25, shrink=False)
    assert seen["placements"] >= 20
    assert seen["siblings wait"] + seen["depths wait"] >= 3


def test_an_explanation_names_the_teams() -> None:
    s = cluster(cpu=4)
    s.add_queue("sales")
    s.add_queue("ana", parent="sales")
    s.add_queue("eve", parent="sales")
    s.add_queue("bo")
    for name in ("ana", "bo"):
        s.submit(name, {"cpu": 1}, 9)
    s.place()
    g = s.submit("eve", {"cpu": 1})
    why = s.explain(g)
    assert why.above == (("sales", 0.5),)
    assert [(c.of, c.starts) for c in why.would_change if c.kind == "weight"] == [
        ("eve", False),
        ("sales", False),
    ]
    s.add_server("b", {"cpu": 1})
    assert why.to_dict()["above"] == [{"user": "sales", "share": 0.5}]
    with pytest.raises(RefusalError, match="queues below"):
        s.shares()


def test_in_a_tree_times_of_submission_decide_under_fifo() -> None:
    s = cluster("easy/first-fit", cpu=4)
    for name, parent in (("lab", None), ("ana", "lab"), ("bo", "lab")):
        s.add_queue(name, parent=parent)
    s.submit("bo", {"cpu": 3}, time_limit=99, now=0)
    s.place(0)
    s.submit("bo", {"cpu": 4}, now=1)
    why = s.explain(s.submit("ana", {"cpu": 1}, now=2), 10)
    assert why.above == ()
    assert "Ahead by time of submission: bo (9 s ago); ana came 8 s ago." in str(why)


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


def test_sums_of_what_complements_each_other_starve_somebody() -> None:
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
    with pytest.raises(InputError, match="only they take tasks"):
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
        with pytest.raises(RefusalError, match="only under drf, fifo and easy"):
            s.add_queue("ana", parent="team")
        assert s.snapshot() == before


def test_teams_that_grow_and_shrink_keep_their_order() -> None:
    s = cluster(cpu=400)
    for team in range(4):
        s.add_queue(f"team {team}")
    for k in range(60):
        s.add_queue(f"{k}", parent=f"team {k % 4}")
        s.submit(f"{k}", {"cpu": 1}, 3)
        if k % 7 == 3:
            s.place(limit=2)
            s.check()
    assert Counter(int(p.queue) % 4 for p in s.place()).total() + 18 == 180
    restored = Scheduler.restore(s.snapshot())
    restored.check()
    assert restored.snapshot() == s.snapshot()

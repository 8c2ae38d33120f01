"""Trees of queues: the next queue and explanations are as defined; printed examples."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from effort import cases
from fairlead.errors import RefusalError
from fairlead.scheduler._entities import Placement
from fairlead.scheduler.policies import ROWS, parse_policy
from fairlead.scheduler.scheduler import Scheduler
from random_trees import random_queues
from scheduler.consistency import check
from scheduler.random_life import WEIGHTS, Both, ComparedLife, lives, make_life
from scheduler.test_explanations import ExplainedLife

POLICIES = ["drf/best-fit", "slots:3", "fifo/first-fit", "easy/best-fit"]
POLICIES += ["drf/best-fit/half-life:2", "ps-dsf/rrr"]
TREE = {"left": None, "right": None, "inner": "left", "n": "inner", "p": "right", "q": "inner"}
SHAPES = [{"cpu": 1}, {"gpu": 1}, {"cpu": 1, "gpu": 1}, {"cpu": 2, "gpu": 1}, {"cpu": 1, "gpu": 3}]


class LifeInATree(ComparedLife):
    """A life that starts with teams, one of them inside another."""

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

    def on_guarantee_a_team(self) -> None:
        team, choice = self.random.choice(["left", "right", "inner"]), self.random.choice
        most = choice([1, 3, 6]) * (2**55 if self.kind == "huge" else 1)
        self.s.set_quota(team, {choice(["cpu", "memory"]): most}, choice([None, {"zone": "x"}]))

    def on_limit_a_team(self) -> None:
        team, most = self.random.choice(["left", "right", "inner"]), self.random.choice([2, 4, 8])
        self.s.set_limit(team, {"cpu": most * (2**55 if self.kind == "huge" else 1)})


class ExplainedLifeInATree(LifeInATree, ExplainedLife):
    """A life in which groups of a tree are explained between other events."""


@pytest.mark.parametrize("policy", POLICIES)
def test_a_tree_is_served_and_explained_as_defined(policy: str) -> None:
    placed = 0
    seen: Counter[str] = Counter()
    for seed in range(lives(4)):
        life = make_life(policy, seed, ExplainedLifeInATree)
        for _ in range(100):
            life.step()
        placed += len(life.tasks)
        seen += life.s.seen
    assert placed >= lives(4)
    assert seen["waits"] >= lives(4)
    assert seen["ahead"] >= lives(4) // 4 or policy.startswith(("fifo", "easy"))


def cluster(policy: str = "drf/first-fit", **amounts: float) -> Scheduler:
    s = Scheduler(list(amounts), policy)
    s.add_server("a", amounts)
    return s


def test_queues_with_one_child_change_nothing() -> None:
    flat, deep = cluster(cpu=10, memory=7), cluster(cpu=10, memory=7)
    for s, levels in ((flat, 0), (deep, 40)):
        for name in ("ana", "bo"):
            parent = None
            for level in range(levels):
                s.add_queue(f"{name} {level}", parent=parent)
                parent = f"{name} {level}"
            s.add_queue(name, parent=parent)
        s.submit("ana", {"cpu": 2, "memory": 1}, 9)
        s.submit("bo", {"cpu": 1, "memory": 2}, 9)
    assert [p.queue for p in deep.place()] == [p.queue for p in flat.place()]
    check(deep)


def end_tasks(s: Scheduler, tasks: list[Placement], times: int, ends: str) -> Counter[str]:
    """End a task of a queue and place, many times; return the number of tasks of each queue."""
    for _ in range(times):
        ended = next((p for p in tasks if p.queue == ends), None)
        if ended is None:
            break
        s.finish(ended.task)
        tasks.remove(ended)
        tasks += s.place()
    return Counter(p.queue for p in tasks)


def add_tree(s: Scheduler, queues: dict[str, str | None], demands: dict[str, str]) -> None:
    """Add queues with their parents, and submit 1,000 tasks of one resource to some."""
    for name, parent in queues.items():
        s.add_queue(name, parent=parent)
    for name, resource in demands.items():
        s.submit(name, {resource: 1}, 1000)


def test_a_sibling_with_all_cpus_does_not_cost_gpus() -> None:
    """Bhattacharya et al. 2013: by plain sums, n1 would have all GPUs, one after the other."""
    s = cluster(cpu=10, gpu=10)
    add_tree(
        s,
        {"n1": None, "n2": None, "n21": "n2", "n22": "n2"},
        {"n21": "cpu", "n22": "gpu", "n1": "gpu"},
    )
    tasks = s.place()
    assert Counter(p.queue for p in tasks) == {"n21": 10, "n1": 5, "n22": 5}
    assert end_tasks(s, tasks, 30, "n22") == {"n21": 10, "n1": 5, "n22": 5}
    assert end_tasks(s, tasks, 30, "n1") == {"n21": 10, "n1": 5, "n22": 5}


def test_the_second_printed_tree_is_divided_as_printed() -> None:
    """Bhattacharya et al. 2013: ignoring the tree gives n32 two thirds of the GPUs."""
    s = cluster(cpu=300, gpu=300)
    add_tree(
        s,
        {"n1": None, "n2": None, "n3": None, "n31": "n3", "n32": "n3", "n4": None},
        {"n1": "cpu", "n2": "cpu", "n31": "cpu", "n32": "gpu", "n4": "gpu"},
    )
    tasks = s.place()
    expected = {"n1": 100, "n2": 100, "n31": 100, "n32": 150, "n4": 150}
    assert Counter(p.queue for p in tasks) == expected
    # The many GPUs of n32 do not cost n31 a CPU when it is freed.
    assert end_tasks(s, tasks, 50, "n31") == expected
    assert end_tasks(s, tasks, 50, "n4") == expected


def test_a_resource_is_saturated_for_larger_tasks_only() -> None:
    s = cluster(cpu=100, gpu=100)
    s.add_server("b", {"cpu": 1})
    add_tree(
        s,
        {"n1": None, "n2": None, "n21": "n2", "n22": "n2", "n23": "n2"},
        {"n22": "gpu", "n1": "gpu"},
    )
    s.submit("n21", {"cpu": 2}, 100)
    s.submit("n23", {"cpu": 1})
    assert Counter(p.queue for p in s.place()) == {"n1": 51, "n22": 49, "n21": 49, "n23": 1}


@pytest.mark.parametrize("members", [1, 200])
def test_a_large_team_gets_no_more_than_its_part(members: int) -> None:
    s = cluster(cpu=100)
    s.add_queue("team")
    s.add_queue("alone")
    for k in range(members):
        s.add_queue(f"member {k}", parent="team")
        s.submit(f"member {k}", {"cpu": 1}, 100)
    s.submit("alone", {"cpu": 1}, 100)
    assert Counter(p.queue for p in s.place())["alone"] == 50


# Under ps-dsf/rrr each server is divided by hierarchical DRF, as a pool.


def add_random_tree(s: Scheduler | Both, random: Random, leaves: int) -> None:
    """Add a random tree whose leaves are u0, u1, ..."""
    rows, of_leaf = random_queues(random, leaves)
    used = {*of_leaf, *(row["parent"] for row in rows)}
    for row in rows:
        if row["name"] in used:
            s.add_queue(row["name"], row["weight"], row["parent"])
    for n, queue in enumerate(of_leaf):
        s.add_queue(f"u{n}", random.choice([1, 1, 2, 3, 0]), queue)


@pytest.mark.parametrize("seed", range(cases(8)))
def test_crowded_servers_are_filled_as_defined(seed: int) -> None:
    """Many tasks on each server, leaves that may run on some servers only, and ending tasks."""
    random = Random(seed)
    s = Both(("cpu", "gpu"), "ps-dsf/rrr", seed=seed)
    names = "abc"[: random.randint(1, 3)]
    for name in names:
        s.add_server(name, {"cpu": random.randint(4, 12), "gpu": random.randint(4, 12)})
    add_random_tree(s, random, 5)
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


# Limits and refusals


def test_a_gang_beyond_a_limit_prevents_no_reservation() -> None:
    s = cluster("drf/first-fit/reserve", cpu=4)
    add_tree(s, {"team": None, "ana": "team", "bo": "team"}, {})
    s.submit("ana", {"cpu": 1}, time_limit=10)
    s.set_limit("ana", tasks=1)
    assert [p.queue for p in s.place()] == ["ana"]
    s.submit("ana", {"cpu": 1}, 2, gang=True, time_limit=10)
    waits = s.submit("bo", {"cpu": 4}, time_limit=10)
    assert s.place() == []
    assert s.explain(waits, 0.0).reservation.at == 10


def test_trees_have_scores_of_dominant_shares_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A criterion of tasks in this cycle would order teams by their amounts, without a word."""
    _, selection, cycle = ROWS["drf/first-fit"]
    monkeypatch.setitem(ROWS, "tsf/first-fit", (ROWS["tsf/first-fit"][0], selection, cycle))
    with pytest.raises(AssertionError):
        Scheduler(["cpu"], "tsf/first-fit")


def test_other_policies_refuse_trees() -> None:
    for policy in [*ROWS, "slots:8", "ps-dsf/rrr/reserve"]:
        s = Scheduler(["cpu"], policy)
        s.add_queue("team")
        before = s.snapshot()
        if parse_policy(policy).has_trees:
            s.add_queue("ana", parent="team")
            continue
        with pytest.raises(RefusalError, match="need drf, fifo or easy"):
            s.add_queue("ana", parent="team")
        assert s.snapshot() == before

"""Live shares: held and fair shares of the usable capacity."""

from __future__ import annotations

import json
from collections import defaultdict
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

from effort import cases
from fairlead.errors import InputError, RefusalError
from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from fairlead.scheduler.scheduler import Scheduler
from random_trees import random_tree

RESOURCES = ["cpu", "memory", "gpu"]
WEIGHT = {"ana": 1, "bo": 2, "cy": 3, "dee": 1, "ed": 0}


class Tasks(NamedTuple):
    """Waiting or running tasks of a group."""

    queue: str
    demand: np.ndarray
    where: Any
    number: int
    is_running: bool


class RandomState:
    """A scheduler with random tasks, and its state as plain tables."""

    def __init__(self, policy: str, seed: int) -> None:
        random = Random(seed)
        self.s = s = Scheduler(RESOURCES, policy)
        self.capacity: dict[str, np.ndarray] = {}  # usable: of draining servers the used amounts
        self.zone = {f"s{k}": "ab"[k % 2] for k in range(5)}
        for name, zone in self.zone.items():
            row = [random.choice([4, 8]), random.choice([4, 16]), random.choice([0, 2])]
            self.capacity[name] = np.array(row, dtype=float)
            s.add_server(name, dict(zip(RESOURCES, row, strict=True)), {"zone": zone})
        for name, weight in WEIGHT.items():
            s.add_queue(name, weight)
        groups = {}
        for _ in range(14):
            queue = random.choice(["ana", "bo", "cy", "ed"])
            where = random.choice([None, {"zone": "a"}, ["s1", "s4"], ["s0"]])
            row = [random.choice([1, 2, 0.5]), random.choice([1, 3]), random.choice([0, 0, 0, 1])]
            demand, tasks = dict(zip(RESOURCES, row, strict=True)), random.randint(1, 6)
            group = s.submit(queue, demand, tasks, where, gang=random.random() < 0.3)
            groups[group] = (queue, np.array(row, dtype=float), where, tasks)
        placed = s.place(limit=25)
        for p in placed[::3]:
            s.finish(p.task)
        running = [p for k, p in enumerate(placed) if k % 3]
        started = [p.group for p in placed]
        self.tasks = [Tasks(*groups[g][:3], groups[g][3] - started.count(g), False) for g in groups]
        self.tasks += [Tasks(*groups[p.group][:3], 1, True) for p in running]
        s.drain("s0")
        self.capacity["s0"] = sum(groups[p.group][1] for p in running if p.server == "s0")
        if not np.any(self.capacity["s0"]):
            del self.capacity["s0"]

    def allowed(self, where: Any) -> tuple[str, ...]:
        if isinstance(where, dict):
            return tuple(n for n in self.capacity if self.zone[n] == where["zone"])
        return tuple(n for n in self.capacity if where is None or n in where)

    def is_wanted(self, tasks: Tasks) -> bool:
        """Return whether tasks run, or an empty open server is large enough for one."""
        open_ = [self.capacity[n] for n in self.allowed(tasks.where) if n != "s0"]
        return tasks.is_running or any((tasks.demand <= c).all() for c in open_)

    def expected(self, mechanism: str) -> tuple[dict[str, float], dict[str, float]]:
        """Return the shares and fair shares of queues, with each server as a group of its own."""
        names, total = list(self.capacity), sum(self.capacity.values())
        wanted, number = defaultdict(lambda: np.zeros(3)), defaultdict(int)
        held = defaultdict(lambda: np.zeros(3))
        for t in self.tasks:
            held[t.queue] += t.is_running * t.demand
            if WEIGHT[t.queue] and t.number and self.is_wanted(t):
                kind = t.queue, self.allowed(t.where), tuple(t.demand > 0)
                wanted[kind] += t.number * t.demand
                number[kind] += t.number
        kinds = sorted(wanted)
        shares = {k: (wanted[k] / total).max() for k in kinds}
        whole = {q: (sum(wanted[k] for k in kinds if k[0] == q) / total).max() for q, *_ in kinds}
        problem = Problem.from_arrays(
            np.array([self.capacity[n] for n in names]),
            np.array([wanted[k] / number[k] for k in kinds]),
            weight=np.array([WEIGHT[k[0]] * shares[k] / whole[k[0]] for k in kinds]),
            eligible=np.array([[n in k[1] for n in names] for k in kinds]),
            task_limit=np.array([float(number[k]) for k in kinds]),
        )
        taken = defaultdict(lambda: np.zeros(3))
        for k, n in zip(kinds, solve(problem, mechanism).user_tasks, strict=True):
            taken[k[0]] += n * wanted[k] / number[k]
        return (
            {q: (held[q] / total).max() / (w or 1) for q, w in WEIGHT.items()},
            {q: (taken[q] / total).max() / (w or 1) for q, w in WEIGHT.items()},
        )


@pytest.mark.parametrize(
    ("policy", "asked", "mechanism"),
    [
        ("drf/best-fit", None, "drfh"),
        ("tsf/first-fit", None, "tsf"),
        ("ps-dsf/first-fit", "drfh", "drfh"),
        ("easy/first-fit", None, "drfh"),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_shares_equal_those_computed_server_by_server(
    policy: str, asked: str | None, mechanism: str, seed: int
) -> None:
    state = RandomState(policy, seed)
    got = state.s.shares(asked)
    assert got.mechanism == mechanism
    held, fair = state.expected(mechanism)
    assert [q.name for q in got.queues] == list(WEIGHT)
    assert [q.share for q in got.queues] == pytest.approx(list(held.values()), rel=1e-9)
    assert [q.fair_share for q in got.queues] == pytest.approx(list(fair.values()), rel=1e-5)
    assert all(q.difference == q.share - q.fair_share for q in got.queues)
    assert got.certificate.holds
    assert sum(q.running for q in got.queues) == sum(t.is_running for t in state.tasks)
    assert sum(q.waiting for q in got.queues) == sum(
        t.number for t in state.tasks if not t.is_running
    )
    plain = json.loads(json.dumps(got.to_dict()))
    assert plain["users"][0]["name"] == "ana"
    assert plain["certificate"]["holds"] is True


def test_tasks_that_fit_nowhere_are_due_nothing() -> None:
    s = Scheduler(["cpu", "gpu"], "drf/best-fit")
    s.add_server("a", {"cpu": 4})
    s.add_server("b", {"cpu": 2, "gpu": 1})
    for name, weight in (("ana", 2), ("bo", 1), ("cy", 1)):
        s.add_queue(name, weight)
    s.submit("ana", {"cpu": 1}, tasks=8)
    s.submit("bo", {"cpu": 4, "gpu": 1})  # no server has both
    s.submit("cy", {"cpu": 4}, where=["b"])
    s.place()
    held = {queue.name: (queue.share, round(queue.fair_share, 9)) for queue in s.shares().queues}
    assert held == {"ana": (0.5, 0.5), "bo": (0.0, 0.0), "cy": (0.0, 0.0)}
    assert s.shares_question().too_large == 2
    s.add_server("c", {"cpu": 4, "gpu": 1})
    assert [queue.fair_share > 0 for queue in s.shares().queues] == [True, True, False]


def test_a_task_of_more_slots_than_any_server_is_due_nothing() -> None:
    """A slot is of 4 cpu: the task needs two, and b has one. It has enough cpu for the task."""
    s = Scheduler(["cpu"], "slots:2")
    s.add_server("a", {"cpu": 8})
    s.add_server("b", {"cpu": 6})
    s.add_queue("ana")
    group = s.submit("ana", {"cpu": 5}, where=["b"])
    assert s.explain(group).held_by == "size"
    assert s.unplaceable_groups(1) == {group: "size"}
    assert s.shares().queues[0].fair_share == 0


def test_unsuitable_mechanisms_are_refused() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 4})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 1}, 20)
    with pytest.raises(InputError):
        s.shares("nonsense")
    with pytest.raises(RefusalError):
        s.shares("drf-per-server")


@pytest.mark.parametrize("mechanism", ["drfh", "ps-dsf"])
def test_fair_shares_in_a_tree_are_those_of_the_problem(mechanism: str) -> None:
    compared = 0
    for seed in range(cases(10)):
        problem = random_tree(Random(seed), servers=3)
        if problem.cluster.capacity.max() not in (1, 2, 3, 5, 8):
            continue  # amounts that a scheduler does not count exactly
        s = Scheduler(problem.cluster.resources, "drf/first-fit")
        for name, row in zip(problem.cluster.groups, problem.cluster.capacity, strict=True):
            s.add_server(name, amounts_of(problem, row))
        queues, users = problem.users.queues, problem.users
        assert queues is not None
        for row in queues.rows():
            s.add_queue(row["name"], row.get("weight", 1), row.get("parent"))
        groups = np.array(problem.cluster.groups)
        for n, name in enumerate(users.names):
            s.add_queue(name, users.weight[n], queues.name_of(queues.of_user[n]))
            where = groups[problem.runnable[n]].tolist()
            s.submit(name, amounts_of(problem, users.demand[n]), 10**6, where)
        question = s.shares_question(mechanism)
        if question.too_large or len(question.user) < problem.n_users:
            continue  # a task larger than all servers counts in the problem only
        found = question.answer()
        answer = solve(problem, mechanism)
        fair = {queue.name: queue.fair_share for queue in found.queues}
        shares = answer.dominant_share / users.weight
        assert [fair[name] for name in users.names] == pytest.approx(shares.tolist(), rel=1e-4)
        inner = answer.queue_share / queues.weight
        assert [fair[name] for name in queues.names] == pytest.approx(inner.tolist(), rel=1e-4)
        compared += 1
    assert compared


def amounts_of(problem: Problem, row: np.ndarray) -> dict[str, float]:
    pairs = zip(problem.cluster.resources, row.tolist(), strict=True)
    return {resource: amount for resource, amount in pairs if amount}


def test_below_a_queue_of_weight_0_nothing_is_due() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 12})
    s.add_queue("idle", 0)
    s.add_queue("ana", parent="idle")
    s.add_queue("bo")
    for name in ("ana", "bo"):
        s.submit(name, {"cpu": 1}, 20)
    assert [queue.fair_share for queue in s.shares().queues] == [0, 0, 1]
    assert [queue.is_short for queue in s.shares().queues] == [False, False, True]
    s.set_weight("bo", 0)
    assert s.shares().certificate is None


def test_a_question_is_answered_by_its_own_state() -> None:
    s = Scheduler(["cpu", "memory"], "drf/best-fit")
    s.add_server("a", {"cpu": 4, "memory": 8}, {"fast": "yes"})
    s.add_server("b", {"cpu": 8, "memory": 8})
    s.add_queue("ana")
    s.add_queue("bo", 2)
    s.submit("ana", {"cpu": 1, "memory": 1}, tasks=20)
    s.submit("bo", {"cpu": 2, "memory": 1}, tasks=3)
    s.submit("bo", {"cpu": 6, "memory": 1}, tasks=5, where={"fast": "yes"})
    s.submit("bo", {"cpu": 9, "memory": 1}, tasks=7)
    s.place()
    question, then = s.shares_question(), s.shares()
    assert question.too_large == 12
    assert question.total_capacity.tolist() == [12, 16]
    assert question.usable.tolist() == [12, 16]
    queues = {queue.name: queue for queue in then.queues}
    assert question.used.tolist() == [12, queues["ana"].running + queues["bo"].running]
    s.remove_server("b")
    s.add_queue("cy")
    s.submit("cy", {"cpu": 1, "memory": 1})
    later = question.answer()
    assert later.queues == then.queues
    assert later.to_dict() == then.to_dict()
    assert s.shares().queues != then.queues

"""Easy beside its definition where much runs, time goes on, and ends and limits often coincide."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fairlead.scheduler.scheduler import Scheduler
from oracles.plain_scheduler import Scheduler as Plain

RESOURCES = ["cpu", "memory"]
# Of the first hundreds, those that tell apart what is nearly easy.
SEEDS = (*range(8), 21, 54, 120, 322)


def rest(placement: Any) -> tuple[Any, ...]:
    return placement.queue, placement.server, placement.attempt, placement.index


class StatesOfEasy:
    """Two schedulers that are told the same; few shapes, and small whole limits."""

    def __init__(self, seed: int, policy: str) -> None:
        self.random = Random(seed)
        self.resources = RESOURCES[: self.random.choice([1, 2, 2])]
        self.plain, self.real = Plain(self.resources, policy), Scheduler(self.resources, policy)
        self.groups: dict[int, int] = {}
        self.tasks: dict[int, int] = {}
        self.now = self.random.choice([0.0, 0.1, 1e6])
        self.has_priorities = seed % 4 == 3
        self.backfilled = 0
        for s in range(self.random.randint(1, 4)):
            self.tell("add_server", f"s{s}", {r: self.random.randint(2, 9) for r in self.resources})
        for q in range(3):
            self.tell("add_queue", f"q{q}")

    def tell(self, event: str, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        return tuple(getattr(s, event)(*arguments, **options) for s in (self.plain, self.real))

    def demand(self) -> dict[str, int]:
        amounts = {r: self.random.choice([0, 1, 3]) for r in self.resources}
        return amounts | {"cpu": self.random.choice([1, 1, 2, 6])}

    def submit(self) -> None:
        choice = self.random.choice
        options = {
            "time_limit": choice([1, 2, 3, 4, 6, 8, None]),
            "now": self.now,
            "priority": choice([0, 0, 1, -1]) if self.has_priorities else 0,
        }
        queue = f"q{self.random.randrange(3)}"
        if self.random.random() < 0.3:
            members = [(self.demand(), choice([1, 2, 4])) for _ in range(choice([1, 2, 3]))]
            plain, real = self.tell("submit_gang", queue, members, **options)
        else:
            options |= {"tasks": choice([1, 1, 2, 3, 6]), "gang": self.random.random() < 0.3}
            plain, real = self.tell("submit", queue, self.demand(), **options)
        self.groups[real] = plain

    def end_some(self) -> None:
        """Most that are over by their limits end, a few before, and others run for too long."""
        for real, plain in list(self.tasks.items()):
            task = self.plain.running.get(plain)
            if task is None:
                del self.tasks[real]
            elif self.random.random() < (0.7 if task.end <= self.now else 0.1):
                self.plain.finish(plain)
                self.real.finish(real)
                del self.tasks[real]

    def assume_some(self) -> None:
        """Part of a gang may be found running."""
        waiting = [(r, p) for r, p in self.groups.items() if p in self.plain.groups]
        waiting = [(r, p) for r, p in waiting if self.plain.groups[p].waits()]
        if waiting:
            real, plain = self.random.choice(waiting)
            since = self.now - self.random.choice([0, 1, 2])
            task = self.plain.assume(plain, "s0", since)
            self.tasks[self.real.assume(real, "s0", since)] = task

    def place(self) -> None:
        head = next(iter(self.plain.by_submission()), None)
        plain, real = self.tell("place", self.now, self.random.choice([None, None, None, 1, 3]))
        assert [(p.group, *rest(p)) for p in plain] == [
            (self.groups[p.group], *rest(p)) for p in real
        ]
        self.backfilled += sum(head is not None and p.group != head.id for p in plain[:1])
        self.tasks |= {b.task: a.task for a, b in zip(plain, real, strict=True)}
        self.real.check()

    def step(self) -> None:
        for _ in range(self.random.choice([0, 1, 2, 4])):
            self.submit()
        self.now += self.random.choice([0, 1, 1, 2])
        self.end_some()
        if self.random.random() < 0.1:
            self.tell(self.random.choice(["drain", "undrain"]), "s0")
        if self.random.random() < 0.1:
            self.assume_some()
        self.place()
        if self.random.random() < 0.05:
            self.real = Scheduler.restore(self.real.snapshot())


@pytest.mark.parametrize("policy", ["easy/first-fit", "easy/best-fit"])
def test_whoever_starts_is_who_may(policy: str) -> None:
    backfilled = 0
    for seed in SEEDS:
        both = StatesOfEasy(seed, policy)
        for _ in range(20):
            both.step()
        backfilled += both.backfilled
    assert backfilled > 20


class BothPlacing:
    """The definition and the real one; who is placed when is expected of both."""

    def __init__(self, policy: str, resources: list[str]) -> None:
        self.schedulers = Plain(resources, policy), Scheduler(resources, policy)
        self.names: tuple[dict[int, str], dict[int, str]] = ({}, {})
        for s in self.schedulers:
            s.add_queue("ana")

    def add_server(self, name: str, **capacity: float) -> None:
        for s in self.schedulers:
            s.add_server(name, capacity)

    def submit(self, name: str, limit: float, *members: dict[str, float], **options: Any) -> None:
        """One shape is a task, several are a gang; where: a server."""
        options |= {"time_limit": limit}
        for s, names in zip(self.schedulers, self.names, strict=True):
            if len(members) == 1:
                names[s.submit("ana", members[0], **options)] = name
            else:
                names[s.submit_gang("ana", [(m, 1) for m in members], **options)] = name

    def placed(self) -> list[tuple[str, str]]:
        plain, real = (
            [(names[p.group], p.server) for p in s.place(0.0)]
            for s, names in zip(self.schedulers, self.names, strict=True)
        )
        assert plain == real
        return real


def test_best_fit_may_reserve_elsewhere_once_something_started() -> None:
    """At 10 the head fits a best; with early on a it fits b best, and late may start on a."""
    s = BothPlacing("easy/best-fit", ["cpu", "memory"])
    s.add_server("a", cpu=12, memory=12)
    s.add_server("b", cpu=10, memory=8)
    s.submit("fill a", 10, {"cpu": 5, "memory": 7}, where=["a"])
    s.submit("fill b", 10, {"cpu": 5, "memory": 3}, where=["b"])
    assert s.placed() == [("fill a", "a"), ("fill b", "b")]
    s.submit("head", 9, {"cpu": 6, "memory": 6})
    s.submit("early", 99, {"cpu": 1, "memory": 5}, where=["a"])
    s.submit("late", 99, {"cpu": 6}, where=["a"])
    assert s.placed() == [("early", "a"), ("late", "a")]


def test_a_gang_of_several_shapes_may_fit_sooner_once_something_started() -> None:
    """Its first task would go to a, where alone its second one fits before 20; until a is full."""
    s = BothPlacing("easy/first-fit", ["cpu", "gpu"])
    for name, cpu, gpu in (("a", 2, 1), ("b", 1, 1), ("c", 2, 0)):
        s.add_server(name, cpu=cpu, gpu=gpu)
    s.submit("fill b", 10, {"cpu": 1}, where=["b"])
    s.submit("fill c", 20, {"cpu": 2}, where=["c"])
    assert len(s.placed()) == 2
    s.submit("head", 9, {"cpu": 1, "gpu": 1}, {"cpu": 2})
    s.submit("short", 15, {"gpu": 1}, where=["a"])
    s.submit("late", 15, {"cpu": 1})
    assert s.placed() == [("short", "a")]

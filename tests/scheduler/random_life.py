"""Random events for the scheduler, alone or compared with the plain one after each event."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

from effort import cases
from fairlead.compiled import plain_is_selected
from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.scheduler import Scheduler
from oracles import plain_choosing, plain_scheduler
from oracles.plain_scheduler import Placement
from scheduler.consistency import check

POLICIES = [*plain_choosing.POLICIES, "slots:3", "drf/first-fit/half-life:3"]
# Each criterion, selection and suffix; `test_random_lives` has all policies.
VARIED_POLICIES = [
    *("drf/best-fit", "drf/best-fit-first/residual", "drf/rrr/oblivious", "tsf/best-fit-first"),
    *("drf/first-fit/half-life:3", "tsf/rrr/residual", "ps-dsf/best-fit", "ps-dsf/rrr"),
    *("ps-dsf/joint/residual", "slots:3", "fifo/first-fit", "easy/best-fit"),
]
if plain_is_selected():  # the same source runs more slowly, so a policy of each kind is enough
    POLICIES = ["drf/best-fit", "tsf/first-fit/residual", "ps-dsf/joint", "drf/rrr/oblivious"]
    POLICIES += ["slots:3", "fifo/first-fit", "easy/best-fit"]
    VARIED_POLICIES = POLICIES

RESOURCES = ["cpu", "memory"]
REFUSED = "refused"
WEIGHTS = [0, 1, 1, 2, 0.5, 1 / 3, 0.7, 1 + 2**-50]


def lives(number: int) -> int:
    """Return the number of random lives: fewer in plain Python, which runs the same source."""
    return cases(number // 2 if plain_is_selected() else number)


def outcome(scheduler: Any, event: str, arguments: Any, options: Any) -> Any:
    """Call a method of a scheduler; return its answer, or `REFUSED` if it raises."""
    try:
        found = getattr(scheduler, event)(*arguments, **options)
    except (InputError, RefusalError):
        return REFUSED
    if event != "place":
        return found
    return [Placement(p.task, p.group, p.queue, p.server, p.attempt, p.index) for p in found]


class Both:
    """Calls the methods of both schedulers, which give the same ids, and compares their answers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.plain = plain_scheduler.Scheduler(*arguments, **options)
        self.real = Scheduler(*arguments, **options)
        self.log: list[str] = []  # the calls so far, as code
        self.seen: Counter[str] = Counter()  # number of calls, by event
        self.questions = 0  # number of nested blocks of `what_if`

    def __getattr__(self, event: str) -> Any:
        return lambda *arguments, **options: self.call(event, *arguments, **options)

    def call(self, event: str, *arguments: Any, **options: Any) -> Any:
        self.log.append(f"s.{event}(*{arguments}, **{options})")
        expected = outcome(self.plain, event, arguments, options)
        before = self.real.snapshot() if expected is REFUSED else None
        got = outcome(self.real, event, arguments, options)
        assert got == expected, "\n".join([*self.log, f"expected {expected}", f"got {got}"])
        self.seen[REFUSED if got is REFUSED else event] += 1
        if got is REFUSED:
            assert self.real.snapshot() == before
            raise InputError(REFUSED)
        if len(self.log) % 8 == 0:  # `check` restores a copy, which takes longer than most events
            check(self.real)
        return got

    def place(self, now: Any = 0.0, limit: Any = None) -> list[Placement]:
        placed = self.call("place", now, limit)
        if limit is None or len(placed) < limit:
            assert self.real.next_moment() == self.plain.next_moment()
        return placed

    def restore(self) -> None:
        """Go on from a snapshot, except in `what_if`, which belongs to the earlier scheduler."""
        if self.questions:
            return
        data = self.real.snapshot()
        self.real = Scheduler.restore(data)
        assert self.real.snapshot() == data
        check(self.real)

    @contextmanager
    def what_if(self) -> Iterator[None]:
        plain, before = self.plain, self.real.snapshot()
        self.plain = pickle.loads(pickle.dumps(plain))
        self.questions += 1
        with self.real.what_if():
            yield
            check(self.real)
        self.questions -= 1
        self.plain = plain
        assert self.real.snapshot() == before
        check(self.real)


class RandomLife:
    """Calls random events of a scheduler, also of names and ids that are gone, which it refuses."""

    def __init__(self, scheduler: Any, seed: int) -> None:
        self.s = scheduler
        self.random = Random(seed)
        self.tasks: list[int] = []
        self.groups: list[int] = []
        self.clock = 0.0
        self.kind = ("decimal", "inexact", "huge", "few")[seed % 4]
        self.events = [getattr(self, name) for name in dir(type(self)) if name[:3] == "on_"]
        for name in "abc":
            scheduler.add_server(name, self.amounts(4))
        self.add_queues()

    def add_queues(self) -> None:
        for name in "npq":
            self.s.add_queue(name)

    def amounts(self, largest: float) -> dict[str, float]:
        """Return amounts: decimals, inexact ones, huge ones, or few whole ones."""
        choice = self.random.choice
        if self.kind == "decimal":
            return {r: round(self.random.uniform(0, largest), 1) for r in RESOURCES}
        if self.kind == "inexact":
            return {r: self.random.randrange(9) / choice([3, 7, 9]) for r in RESOURCES}
        if self.kind == "huge":
            return {r: int(largest * self.random.randrange(9)) * 2**55 for r in RESOURCES}
        if largest > 3:  # of a server
            return {r: choice([2, 4, 6]) for r in RESOURCES}
        return dict(zip(RESOURCES, choice([(1, 1), (2, 1), (1, 0)]), strict=True))

    def name(self, letters: str) -> str:
        return self.random.choice(letters)

    def where(self) -> Any:
        return self.random.choice([None, None, None, {"zone": "x"}, ["a", "b"], ["c", "q"]])

    def step(self) -> None:
        """Call a random event: a method whose name starts with `on_`."""
        with suppress(InputError, RefusalError):
            self.random.choice(self.events)()

    def on_add_server(self) -> None:
        labels = self.random.choice([None, {"zone": "x"}, {"zone": "y"}])
        order = self.random.choice([None, None, 0, -3])
        self.s.add_server(self.name("abcdef"), self.amounts(4), labels, order)

    def on_set_server(self) -> None:
        name = self.name("abcdef")
        self.s.set_server(name, self.random.choice([None, self.amounts(4)]))
        self.s.set_server(name, labels={"zone": self.name("xy")})

    def on_drain(self) -> None:
        self.s.drain(self.name("abcdef"))

    def on_undrain(self) -> None:
        self.s.undrain(self.name("abcdef"))

    def on_remove_server(self) -> None:
        self.s.remove_server(self.name("abcdef"))

    def on_add_queue(self) -> None:
        parent = self.random.choice([None, None, self.name("npq")])
        self.s.add_queue(self.name("npqrst"), self.random.choice(WEIGHTS), parent)

    def on_set_weight(self) -> None:
        self.s.set_weight(self.name("npqrst"), self.random.choice(WEIGHTS))

    def on_set_limit(self) -> None:
        queue, choice = self.name("npqrst"), self.random.choice
        if self.random.random() < 0.5:
            self.s.set_limit(queue)
            return
        largest = choice([0, 1, 4, 8]) * (2**55 if self.kind == "huge" else 1)
        self.s.set_limit(queue, choice([None, {choice(RESOURCES): largest}]), choice([None, 1, 4]))

    def on_set_quota(self) -> None:
        queue, choice = self.name("npqrst"), self.random.choice
        where = choice([None, None, {"zone": "x"}, ["a", "b"]])
        if self.random.random() < 0.3:
            self.s.set_quota(queue, where=where)
            return
        most = choice([0, 1, 3, 8]) * (2**55 if self.kind == "huge" else 1)
        self.s.set_quota(queue, {choice(RESOURCES): most}, where)

    def on_remove_queue(self) -> None:
        self.s.remove_queue(self.name("npqrst"))

    def on_submit(self) -> None:
        choice = self.random.choice
        is_gang = self.random.random() < 0.3
        group = self.s.submit(
            self.name("npqrst"),
            self.amounts(2),
            choice([1, 2, 3, 4, 9, 20] if is_gang and self.kind == "few" else [1, 2, 5]),
            where=self.where(),
            priority=choice([0, 0, 1]),
            gang=is_gang,
            attempts=choice([None, 1, 2]),
            time_limit=choice([None, 0.5, 1, 2, 2.5, 4]),
            now=self.clock,
        )
        self.groups.append(group)

    on_submit_again = on_submit
    on_submit_more = on_submit

    def on_submit_gang(self) -> None:
        members = [(self.amounts(2), 2), (self.amounts(3), 1, self.where())]
        limit = self.random.choice([None, 1, 3])
        queue = self.name("npqrst")
        self.groups.append(self.s.submit_gang(queue, members, time_limit=limit, now=self.clock))

    def a_task(self) -> int:
        return self.random.choice(self.tasks[-12:]) if self.tasks else -1

    def a_group(self) -> int:
        return self.random.choice(self.groups[-12:]) if self.groups else -1

    def on_finish(self) -> None:
        self.s.finish(self.a_task())

    on_finish_again = on_finish

    def on_fail(self) -> None:
        self.s.fail(self.a_task())

    def on_evict(self) -> None:
        self.s.evict(self.a_task())

    def on_cancel(self) -> None:
        self.s.cancel(self.a_group())

    def on_set_priority(self) -> None:
        self.s.set_priority(self.a_group(), self.random.choice([-1, 0, 2**62]))

    def on_assume(self) -> None:
        since = self.random.choice([None, None, self.clock - 1])
        self.tasks.append(self.s.assume(self.a_group(), self.name("abcdef"), since))

    def on_place(self) -> None:
        self.clock += self.random.choice([0, 0.5])
        placed = self.s.place(self.clock, self.random.choice([None, 1, 3]))
        self.tasks += [placement.task for placement in placed]

    on_place_again = on_place
    on_place_more = on_place


class ComparedLife(RandomLife):
    """A life of `Both`, with snapshots and blocks of `what_if`."""

    s: Both

    def on_restore(self) -> None:
        self.s.restore()

    def on_ask(self) -> None:
        """Call events inside `what_if`, perhaps nested."""
        kept = list(self.tasks), list(self.groups), self.clock
        with self.s.what_if():
            for _ in range(self.random.choice([1, 6])):
                self.step()
        self.tasks, self.groups, self.clock = kept


def life_quanta(seed: int) -> dict[str, float] | None:
    """Return quanta that suit the amounts of a life."""
    return dict.fromkeys(RESOURCES, 1) if seed % 4 == 2 else None


def make_life(policy: str, seed: int, kind: type[ComparedLife] = ComparedLife) -> ComparedLife:
    """Return a life of both schedulers under a policy.

    Successive seeds have other kinds of amounts, and are strict in turn.
    """
    strict_fifo = (seed + seed // 4) % 2 == 0
    both = Both(RESOURCES, policy, life_quanta(seed), seed % 6, strict_fifo=strict_fifo)
    return kind(both, seed)

"""An open scheduler driven beside the plain one through all events, with arguments good and wild.

A scheduler is plugged in by one line, `machine_for(policy, make)`, where `make` is its class or
whatever gives one for (resources, policy, quanta, seed, strict_fifo=). `drive` runs the machine.
"""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from fairlead.errors import InputError, RefusalError
from oracles.plain_scheduler import Scheduler as Plain

RESOURCES = ("cpu", "memory", "gpu")
SERVERS = ("a", "b", "c", "d", "e")
QUEUES = ("ana", "bo", "cy", "di", "ed", "fay")
REFUSED = "refused"

# Amounts of servers and of tasks, and quanta; a task takes something of the first resource.
DECIMAL = ([1, 2, 3, 4, 0.5, 0], [0.1, 0.25, 0.5, 1, 1.5], None)
INEXACT = (
    [1, math.pi, 4 / 3, 2.718281828459045, 0.1 + 0.2],
    [1 / 3, 0.1234567890123456, math.pi / 10, 0.1],
    None,
)
HUGE = ([2**60, 2**61, 3 * 2**59], [2**58, 2**59, 3 * 2**58], 1)
TINY = 1e-10
# Tasks that differ by one quantum in 2^59, in order: scores tell them apart, and with sums of
# fractions that are not linear in it, differences would come to less than scores can tell.
NEARLY_EQUAL = [2**59 + 1, 2**59]

WILD = [math.nan, math.inf, -1, -0.5, 2**62, 2**63, 10**400, "1", None, True, 1j, [1]]
WILD_AMOUNTS = [{"cpu": w} for w in WILD] + [None, 5, "cpu", {"disk": 1}, {}, [1, 1]]
WILD_WHOLE = [0, -1, 1.5, 2**62 + 1, 2**63, 10**400, "1", True, math.nan]
WILD_IDS = [-1, 2**62 + 7, 2**63, -(2**63), 10**30, 1.5, math.nan, "nobody", None, True, [1], {}]
WILD_NAMES = ["", "nobody", 0, -1, 2**63, None, math.nan, True, ["a"], b"a"]
WILD_MEMBERS = [[], 5, [5], [()], ["ab"], "ab", [({"cpu": 1},)], {"cpu": 1}]
WILD_LABELS = [{"zone": 1}, {1: "a"}, {"": "a"}, 5, "zone", ["zone"]]
WILD_WHERE = ["", "a", [], [1], [""], 5, {"zone": None}, {"zone": ["a"]}]
WILD_NUMBERS = [0, -1, math.nan, math.inf, "1", True, None, "x"]


class Id(NamedTuple):
    """What two schedulers call the same task or group."""

    plain: int
    real: Any


def mostly(good: list[Any], wild: list[Any]) -> st.SearchStrategy[Any]:
    """Draw one of the good, and one time in twenty, about, of the wild."""
    return st.sampled_from(good * -(-19 * len(wild) // len(good)) + wild)


# One draw for an argument, as draws are what takes time.
LABELS = [None, None, {"zone": "a"}, {"zone": "b", "gpu": "T4"}, {}]
WHERE = [None, None, None, {"zone": "a"}, {"gpu": "T4"}, {}, ["a", "b"], ("c", "zz")]
WEIGHTS = [1, 1, 2, 0.5, 3, 1 / 3, 0.7, 1 + 2**-50]
TASKS = [1, 1, 2, 3, 5, 2**40]
GOOD_OPTIONS = [
    {"now": now, "priority": priority, "where": where, "attempts": attempts, "time_limit": limit}
    for now, limit in ((0.0, 2.5), (1.0, None), (-2.5, 60.5), (0.0, 1), (0, 0.1))
    for priority in (0, 0, 1, -(2**40))
    for where in WHERE
    for attempts in (None, 1, 2)
]
WILD_OPTIONS = [
    {name: value}
    for name, values in {
        "now": [math.nan, math.inf, None, "0", True],
        "priority": [0.5, "1", None, 2**63, True],
        "where": WILD_WHERE,
        "attempts": WILD_WHOLE,
        "time_limit": WILD_NUMBERS[:-2],
    }.items()
    for value in values
]
OPTIONS = mostly(GOOD_OPTIONS, WILD_OPTIONS)
LIMITS = st.sampled_from([9, 1, 2, 0, 30])
AMOUNTS = st.integers(0, 999_999)  # two digits for each resource; or wild
GOOD_AMOUNTS = st.integers(0, 34_000).map(lambda k: k * 29 + k % 28)
WHICH = st.integers(0, 999)  # the last digit says how to look, those before it for which
# Those that are there from the start more often than the others.
SERVER = mostly([*SERVERS[:3], *SERVERS], WILD_NAMES)
QUEUE = mostly([*QUEUES[:2] * 2, *QUEUES], WILD_NAMES)
WEIGHT = mostly(WEIGHTS, WILD_NUMBERS)


class SchedulerMachine(RuleBasedStateMachine):
    """Every event, told to both; after each both place as much as they are asked to."""

    policy: ClassVar[str]
    make_scheduler: ClassVar[Callable[..., Any]]
    define: ClassVar[type[Plain]] = Plain
    seen: ClassVar[Counter[str]]

    # What an implementation has; a class that differs overrides these.

    def snapshot(self, scheduler: Any) -> Any:
        """Return what is compared to see that nothing changed, and restored; None without it."""
        return scheduler.snapshot() if hasattr(scheduler, "snapshot") else None

    def restore(self, data: Any) -> Any:
        for damaged in (data[:-1], data[: len(data) // 2], data + b"x", b""):
            assert outcome(type(self.real).restore, damaged) is REFUSED
        restored = type(self.real).restore(data)
        assert restored.snapshot() == data
        return restored

    # How both are told

    @initialize(
        seed=st.integers(0, 5),
        strict=st.booleans(),
        profile=st.sampled_from([DECIMAL, DECIMAL, INEXACT, HUGE]),
        n_resources=st.integers(1, 3),
        amounts=st.lists(GOOD_AMOUNTS, min_size=6, max_size=6),
        weights=st.lists(st.sampled_from(WEIGHTS), min_size=2, max_size=2),
    )
    def begin(self, seed, strict, profile, n_resources, amounts, weights) -> None:
        self.resources = list(RESOURCES[:n_resources])
        self.profile = profile
        self.is_linear = not any(part in self.policy for part in ("residual", "best-fit"))
        quanta = None if profile[2] is None else dict.fromkeys(self.resources, profile[2])
        arguments = (self.resources, self.policy, quanta, seed)
        self.plain = self.define(*arguments, strict_fifo=strict)
        self.real = type(self).make_scheduler(*arguments, strict_fifo=strict)
        self.groups: list[Id] = []
        self.tasks: list[Id] = []
        self.kept: Any = None
        self.clock = 0.0
        for name, numbers in zip(SERVERS[:3], amounts, strict=False):
            self.tell("add_server", name, self.capacity(numbers), labels={"zone": name})
        for name, weight in zip(QUEUES, weights, strict=False):
            self.tell("add_queue", name, weight)
        alike = amounts[5] % 2  # so that scores tie, or weights alone tell them apart
        for name, numbers in zip(QUEUES[:2] * 2, amounts[2:], strict=False):
            demand = self.demand(amounts[5] if alike else numbers)
            self.enter("submit", name, demand, 3 + numbers % 3)
        self.place(7)
        self.tell("add_server", SERVERS[0], {"cpu": 1})
        self.tell("submit", "nobody", {"cpu": 1}, 1)
        self.tell("finish", WILD_IDS[amounts[0] % len(WILD_IDS)])
        for which in amounts[:2]:
            task = self.id_of("task", which % 80 // 8 * 10)
            self.expect_ids(self.tell("evict", task), "evictions")

    def amounts(self, number: int, values: list[Any]) -> Any:
        """Return an amount of each resource by its digits, or something wild."""
        if is_wild(number):
            return WILD_AMOUNTS[number // 29 % len(WILD_AMOUNTS)]
        digits = [number % 100, number // 100 % 100, number // 10_000]
        return {r: values[k % len(values)] for r, k in zip(self.resources, digits, strict=False)}

    def capacity(self, number: int | None) -> Any:
        return None if number is None else self.amounts(number, self.profile[0])

    def demand(self, number: int) -> Any:
        huge = self.profile is HUGE
        values = self.profile[1] + (NEARLY_EQUAL if huge and self.is_linear else [])
        amounts = self.amounts(number, values)
        if number % 3 == 0 and not is_wild(number):
            amounts[self.resources[-1]] = 0 if huge or number % 2 else TINY
        if not is_wild(number) and not amounts[self.resources[0]]:
            amounts[self.resources[0]] = values[0]
        return amounts

    def tell(self, event: str, *arguments: Any, **options: Any) -> tuple[Any, Any] | None:
        """Tell both; return what they return, or nothing if both refuse."""
        expected = outcome(
            getattr(self.plain, event),
            *[a.plain if isinstance(a, Id) else a for a in arguments],
            **options,
        )
        before = self.snapshot(self.real) if expected is REFUSED else None
        got = outcome(
            getattr(self.real, event),
            *[a.real if isinstance(a, Id) else a for a in arguments],
            **options,
        )
        self.seen[f"{event} {'refused' if expected is REFUSED else 'done'}"] += 1
        if expected is REFUSED or got is REFUSED:
            assert expected is got, f"{event} {arguments} {options}: {expected}, but {got}"
            assert self.snapshot(self.real) == before, f"{event} {arguments} changed the state"
            self.seen["refusals"] += 1
            return None
        self.plain.check()
        self.real.check()
        return expected, got

    def id_of(self, kind: str, which: int) -> Any:
        """Return a task or group that is there, or that ever was, or a wild id."""
        ever = self.tasks if kind == "task" else self.groups
        there = self.plain.running if kind == "task" else self.plain.groups
        how, k = which % 10, which // 10
        ids = [i for i in ever if i.plain in there] if how < 8 else ever
        return WILD_IDS[k % len(WILD_IDS)] if how == 9 or not ids else ids[k % len(ids)]

    def expect_ids(self, answer: tuple[Any, Any] | None, counted: str) -> None:
        if answer is not None:
            names = {i.real: i.plain for i in self.tasks}
            assert [names[task] for task in answer[1]] == answer[0]
            self.seen[counted] += len(answer[0])

    def new_id(self, ids: list[Id], plain: Any, real: Any) -> None:
        assert real not in {i.real for i in ids}, "an id is given twice"
        ids.append(Id(plain, real))

    def enter(self, event: str, *arguments: Any, **options: Any) -> None:
        answer = self.tell(event, *arguments, **options)
        if answer is not None:
            self.new_id(self.groups, *answer)

    def place(self, limit: Any, now: Any = None) -> None:
        now = self.clock if now is None else now
        if limit is None and sum(g.waits() for g in self.plain.groups.values()) > 40:
            limit = 12
        answer = self.tell("place", now, limit)
        if answer is None:
            return
        groups = {i.real: i.plain for i in self.groups}
        expected = [(p.group, p.queue, p.server, p.attempt, p.index) for p in answer[0]]
        got = [(groups[p.group], p.queue, p.server, p.attempt, p.index) for p in answer[1]]
        assert got == expected
        for plain, real in zip(*answer, strict=True):
            self.new_id(self.tasks, plain.task, real.task)
        self.seen["placements"] += len(expected)
        if limit is None or len(expected) < limit:
            assert self.real.next_moment() == self.plain.next_moment()
        if limit == 2:  # it goes on where it stopped
            self.go_on_from_a_snapshot()
            self.place(3)

    # Servers

    @rule(
        name=SERVER,
        amounts=AMOUNTS,
        labels=mostly(LABELS, WILD_LABELS),
        order=mostly([None, None, 0, 1, -3, 2**40], [1.5, "x", 2**63, True]),
        limit=LIMITS,
    )
    def add_server(self, name, amounts, labels, order, limit) -> None:
        self.tell("add_server", name, self.capacity(amounts), labels=labels, order=order)
        self.place(limit)

    @rule(
        name=SERVER,
        amounts=st.none() | AMOUNTS,
        labels=mostly(LABELS, WILD_LABELS),
        limit=LIMITS,
    )
    def set_server(self, name, amounts, labels, limit) -> None:
        self.tell("set_server", name, capacity=self.capacity(amounts), labels=labels)
        self.place(limit)

    @rule(
        event=st.sampled_from(["drain", "undrain", "undrain", "remove_server"]),
        name=SERVER,
        limit=LIMITS,
    )
    def change_server(self, event, name, limit) -> None:
        answer = self.tell(event, name)
        if event == "remove_server":
            self.expect_ids(answer, "evictions")
        self.place(limit)

    # Queues

    @rule(
        name=QUEUE,
        weight=WEIGHT,
        parent=mostly([None, None, *QUEUES], ["nobody", 0, True]),
    )
    def add_queue(self, name, weight, parent) -> None:
        self.tell("add_queue", name, weight, parent=parent)

    @rule(name=QUEUE, weight=WEIGHT, limit=LIMITS)
    def set_weight(self, name, weight, limit) -> None:
        self.tell("set_weight", name, weight)
        self.place(limit)

    @rule(name=QUEUE)
    def remove_queue(self, name) -> None:
        self.tell("remove_queue", name)

    # Groups

    @rule(
        queue=QUEUE,
        amounts=AMOUNTS,
        tasks=mostly(TASKS, WILD_WHOLE),
        gang=mostly([False, False, False, True], [None, "yes", 1]),
        options=OPTIONS,
        limit=LIMITS,
    )
    def submit(self, queue, amounts, tasks, gang, options, limit) -> None:
        if gang is True and tasks == 2**40:
            tasks = 4
        self.enter("submit", queue, self.demand(amounts), tasks, gang=gang, **options)
        self.place(limit)

    @rule(
        queue=QUEUE,
        amounts=st.lists(AMOUNTS, min_size=1, max_size=3),
        tasks=mostly([1, 2, 3], WILD_WHOLE),
        own=mostly(WHERE, WILD_WHERE),
        wild=mostly([None], WILD_MEMBERS),
        options=OPTIONS,
        limit=LIMITS,
    )
    def submit_gang(self, queue, amounts, tasks, own, wild, options, limit) -> None:
        members = [(self.demand(number), 1 + number % 3) for number in amounts]
        members[-1] = (members[-1][0], tasks) if own is None else (members[-1][0], tasks, own)
        self.enter("submit_gang", queue, members if wild is None else wild, **options)
        self.place(limit)

    @rule(
        group=WHICH,
        priority=mostly([1, 0, -1, 2**62, -(2**62)], [0.5, "1", None, 2**63, True]),
        limit=LIMITS,
    )
    def set_priority(self, group, priority, limit) -> None:
        self.tell("set_priority", self.id_of("group", group), priority)
        self.place(limit)

    @rule(group=WHICH, limit=LIMITS)
    def cancel(self, group, limit) -> None:
        self.expect_ids(self.tell("cancel", self.id_of("group", group)), "cancelled")
        self.place(limit)

    # Tasks

    @rule(tasks=st.lists(WHICH, min_size=1, max_size=4), limit=LIMITS)
    def finish(self, tasks, limit) -> None:
        for task in tasks:
            self.tell("finish", self.id_of("task", task))
        self.place(limit)

    @rule(
        event=st.sampled_from(["fail", "evict"]),
        tasks=st.lists(WHICH, min_size=1, max_size=3),
        limit=LIMITS,
    )
    def stop(self, event, tasks, limit) -> None:
        for task in tasks:
            self.expect_ids(self.tell(event, self.id_of("task", task)), "evictions")
        self.place(limit)

    @rule(
        group=WHICH,
        server=SERVER,
        since=mostly([None, None, -7, 0.5], [math.nan, "0", True]),
        limit=LIMITS,
    )
    def assume(self, group, server, since, limit) -> None:
        options = {} if since is None else {"since": since}
        answer = self.tell("assume", self.id_of("group", group), server, **options)
        if answer is not None:
            self.new_id(self.tasks, *answer)
        self.place(limit)

    @rule(
        limit=mostly([None, 1, 12], [-1, 1.5, "1", True, math.nan]),
        now=mostly([0.0, 3.5, 0.5, 1, 61], [math.nan, math.inf, "0", [], True]),
    )
    def place_more(self, limit, now) -> None:
        """Place at some time; tasks are placed at that from then on."""
        if type(now) in (int, float) and math.isfinite(now):
            self.clock = float(now)
        self.place(limit, now)

    # What was so

    @rule()
    def go_on_from_a_snapshot(self) -> None:
        data = self.snapshot(self.real)
        if data is not None:
            self.real = self.restore(data)
            self.real.check()
            self.seen["restored"] += 1

    @rule()
    def keep(self) -> None:
        data = self.snapshot(self.real)
        if data is not None:
            self.kept = (copied(self.plain), data, list(self.groups), list(self.tasks))

    @rule()
    def go_back(self) -> None:
        """Go back to an earlier moment; what was given ids since may get the same again."""
        if self.kept is not None:
            plain, data, groups, tasks = self.kept
            self.plain, self.real = copied(plain), self.restore(data)
            self.groups, self.tasks = list(groups), list(tasks)
            self.seen["gone back"] += 1

    @rule(tasks=st.lists(WHICH, min_size=1, max_size=3), limit=LIMITS)
    def ask_what_if(self, tasks, limit) -> None:
        """Both evict and place; then the one has not, and of the other that was a copy."""
        if self.snapshot(self.real) is None:
            return
        before, kept = self.snapshot(self.real), (self.plain, list(self.groups), list(self.tasks))
        with self.real.what_if():
            self.plain = copied(self.plain)
            for task in tasks:
                self.expect_ids(self.tell("evict", self.id_of("task", task)), "evictions")
            self.place(3 if limit == 2 else limit)  # a snapshot would be of what is not so
        self.plain, self.groups, self.tasks = kept
        assert self.snapshot(self.real) == before
        self.real.check()
        self.seen["what if"] += 1


def is_wild(number: int) -> bool:
    return number % 29 == 28


def copied(plain: Plain) -> Plain:
    return pickle.loads(pickle.dumps(plain))


def outcome(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return what a call returns, or that it is refused; whatever else is raised is a fault."""
    try:
        return call(*arguments, **options)
    except (InputError, RefusalError):
        return REFUSED


def machine_for(policy: str, make: Callable[..., Any], base: type = SchedulerMachine) -> type:
    """Return a machine that drives what `make` makes, under one policy, and counts afresh."""
    return type(
        "Machine",
        (base,),
        {"policy": policy, "make_scheduler": staticmethod(make), "seen": Counter()},
    )


def drive(machine: type, *, examples: int, steps: int, shrink: bool = True) -> Counter[str]:
    """Run a machine, and return what it has seen."""
    phases = set(Phase) - (set() if shrink else {Phase.shrink, Phase.explain, Phase.reuse})
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples, stateful_step_count=steps, phases=phases),
    )
    return machine.seen

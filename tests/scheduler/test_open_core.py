"""The open scheduler, by as much as it does so far, against the plain one through all events."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from fairlead.errors import InputError
from fairlead.scheduler import best_fitting, cycle, rows
from fairlead.scheduler.scheduler import Scheduler
from open_core_machine import OpenCoreMachine, drive, machine_for
from oracles.plain_gangs import RememberingScheduler

IN_TURN = [f"{c}/{s}" for c in ("drf", "tsf", "ps-dsf") for s in ("first-fit", "best-fit")]
SELECTIONS = ("first-fit", "best-fit", "best-fit-first", "rrr")
POLICIES = [f"{c}/{s}" for c in ("drf", "tsf", "ps-dsf") for s in SELECTIONS]
POLICIES += [
    "fifo/first-fit",
    "fifo/best-fit",
    "easy/first-fit",
    "easy/best-fit",
    "slots:3",
    "drf/rrr/oblivious",
    "ps-dsf/rrr/oblivious",
    "ps-dsf/joint",
    "ps-dsf/joint/residual",
    "ps-dsf/rrr/residual",
]
POLICIES += [f"{c}/{s}/residual" for c in ("drf", "tsf") for s in SELECTIONS]


REFUSE_SECONDS = 2.5  # so that a refusal ends between the moments at which tasks are placed


class PlainOfShortRefusals(RememberingScheduler):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, refuse_seconds=REFUSE_SECONDS, **options)


class OfShortRefusals(Scheduler):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, refuse_seconds=REFUSE_SECONDS, **options)


class WithManyGangs(OpenCoreMachine):
    """Every other group of a few tasks is a gang; what happens to gangs is counted."""

    define = PlainOfShortRefusals

    def enter(self, event: str, *arguments: Any, **options: Any) -> None:
        if event == "submit" and len(self.groups) % 2 and arguments[2] in (2, 3, 4, 5):
            options["gang"] = True
        super().enter(event, *arguments, **options)

    def tell(self, event: str, *arguments: Any, **options: Any) -> tuple[Any, Any] | None:
        failed, groups = set(self.plain.failed), dict(self.plain.groups)
        answer = super().tell(event, *arguments, **options)
        if answer is not None:
            now, there = self.plain.failed, self.plain.groups.keys()
            self.seen["gangs that failed"] += len(now - failed)
            self.seen["gangs tried again"] += len((failed - now) & there)
            if event == "place":
                gangs = {p.group for p in answer[0] if groups[p.group].gang}
                self.seen["gangs placed"] += len(gangs)
            elif event in ("evict", "fail", "remove_server"):
                self.seen["gangs lost"] += len(answer[0]) > 1
            elif event == "cancel":
                self.seen["gangs cancelled"] += groups[arguments[0].plain].gang
            elif event == "assume":
                self.seen["gangs found running"] += groups[arguments[0].plain].gang
        return answer


@pytest.mark.usefixtures("uncompiled")
def test_a_server_is_known_to_be_freed_when_an_earlier_one_goes() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_queue("ana")
    for name in "abc":
        s.add_server(name, {"cpu": 1})
    s.submit("ana", {"cpu": 1}, tasks=3)
    first, second, _ = s.place()
    s.finish(second.task)
    s.finish(first.task)
    s.remove_server("a")
    s.submit("ana", {"cpu": 1})
    assert [p.server for p in s.place()] == ["b"]


@pytest.mark.parametrize("policy", POLICIES)
def test_before_anything_is_submitted_nothing_is_placed_nor_compiled(policy: str) -> None:
    for with_queue, with_server in product([False, True], repeat=2):
        s = Scheduler(["cpu"], policy)
        if with_queue:
            s.add_queue("ana")
        if with_server:
            s.add_server("a", {"cpu": 1})
        assert s.place() == s.place(1.0) == []
        s.check()


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", POLICIES)
def test_every_event_is_as_it_is_defined(policy: str) -> None:
    machine = machine_for(policy, OfShortRefusals, WithManyGangs)
    seen = drive(machine, examples=4, steps=20, shrink=False)
    assert seen["placements"] >= 10
    assert seen["evictions"] >= 3
    assert seen["refusals"] >= 9


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("freed", [1, 2, 3])
def test_what_was_freed_is_found_after_an_earlier_server_leaves(freed: int) -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_queue("ana")
    for name in "abcd":
        s.add_server(name, {"cpu": 1})
    s.submit("ana", {"cpu": 1}, tasks=4)
    placed = s.place()
    s.finish(placed[freed].task)
    s.remove_server("a")
    s.check()
    assert [p.server for p in s.place()] == [placed[freed].server]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", ["drf/first-fit", "ps-dsf/best-fit"])
def test_whoever_waits_may_be_looked_up_instead_of_woken(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = look_up_always(monkeypatch)
    seen = drive(machine_for(policy, Scheduler, WithManyGangs), examples=25, steps=50, shrink=False)
    assert seen["placements"] >= 10
    assert found


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", ["drf/best-fit", "tsf/best-fit/residual"])
def test_freed_servers_may_be_searched_instead_of_scanned(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(best_fitting, "MOST_SCANNED", -1)
    seen = drive(machine_for(policy, Scheduler), examples=10, steps=40, shrink=False)
    assert seen["placements"] >= 10


def look_up_always(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have lines looked up however few are parked; return those that were found."""
    found, look_up = [], cycle.first_parked

    def first_parked(core: Any) -> int:
        number = look_up(core)
        found.extend([number] if number >= 0 else [])
        return number

    for module in (cycle, rows):
        monkeypatch.setattr(module, "MANY_PARKED", 0)
    monkeypatch.setattr(cycle, "first_parked", first_parked)
    return found


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", IN_TURN)
def test_a_gang_of_a_blocked_shape_goes_where_something_was_freed(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up_always(monkeypatch)
    s = Scheduler(["cpu"], policy)
    s.add_server("a", {"cpu": 2})
    for name in ("zoe", "ana", "bo"):
        s.add_queue(name)
    s.submit("zoe", {"cpu": 1}, tasks=2)
    running = s.place()
    s.submit("ana", {"cpu": 1}, tasks=2, gang=True)
    s.submit("bo", {"cpu": 1})
    assert not s.place()
    for placement in running:
        s.finish(placement.task)
    assert [p.queue for p in s.place()] == ["ana", "ana"]
    s.check()


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("amount", [10**400, Fraction(1, 10**400)])
def test_what_no_float_holds_is_refused(amount: Any) -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 4})
    s.add_queue("ana")
    before = s.snapshot()
    calls = [lambda: s.set_weight("ana", amount), lambda: s.add_queue("bo", amount)]
    if amount > 1:
        calls += [lambda: s.place(now=amount), lambda: s.submit("ana", {"cpu": 1}, now=amount)]
    for call in calls:
        with pytest.raises(InputError):
            call()
    assert s.snapshot() == before


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", POLICIES)
def test_queues_may_be_there_before_any_server(policy: str) -> None:
    s = Scheduler(["cpu"], policy)
    s.add_queue("ana")
    s.add_server("a", {"cpu": 4})
    s.submit("ana", {"cpu": 1}, 2)
    s.check()
    assert [p.server for p in s.place()] == ["a", "a"]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", POLICIES)
def test_where_nothing_is_nothing_is_placed(policy: str) -> None:
    s = Scheduler(["cpu", "memory"], policy)
    steps = [
        lambda: None,
        lambda: s.add_queue("ana"),
        lambda: s.submit("ana", {"cpu": 1}, tasks=2, gang=True),
    ]
    for step in steps:
        step()
        assert not s.place()
        assert Scheduler.restore(s.snapshot()).snapshot() == s.snapshot()
    s.add_server("a", {"cpu": 4, "memory": 1})
    assert len(s.place()) == 2
    s.check()


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", POLICIES)
def test_a_gang_of_more_tasks_than_memory_holds_waits(policy: str) -> None:
    s = Scheduler(["cpu"], policy)
    s.add_server("a", {"cpu": 4})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 1}, tasks=2**50, gang=True)
    assert not s.place()
    s.check()

"""What if: whatever happens in a block has not happened after it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from open_core_machine import LIMITS, WHICH, copied, drive, machine_for
from test_open_core import WithManyGangs
from test_snapshots import busy

from fairlead.scheduler.scheduler import Scheduler


class Stop(Exception):
    pass


class Asking(WithManyGangs):
    """Any events are asked about, and the scheduler decides as the plain one then and after."""

    @rule(
        asked=st.lists(st.tuples(st.integers(0, 7), WHICH), min_size=1, max_size=6),
        limit=LIMITS,
        raises=st.booleans(),
        inside=st.booleans(),
    )
    def ask(self, asked: Any, limit: int, raises: bool, inside: bool) -> None:
        before, kept = self.snapshot(self.real), (self.plain, list(self.groups), list(self.tasks))
        self.plain = copied(self.plain)
        try:
            with self.real.what_if():
                for event, number in asked:
                    self.ask_one(event, number)
                self.place(3 if limit == 2 else limit)
                if inside:
                    self.ask(asked[:1], limit, raises, False)
                if raises:
                    raise Stop
        except Stop:
            self.seen["raised"] += 1
        self.plain, self.groups, self.tasks = kept
        assert self.snapshot(self.real) == before
        self.real.check()
        self.seen["asked"] += 1

    def ask_one(self, event: int, number: int) -> None:
        name = "abcde"[number % 5]
        task = self.id_of("task", number)
        if event == 0:
            self.tell("add_server", f"new {number}", self.capacity(number))
        elif event == 1:
            self.expect_ids(self.tell("remove_server", name), "evictions")
        elif event == 2:
            self.tell("set_weight", "ana", 1 + number % 4)
        elif event == 3:
            self.enter("submit", "bo", self.demand(number), 3, where=[name], attempts=1)
        elif event == 4:
            self.tell("drain" if number % 2 else "undrain", name)
        elif event == 5:
            self.tell("finish", task)
        elif event == 6:
            self.expect_ids(self.tell("fail", task), "evictions")
        else:
            self.expect_ids(self.tell("cancel", self.id_of("group", number)), "cancelled")


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", ["tsf/first-fit", "drf/best-fit"])
def test_what_was_asked_has_not_happened(policy: str) -> None:
    seen = drive(machine_for(policy, Scheduler, Asking), examples=8, steps=20, shrink=False)
    assert seen["asked"] >= 1
    assert seen["placements"] >= 10


def stop_in_a_question(s: Scheduler) -> None:
    with suppress(Stop), s.what_if():
        s.remove_server("c")
        raise Stop


@pytest.mark.usefixtures("uncompiled")
def test_what_is_decided_after_a_question_is_as_without_it() -> None:
    asked, other = busy(), busy()
    data = asked.snapshot()
    with asked.what_if():
        asked.add_queue("cy")
        asked.submit("cy", {"memory": 1}, 3, where=["b"], attempts=3)
        asked.add_server("b", {"cpu": 99, "memory": 99}, labels={"zone": "b"})
        for placement in asked.place():
            asked.fail(placement.task)
        with asked.what_if():
            asked.remove_server("a")
        assert asked.snapshot() != data
    assert asked.snapshot() == data
    stop_in_a_question(asked)
    for s in (asked, other):
        s.add_server("b", {"cpu": 99, "memory": 99})
    assert asked.place() == other.place()
    assert asked.snapshot() == other.snapshot()

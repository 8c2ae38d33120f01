"""What if: whatever happens in a block has not happened after it."""

from __future__ import annotations

import os
from contextlib import suppress
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from test_open_core import WithManyGangs
from test_snapshots import busy

from fairlead.scheduler import undo
from fairlead.scheduler.scheduler import Scheduler
from fairlead.scheduler.undo import NotedTable
from open_core_machine import LIMITS, WHICH, copied, drive, machine_for


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
    seen = drive(machine_for(policy, Scheduler, Asking), examples=40, steps=20, shrink=False)
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


def arrays_of(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return [value]
    named = isinstance(value, tuple) and hasattr(value, "_replace")
    return [array for part in value for array in arrays_of(part)] if named else []


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", ["drf/best-fit", "ps-dsf/joint/residual", "drf/rrr/oblivious"])
def test_nothing_is_copied_but_what_is_written(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "MAPPED", 1)
    s = Scheduler(["cpu", "memory"], policy)
    for k in range(300):
        s.add_server(f"s{k}", {"cpu": 4, "memory": 4})
    for k in range(40):
        s.add_queue(f"q{k}")
        s.submit(f"q{k}", {"cpu": 1 + k % 3, "memory": 1}, 9)
    tasks = [p.task for p in s.place()]
    with s.what_if():
        s.evict(tasks[0])
    before = {name: arrays_of(value) for name, value in vars(s).items()}
    bytes_before = {name: [a.tobytes() for a in found] for name, found in before.items()}
    with s.what_if():
        for task in tasks[::7]:
            s.evict(task)
        s.set_weight("q3", 9)
        s.add_server("new", {"cpu": 9, "memory": 9})
        s.submit("q5", {"cpu": 3, "memory": 2}, 50)
        assert s.place()
        s.check()
    after = {name: arrays_of(value) for name, value in vars(s).items()}
    for name, found in after.items():
        assert [id(a) for a in found] == [id(a) for a in before[name]]  # what was there, not copies
        assert [a.tobytes() for a in found] == bytes_before[name]
    s.check()


@pytest.mark.usefixtures("uncompiled")
def test_rows_that_grow_between_questions_move_together_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(undo, "MAPPED", 1)
    monkeypatch.setattr(undo, "MOST_FILES", 3)
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_queue("ana")
    most = 0
    for k in range(120):
        s.add_server(f"s{k}", {"cpu": 2})
        s.submit("ana", {"cpu": 1}, 2)
        placed = s.place()
        data = s.snapshot()
        with s.what_if():
            s.evict(placed[0].task)
            assert s.place()[0].server == f"s{k}"
            s.remove_server("s0")
        assert s.snapshot() == data
        most = max(most, len(s._mapped))
    assert most == 3
    s.check()


def test_what_is_looked_up_by_name_or_key_is_noted() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    assert all(type(v) is NotedTable for v in vars(s).values() if isinstance(v, dict))
    table = NotedTable(a=1, b=2)
    before = list(table.items())
    table.journal = journal = []
    table["a"], table["c"] = 3, 4
    del table["b"]
    assert table.pop("d", None) is None
    with pytest.raises(KeyError):
        table.pop("d")
    table["b"] = 5
    assert table.pop("a") == 3
    for of, key, was in reversed(journal):
        of.undo(key, was)
    assert list(table.items()) == before  # in the same order


@pytest.mark.usefixtures("uncompiled")
def test_queues_have_their_order_after_a_question() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    for name in "xyz":
        s.add_queue(name)
    with s.what_if():
        s.remove_queue("x")
        assert [q.name for q in s.shares().queues] == ["y", "z"]
    assert [q.name for q in s.shares().queues] == ["x", "y", "z"]


@pytest.mark.usefixtures("uncompiled")
def test_questions_end_in_the_order_of_blocks() -> None:
    s = busy()
    outer, inner = s.what_if(), s.what_if()
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(RuntimeError, match="before those that were asked in it"):
        outer.__exit__(None, None, None)


def mapped(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    """Return a scheduler of which all arrays are in a file, since something was asked."""
    monkeypatch.setattr(undo, "MAPPED", 1)
    s = busy()
    with s.what_if():
        s.add_queue("cy")
    assert s._mapped
    return s


@pytest.mark.usefixtures("uncompiled")
def test_a_system_without_files_in_memory_has_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    s = mapped(monkeypatch)
    data = s.snapshot()
    with s.what_if():
        s.remove_server("a")
        assert s.snapshot() != data
    assert s.snapshot() == data
    s.check()


@pytest.mark.usefixtures("uncompiled")
def test_a_copy_has_rows_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    s = mapped(monkeypatch)
    other = deepcopy(s)
    data = other.snapshot()
    s.add_server("d", {"cpu": 9, "memory": 9})
    s.place()
    assert s.snapshot() != data
    with other.what_if():
        assert other.snapshot() == data
    assert other.snapshot() == data
    other.check()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_has_rows_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    s = mapped(monkeypatch)
    data = s.snapshot()
    child = os.fork()
    if child == 0:
        s.add_server("d", {"cpu": 9, "memory": 9})
        s.place()
        os._exit(0 if s.snapshot() != data and not s.check() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert s.snapshot() == data
    s.check()

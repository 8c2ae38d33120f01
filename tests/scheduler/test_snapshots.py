"""A scheduler as bytes: the same for the same events, wherever it was restored in between."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from test_open_core import OfShortRefusals, WithManyGangs

from fairlead.errors import InputError
from fairlead.scheduler.records import ARRAYS, Core, empty_core
from fairlead.scheduler.scheduler import Scheduler
from fairlead.scheduler.snapshot import MARK, REBUILT
from open_core_machine import INEXACT, LIMITS, WHICH, Id, drive, machine_for, outcome

# A policy for each kernel, and for what is kept beside the rows.
EACH_KERNEL = ["drf/first-fit", "tsf/best-fit", "ps-dsf/best-fit-first", "fifo/best-fit", "slots:3"]
EACH_KERNEL += ["drf/rrr", "tsf/rrr/residual", "ps-dsf/rrr/oblivious", "ps-dsf/joint"]
EACH_KERNEL += ["ps-dsf/joint/residual", "drf/best-fit/residual", "tsf/first-fit/residual"]
EACH_KERNEL += ["tsf/best-fit-first/residual"]


class Beside(WithManyGangs):
    """One goes on beside one that is restored, and their bytes are compared after each event."""

    twin: Any = None
    asks_what_if = False

    def tell(self, event: str, *arguments: Any, **options: Any) -> tuple[Any, Any] | None:
        if self.asks_what_if:
            return super().tell(event, *arguments, **options)
        if self.twin is None:
            self.twin = self.restore(self.real.snapshot())
        answer = super().tell(event, *arguments, **options)
        own = [a.real if isinstance(a, Id) else a for a in arguments]
        got = outcome(getattr(self.twin, event), *own, **options)
        assert answer is None or got == answer[1]
        assert self.twin.snapshot() == self.real.snapshot()
        self.twin.check()
        self.seen["beside"] += 1
        return answer

    @rule()
    def change_sides(self) -> None:
        if self.twin is not None:
            self.real, self.twin = self.twin, self.real

    @rule()
    def go_on_from_a_snapshot(self) -> None:
        self.twin = None
        super().go_on_from_a_snapshot()

    @rule()
    def go_back(self) -> None:
        self.twin = None
        super().go_back()

    @rule(tasks=st.lists(WHICH, min_size=1, max_size=3), limit=LIMITS)
    def ask_what_if(self, tasks: list[int], limit: int) -> None:
        self.asks_what_if = True
        super().ask_what_if(tasks, limit)
        self.asks_what_if = False


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", EACH_KERNEL)
def test_one_that_is_restored_goes_on_as_one_that_is_not(policy: str) -> None:
    seen = drive(machine_for(policy, OfShortRefusals, Beside), examples=3, steps=20, shrink=False)
    assert seen["beside"] >= 20
    assert seen["placements"] >= 10


@pytest.mark.usefixtures("uncompiled")
def test_room_for_rows_is_not_in_the_bytes() -> None:
    """A gang for which a restored scheduler has too few rows takes one more call of the kernel."""
    state = machine_for("tsf/rrr/residual", OfShortRefusals, Beside)()
    amounts = [88506, 14826, 21412, 491350, 10464, 863576]
    state.begin(2, False, INEXACT, 2, amounts, [0.5, 0.7])
    options = {"now": 1.0, "where": {"zone": "a"}, "attempts": 1}
    gang = {"amounts": [1467, 605, 17485], "tasks": 2, "own": {}, "wild": None}
    state.submit_gang(**gang, queue="ed", options=options, limit=0)
    state.finish(limit=30, tasks=[145, 205])
    state.place_more(limit=12, now=0.0)
    state.go_back()  # nothing was kept; the twin is restored anew
    state.finish(limit=1, tasks=[105])
    state.stop(event="fail", limit=2, tasks=[350, 450])
    assert state.seen["beside"] > 20


def busy() -> Scheduler:
    s = Scheduler(["cpu", "memory"], "drf/best-fit", {"cpu": 10**400 / 10**399}, seed=7)
    for name in ("a", "ä\ud800", "c"):
        s.add_server(name, {"cpu": 40, "memory": 4}, labels={"zone": name})
    s.add_queue("ana", 3)
    s.add_queue("bo")
    s.submit("ana", {"cpu": 10, "memory": 1}, 9, where={"zone": "a"}, attempts=2)
    s.submit("ana", {"cpu": 10, "memory": 1}, 9, where=["c", "nobody"])
    s.submit("bo", {"cpu": 99}, 3)
    for placement in s.place()[:2]:
        s.fail(placement.task)
    s.remove_server("ä\ud800")
    return s


@pytest.mark.usefixtures("uncompiled")
def test_the_same_events_give_the_same_bytes() -> None:
    data = busy().snapshot()
    assert data == busy().snapshot()
    restored = Scheduler.restore(bytearray(data))
    restored.check()
    assert restored.snapshot() == data
    a, b = busy(), restored
    assert a.place() == b.place()
    for s in (a, b):
        s.add_server("ä\ud800", {"cpu": 400, "memory": 90})
        s.submit("ana", {"cpu": 10}, 3)
    assert a.place() == b.place()
    assert a.snapshot() == b.snapshot() != data


@pytest.mark.usefixtures("uncompiled")
def test_ids_given_before_are_valid_and_stale_ones_are_refused() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 2})
    s.add_queue("ana")
    group = s.submit("ana", {"cpu": 1}, 3)
    first, second = s.place()
    s.finish(first.task)
    restored = Scheduler.restore(s.snapshot())
    with pytest.raises(InputError):
        restored.finish(first.task)
    restored.finish(second.task)
    assert [p.group for p in restored.place()] == [group]
    with pytest.raises(InputError):
        restored.finish(second.task)


@pytest.mark.usefixtures("uncompiled")
def test_what_is_not_a_snapshot_is_refused_in_one_line() -> None:
    data = busy().snapshot()
    version = data[: len(MARK)] + b"\x63" + data[len(MARK) + 1 :]
    cut = [data[:k] for k in (0, 5, len(MARK), len(MARK) + 9, 99, len(data) // 2, len(data) - 1)]
    flipped = [
        data[:k] + bytes([data[k] ^ 1]) + data[k + 1 :]
        for k in range(0, len(data), len(data) // 97)
    ]
    for wrong in [*cut, *flipped, version, data + b"x", data.decode("latin-1"), None, 5, [data]]:
        with pytest.raises(InputError, match=r"^snapshot: ") as caught:
            Scheduler.restore(wrong)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="of version 99"):
        Scheduler.restore(version)


def test_one_of_other_fields_is_refused() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    changed = s.snapshot()[:-32].replace(b'"fresh_in"', b'"fresh_on"')
    with pytest.raises(InputError, match="other fields"):
        Scheduler.restore(changed + sha256(changed).digest())


def test_every_array_grows_with_an_entity_or_is_whole() -> None:
    """A new one is kept unless it is said to be built anew; one that grows is named."""
    grow = {name for names in ARRAYS.values() for name in names}
    grow |= {"freed", "freed_at", "may", "below", "joined"}
    core = empty_core(2)
    assert grow <= set(Core._fields)
    assert set(REBUILT) <= set(Core._fields)
    for name in set(Core._fields) - grow:
        assert len(getattr(core, name)) in {1, 2}, f"{name} has no entity that it grows with"

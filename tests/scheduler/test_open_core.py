"""The open scheduler, by as much as it does so far, against the plain one through all events."""

from __future__ import annotations

from typing import Any

import pytest
from open_core_machine import OpenCoreMachine, drive, machine_for

from fairlead.errors import InputError
from fairlead.scheduler.open_scheduler import Scheduler
from oracles.plain_open_core import Scheduler as Plain

SELECTIONS = ("first-fit", "best-fit", "best-fit-first", "rrr")
POLICIES = [f"{c}/{s}" for c in ("drf", "tsf", "ps-dsf") for s in SELECTIONS]
POLICIES += [
    "fifo/first-fit",
    "fifo/best-fit",
    "slots:3",
    "drf/rrr/oblivious",
    "ps-dsf/rrr/oblivious",
    "ps-dsf/joint",
    "ps-dsf/joint/residual",
]
POLICIES += [f"{c}/{s}/residual" for c in ("drf", "tsf") for s in SELECTIONS[:3]]


REFUSE_SECONDS = 2.5  # so that a refusal ends between the moments at which tasks are placed


class PlainWithoutGangs(Plain):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, refuse_seconds=REFUSE_SECONDS, **options)

    def enter(self, queue: Any, members: Any, gang: Any, **options: Any) -> int:
        if gang is True:
            raise InputError("gangs are not placed yet", "gang")
        return super().enter(queue, members, gang, **options)


class WithoutGangs(OpenCoreMachine):
    define = PlainWithoutGangs


class Real(Scheduler):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, refuse_seconds=REFUSE_SECONDS, **options)

    def submit_gang(self, *_: Any, **__: Any) -> int:
        raise InputError("gangs are not placed yet", "gang")


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", POLICIES)
def test_every_event_is_as_it_is_defined(policy: str) -> None:
    seen = drive(machine_for(policy, Real, WithoutGangs), examples=6, steps=20)
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

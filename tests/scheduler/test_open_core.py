"""The open scheduler, by as much as it does so far, against the plain one through all events."""

from __future__ import annotations

from typing import Any

import pytest
from open_core_machine import OpenCoreMachine, drive, machine_for

from fairlead.errors import InputError
from fairlead.scheduler import cycle
from fairlead.scheduler.open_scheduler import Scheduler
from oracles.plain_open_core import Scheduler as Plain

POLICIES = [f"{c}/{s}" for c in ("drf", "tsf", "ps-dsf") for s in ("first-fit", "best-fit")]


class PlainWithoutGangs(Plain):
    def enter(self, queue: Any, members: Any, gang: Any, **options: Any) -> int:
        if gang is True:
            raise InputError("gangs are not placed yet", "gang")
        return super().enter(queue, members, gang, **options)


class WithoutGangs(OpenCoreMachine):
    define = PlainWithoutGangs


class Real(Scheduler):
    def submit_gang(self, *_: Any, **__: Any) -> int:
        raise InputError("gangs are not placed yet", "gang")


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", POLICIES)
def test_every_event_is_as_it_is_defined(policy: str) -> None:
    seen = drive(machine_for(policy, Real, WithoutGangs), examples=10, steps=20)
    assert seen["placements"] >= 10
    assert seen["evictions"] >= 3
    assert seen["refusals"] >= 9


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", POLICIES)
def test_whoever_waits_may_be_looked_up_instead_of_woken(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = look_up_always(monkeypatch)
    seen = drive(machine_for(policy, Real, WithoutGangs), examples=10, steps=20)
    assert seen["placements"] >= 10
    assert found


def look_up_always(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have lines looked up however few are blocked; return those that were found."""
    found, look_up = [], cycle.first_parked

    def first_parked(core: Any) -> int:
        number = look_up(core)
        found.extend([number] if number >= 0 else [])
        return number

    monkeypatch.setattr(cycle, "MANY_BLOCKED", 0)
    monkeypatch.setattr(cycle, "first_parked", first_parked)
    return found

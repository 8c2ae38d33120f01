"""The open scheduler, by as much as it does so far, against the plain one through all events."""

from __future__ import annotations

from typing import Any

import pytest
from open_core_machine import OpenCoreMachine, drive, machine_for

from fairlead.errors import InputError
from fairlead.scheduler.open_scheduler import Scheduler
from oracles.plain_open_core import Scheduler as Plain

POLICIES = [f"{c}/{s}" for c in ("drf", "tsf", "ps-dsf") for s in ("first-fit", "best-fit")]
POLICIES += [f"{c}/{s}/residual" for c in ("drf", "tsf") for s in ("first-fit", "best-fit")]
POLICIES += ["ps-dsf/joint", "ps-dsf/joint/residual"]


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

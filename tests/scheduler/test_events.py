"""The scheduler beside the plain one, through all events, with good and wild arguments."""

from __future__ import annotations

from typing import Any

import pytest

from effort import cases
from fairlead.compiled import plain_is_asked
from fairlead.scheduler.scheduler import Scheduler
from oracles.plain_gangs import RememberingScheduler
from scheduler_machine import SchedulerMachine, drive, machine_for

AFTER = ("first-fit", "best-fit", "best-fit-first", "rrr")  # the server is chosen after the queue
POLICIES = [
    *(f"{c}/{s}{form}" for c in ("drf", "tsf") for s in AFTER for form in ("", "/residual")),
    *(f"ps-dsf/{s}" for s in (*AFTER, "joint", "joint/residual", "rrr/residual")),
    *("drf/rrr/oblivious", "ps-dsf/rrr/oblivious"),
]
POLICIES += ["slots:3", *(f"{c}/{s}" for c in ("fifo", "easy") for s in ("first-fit", "best-fit"))]
if plain_is_asked():  # it is the same source, run more slowly: a policy of each kind is enough
    POLICIES = ["drf/best-fit", "tsf/first-fit/residual", "ps-dsf/joint", "drf/rrr/oblivious"]
    POLICIES += ["slots:3", "fifo/first-fit", "easy/best-fit"]


class ManyGangs(SchedulerMachine):
    """Every other group of a few tasks is a gang."""

    define = RememberingScheduler

    def enter(self, event: str, *arguments: Any, **options: Any) -> None:
        if event == "submit" and len(self.groups) % 2 and arguments[2] in (2, 3, 4, 5):
            options["gang"] = True
        super().enter(event, *arguments, **options)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_event_is_as_defined(policy: str) -> None:
    seen = drive(
        machine_for(policy, Scheduler, ManyGangs), examples=cases(6), steps=40, shrink=False
    )
    assert seen["placements"] >= cases(20)
    assert seen["evictions"] >= cases(2)
    assert seen["refusals"] >= cases(10)

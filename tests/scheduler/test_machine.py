"""The machine itself: plain schedulers agree with themselves, and it meets their faults.

The scheduler of the library is in test_events.py.
"""

from __future__ import annotations

import pickle
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from fairlead.errors import InputError
from oracles.plain_scheduler import POLICIES, Scheduler
from scheduler_machine import SchedulerMachine, drive, machine_for


@dataclass(eq=False)
class Snapshot:
    """What is so, as bytes; equal where it reads the same, however objects are shared."""

    data: bytes

    def __eq__(self, other: Any) -> bool:
        return self.data == other.data or self.text() == other.text()

    __hash__ = None

    def text(self) -> str:
        fields = dict(vars(pickle.loads(self.data)))
        return f"{fields.pop('random').bit_generator.state} {fields}"


class Second(Scheduler):
    """The plain scheduler in the place of another one: it can be asked what if."""

    @contextmanager
    def what_if(self):
        before = pickle.dumps(vars(self))
        yield
        vars(self).clear()
        vars(self).update(pickle.loads(before))


class AgainstItself(SchedulerMachine):
    def snapshot(self, scheduler):
        return Snapshot(pickle.dumps(scheduler))

    def restore(self, data):
        return pickle.loads(data.data)


@pytest.mark.parametrize("policy", [*POLICIES, "slots:3"])
def test_the_plain_scheduler_agrees_with_itself(policy: str) -> None:
    seen = drive(machine_for(policy, Second, AgainstItself), examples=4, steps=15)
    assert seen["placements"] >= 10
    assert seen["evictions"] >= 3
    assert seen["refusals"] >= 9


# Schedulers with faults, which the machine has to meet.


class OldWeights(Second):
    def set_weight(self, name, weight):
        old = self.queues[name].weight if name in list(self.queues) else None
        super().set_weight(name, weight)
        self.queues[name].weight = old


class LastPlace(Second):
    def stop(self, lost, **options):
        for task in lost:
            task.group.time += 1
        return super().stop(lost, **options)


class HalfRefused(Second):
    def add_queue(self, name, weight=1, parent=None):
        self.added += 1
        super().add_queue(name, weight, parent)


class Unchecked(Second):
    def finish(self, task):
        if task in list(self.running):
            super().finish(task)


class Forgetful(Second):
    def __getstate__(self):
        return {**vars(self), "round": []}


class LeftOver(Second):
    @contextmanager
    def what_if(self):
        yield


FAULTS = {
    OldWeights: "ps-dsf/joint",
    LastPlace: "tsf/best-fit",
    HalfRefused: "drf/first-fit",
    Unchecked: "fifo/first-fit",
    Forgetful: "drf/rrr",
    LeftOver: "slots:3",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_machine_meets_faults(fault: type) -> None:
    machine = machine_for(FAULTS[fault], fault, AgainstItself)
    with pytest.raises((AssertionError, InputError, TypeError, ExceptionGroup)):
        drive(machine, examples=1000, steps=20, shrink=False)  # it ends when one does

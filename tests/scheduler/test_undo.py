"""Events in `what_if` are undone: the scheduler is as before, and places the same."""

from __future__ import annotations

from contextlib import suppress

import pytest

from effort import cases
from fairlead.errors import InputError
from fairlead.scheduler.scheduler import Scheduler
from scheduler.random_life import RESOURCES, RandomLife, quanta_of

POLICIES = [
    "drf/first-fit",
    "drf/best-fit",
    "tsf/best-fit",
    "ps-dsf/first-fit",
    "slots:3",
    "fifo/best-fit",
    "drf/rrr",
    "drf/rrr/oblivious",
    "ps-dsf/joint/residual",
    "tsf/best-fit-first/residual",
]


def life(policy: str, seed: int, events: int) -> RandomLife:
    lived = RandomLife(
        Scheduler(RESOURCES, policy, quanta_of(seed), strict_fifo=seed % 2 == 0), seed
    )
    for _ in range(events):
        lived.tell()
    return lived


@pytest.mark.parametrize("policy", POLICIES)
def test_what_if_changes_nothing(policy: str) -> None:
    placed, lives = 0, cases(8)
    for seed in range(lives):
        lived = life(policy, seed, 40 + 3 * seed % 60)
        s = lived.s
        before, tasks, groups = s.snapshot(), list(lived.tasks), list(lived.groups)
        for _ in range(3):
            with s.what_if():
                for _ in range(12):
                    lived.tell()
                within = s.snapshot()
                with s.what_if():
                    for _ in range(6):
                        lived.tell()
                assert s.snapshot() == within
                s.check()
            assert s.snapshot() == before
            s.check()
            lived.tasks, lived.groups = list(tasks), list(groups)
        twin = Scheduler.restore(before)
        for other in (s, twin):
            other.add_server("new", {"cpu": 3, "memory": 3})
        expected = [repr(p) for p in twin.place(99.0)]
        assert [repr(p) for p in s.place(99.0)] == expected
        placed += len(expected)
        assert s.snapshot() == twin.snapshot()
    assert placed >= lives // 5


def test_what_if_ends_by_an_error_too() -> None:
    s = life("drf/best-fit", 5, 60).s
    before = s.snapshot()
    with suppress(InputError), s.what_if():
        s.add_server("new", {"cpu": 5})
        s.place()
        s.drain("nowhere")
        raise AssertionError
    assert s.snapshot() == before
    s.add_server("new", {"cpu": 5})


def test_ids_of_what_if_are_given_again() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_queue("ana")
    with s.what_if():
        first = s.submit("ana", {"cpu": 1})
    assert s.submit("ana", {"cpu": 1}) == first

"""Definitions that users rely on, each in an example worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from random import Random

import pytest

from fairlead.errors import InputError
from fairlead.scheduler.criteria.residual import is_less
from fairlead.scheduler.scheduler import Scheduler

OFFERS = ["drf/rrr/oblivious", "ps-dsf/rrr/oblivious"]


def placed(scheduler: Scheduler) -> list[tuple[str, str]]:
    return [(p.queue, p.server) for p in scheduler.place()]


@pytest.mark.parametrize("exactly", [False, True])
def test_k_tasks_of_1_over_k_fill_1(exactly: bool) -> None:
    for k in (*range(1, 50), 99, 128, 333, 500, 729, 997, 998, 999, 1000):
        s = Scheduler(["cpu"], "drf/first-fit")
        s.add_server("a", {"cpu": 1})
        s.add_queue("ana")
        s.submit("ana", {"cpu": Fraction(1, k) if exactly else 1 / k}, tasks=k)
        assert len(s.place()) == k


def test_equal_sums_of_different_shares_tie() -> None:
    """Three tasks of a share of 1/3 tie with one task of 1, so the earlier queue goes first."""
    s = Scheduler(["cpu"], "tsf/first-fit")
    s.add_server("a", {"cpu": 3})
    for queue, demand, tasks in (("bo", 1, 3), ("ana", 3, 1)):
        s.add_queue(queue)
        for _ in range(tasks):
            s.assume(s.submit(queue, {"cpu": demand}), "a")
    s.add_server("b", {"cpu": 0})
    s.set_server("a", {"cpu": 8})
    for queue in ("ana", "bo"):
        s.submit(queue, {"cpu": 1}, tasks=1)
    assert [queue for queue, _ in placed(s)] == ["bo", "ana"]


def test_overflow_names_the_resource_and_quanta() -> None:
    s = Scheduler(["cpu", "memory"], "drf/first-fit")
    for capacity in ({"memory": 1e10}, {"cpu": 1, "memory": 2**62}):
        with pytest.raises(InputError, match=r"memory.*quanta"):
            s.add_server("a", capacity)
    s.add_server("a", {"memory": 4e9})
    with pytest.raises(InputError, match=r"memory.*quanta"):
        s.add_server("b", {"memory": 4e9})
    s.add_queue("ana")
    with pytest.raises(InputError, match=r"cpu.*quanta"):
        s.submit("ana", {"cpu": 1e10})


def test_ratios_are_compared_exactly() -> None:
    random = Random(1)
    for _ in range(2000):
        most = random.choice([5, 2**31, 2**62])
        a, c = random.randrange(-2, most), random.randrange(-2, most)
        b, d = random.randrange(1, most), random.randrange(1, most)
        if random.random() < 0.3:
            c, d = a, max(b + random.choice([-1, 0, 1]), 1)
        assert is_less(a, b, c, d) == (Fraction(max(a, 0), b) < Fraction(max(c, 0), d))


@pytest.mark.parametrize("policy", OFFERS)
def test_a_declined_server_is_offered_again_later(policy: str) -> None:
    s = Scheduler(["cpu"], policy, refuse_seconds=2.5)
    s.add_server("a", {"cpu": 3})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 2}, 2)
    (task,) = [p.task for p in s.place(now=0.1)]
    assert s.next_moment() == inf
    s.finish(task)
    assert s.next_moment() == 2.6
    s.drain("a")
    assert s.next_moment() == inf
    s.undrain("a")
    assert s.next_moment() == 2.6
    assert s.place(now=2.5) == []
    assert len(s.place(now=2.6)) == 1
    assert s.next_moment() == inf

"""Cycles: scores of the next task, weight 0, offers, the best server."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from random import Random

import pytest

from fairlead.scheduler.criteria.residual import is_less
from fairlead.scheduler.scheduler import Scheduler

RESIDUAL = ["drf/first-fit/residual", "tsf/best-fit/residual", "ps-dsf/rrr/residual"]
VARIED = [
    *(*RESIDUAL, "drf/best-fit-first", "tsf/best-fit-first/residual", "drf/rrr", "ps-dsf/rrr"),
    *("ps-dsf/joint", "ps-dsf/joint/residual", "drf/rrr/oblivious", "ps-dsf/rrr/oblivious"),
]
OFFERS = ["drf/rrr/oblivious", "ps-dsf/rrr/oblivious"]


def test_ratios_are_compared_exactly() -> None:
    random = Random(1)
    for _ in range(2000):
        most = random.choice([5, 2**31, 2**62])
        a, c = random.randrange(-2, most), random.randrange(-2, most)
        b, d = random.randrange(1, most), random.randrange(1, most)
        if random.random() < 0.3:
            c, d = a, max(b + random.choice([-1, 0, 1]), 1)
        assert is_less(a, b, c, d) == (Fraction(max(a, 0), b) < Fraction(max(c, 0), d))


@pytest.mark.parametrize("policy", VARIED)
def test_weight_0_comes_last(policy: str) -> None:
    s = Scheduler(["cpu"], policy)
    for server in ("a", "b"):
        s.add_server(server, {"cpu": 2})
    for queue, weight in (("zero", 0), ("ana", 1), ("none", 0)):
        s.add_queue(queue, weight)
        s.submit(queue, {"cpu": 1}, 2)
    assert [p.queue for p in s.place()][:2] == ["ana", "ana"]


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


def test_the_best_server_depends_on_the_present_pool() -> None:
    s = Scheduler(["cpu", "memory", "gpu"], "drf/best-fit-first")
    s.add_server("a", {"cpu": 2, "memory": 2, "gpu": 4})
    s.add_server("b", {"cpu": 2, "memory": 4, "gpu": 2})
    s.add_server("z", {"cpu": 1, "memory": 1, "gpu": 1})
    task = {"cpu": 1, "memory": 1, "gpu": 1}
    for queue, where in (("ana", ["a", "b", "c"]), ("bo", ["z"])):
        s.add_queue(queue)
        s.submit(queue, task, where=where)
    assert [(p.queue, p.server) for p in s.place(limit=1)] == [("bo", "z")]  # a is ana's best
    s.add_server("c", {"cpu": 8, "memory": 8, "gpu": 0})
    assert [(p.queue, p.server) for p in s.place()] == [("ana", "b")]

"""Parts of cycles: ratios of scores, and declined offers."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from random import Random

import pytest

from fairlead.scheduler.criteria.residual import is_less
from fairlead.scheduler.scheduler import Scheduler

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

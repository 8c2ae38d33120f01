"""Definitions that users rely on, each in an example worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from random import Random

import pytest

from fairlead.errors import InputError
from fairlead.scheduler.criteria.residual import is_less
from fairlead.scheduler.scheduler import Scheduler

POLICIES = ["drf/first-fit", "drf/best-fit", "tsf/first-fit", "ps-dsf/best-fit"]
POLICIES += ["fifo/first-fit", "easy/best-fit"]

RESIDUAL = ["drf/first-fit/residual", "tsf/best-fit/residual", "ps-dsf/rrr/residual"]
VARIED = [
    *(*RESIDUAL, "drf/best-fit-first", "tsf/best-fit-first/residual", "drf/rrr", "ps-dsf/rrr"),
    *("ps-dsf/joint", "ps-dsf/joint/residual", "drf/rrr/oblivious", "ps-dsf/rrr/oblivious"),
]
OFFERS = ["drf/rrr/oblivious", "ps-dsf/rrr/oblivious"]


def placed(scheduler: Scheduler) -> list[tuple[str, str]]:
    return [(p.queue, p.server) for p in scheduler.place()]


@pytest.mark.parametrize("policy", POLICIES)
def test_resources_that_a_task_does_not_take_never_count(policy: str) -> None:
    s = Scheduler(["cpu", "gpu"], policy)
    s.add_server("a", {"cpu": 8, "gpu": 2})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 1, "gpu": 2})
    assert placed(s) == [("ana", "a")]
    s.set_server("a", {"cpu": 8, "gpu": 1})  # overcommitted in gpu
    s.submit("ana", {"cpu": 1})
    assert placed(s) == [("ana", "a")]
    s.submit("ana", {"cpu": 1, "gpu": 1})
    assert placed(s) == []


@pytest.mark.parametrize("exactly", [False, True])
def test_k_tasks_of_1_over_k_fill_1(exactly: bool) -> None:
    for k in (*range(1, 50), 99, 128, 333, 500, 729, 997, 998, 999, 1000):
        s = Scheduler(["cpu"], "drf/first-fit")
        s.add_server("a", {"cpu": 1})
        s.add_queue("ana")
        s.submit("ana", {"cpu": Fraction(1, k) if exactly else 1 / k}, tasks=k)
        assert len(s.place()) == k


@pytest.mark.parametrize("amount", [1 / 3, Fraction(1, 3), 1e-12, 0.1 + 0.2])
def test_equal_amounts_stay_equal(amount: float) -> None:
    s = Scheduler(["cpu"], "drf/best-fit")
    s.add_server("a", {"cpu": amount})
    s.add_queue("ana")
    s.submit("ana", {"cpu": amount}, tasks=2)
    assert placed(s) == [("ana", "a")]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("demands", [(30, 50), (50, 30)])
def test_a_gang_is_tried_largest_member_first(policy: str, demands: tuple[int, int]) -> None:
    s = Scheduler(["cpu"], policy)
    s.add_server("a", {"cpu": 53})
    s.add_server("b", {"cpu": 31})
    s.add_queue("ana")
    s.submit_gang("ana", [({"cpu": demand}, 1) for demand in demands])
    assert placed(s) == [("ana", "a"), ("ana", "b")]


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


def test_names_have_no_control_characters() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_queue("ana")
    for call in (
        lambda: s.add_server("a\nb", {}),
        lambda: s.add_server("a", {}, labels={"zone": "x\x7f"}),
        lambda: s.add_queue("b\x00"),
        lambda: s.submit("ana", {"cpu": 1}, where={"zo\tne": "x"}),
        lambda: Scheduler(["c\x1bpu"], "drf/first-fit"),
    ):
        with pytest.raises(InputError, match="control characters"):
            call()
    s.add_server("grün 1", {"cpu": 1})


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

"""Definitions that users rely on, in examples worked out by hand, most also of the plain one."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from math import inf
from random import Random

import pytest

from fairlead.errors import InputError
from fairlead.scheduler.criteria.residual import is_less
from fairlead.scheduler.policies import ROWS
from fairlead.scheduler.scheduler import Scheduler
from oracles import plain_scheduler
from scheduler.consistency import check

SCHEDULERS = [plain_scheduler.Scheduler, Scheduler]


@pytest.fixture(params=SCHEDULERS, ids=["plain", "real"])
def make(request):
    return request.param


def one_server(make, policy="drf/first-fit", cpu=4, **options):
    s = make(["cpu", "memory"], policy, **options)
    s.add_server("a", {"cpu": cpu, "memory": 8})
    s.add_queue("ana")
    s.add_queue("bo")
    return s


@pytest.mark.parametrize(
    "policy", ["drf/best-fit/half-life:60", "easy/best-fit", "drf/best-fit/reserve"]
)
def test_starts_do_not_depend_on_the_origin_of_time(policy):
    def starts(origin):
        s = one_server(Scheduler, policy)
        s.submit("ana", {"cpu": 3}, tasks=3, time_limit=15, now=origin)
        s.submit("bo", {"cpu": 4}, tasks=2, time_limit=7, now=origin + 1)
        s.submit("ana", {"cpu": 1}, tasks=3, time_limit=3, now=origin + 2)
        found = []
        for time in (2, 9, 20, 30, 47, 60, 70):
            placed = s.place(now=origin + time)
            found.append([(each.queue, each.task) for each in placed])
            for each in placed:
                s.finish(each.task)
        return found

    assert starts(-1024) == starts(0)
    assert sum(map(len, starts(0))) == 8


def started(s, **options):
    """Place, and return the queue, server, index and attempt of each placement."""
    placed = s.place(**options)
    check(s)
    return [(p.queue, p.server, p.index, p.attempt) for p in placed]


def test_a_cancelled_group_ends_with_its_last_task(make) -> None:
    s = one_server(make, cpu=2)
    g = s.submit("ana", {"cpu": 1}, tasks=5)
    first, second = s.place()
    assert s.cancel(g) == [first.task, second.task]
    assert s.place() == []  # the running tasks hold their amounts
    assert s.evict(first.task) == [first.task]
    assert s.place() == []
    assert s.cancel(g) == [second.task]
    with pytest.raises(InputError):
        s.remove_queue("ana")
    s.finish(second.task)
    with pytest.raises(InputError):
        s.cancel(g)
    s.remove_queue("ana")
    with pytest.raises(InputError):
        s.submit("ana", {"cpu": 1})


def test_a_gang_of_two_shapes_starts_and_stops_as_one(make) -> None:
    s = one_server(make)
    s.add_server("b", {"cpu": 1, "memory": 8})
    g = s.submit_gang("ana", [({"cpu": 3}, 1), ({"cpu": 1}, 2)], attempts=2)
    placed = s.place()
    assert [(p.server, p.index) for p in placed] == [("a", 0), ("a", 1), ("b", 2)]
    tasks = [p.task for p in placed]
    assert s.remove_server("b") == tasks
    assert s.place() == []  # not all of it fits
    s.add_server("b", {"cpu": 1})
    placed = s.place()
    assert [(p.index, p.attempt) for p in placed] == [(0, 2), (1, 2), (2, 2)]
    assert s.fail(placed[1].task) == [p.task for p in placed]
    (first, second, third) = s.place()
    s.finish(first.task)
    assert s.fail(third.task) == [second.task, third.task]  # the second failure of the gang
    assert s.place() == []
    with pytest.raises(InputError):
        s.cancel(g)


def test_amounts_are_counted_in_quanta_and_never_wrap(make) -> None:
    s = make(["cpu"], "drf/first-fit")
    s.add_queue("ana")
    s.add_server("a", {"cpu": 0.5})
    s.submit("ana", {"cpu": 0.1}, tasks=9)
    assert len(s.place()) == 5
    s.add_server("b", {"cpu": 1})
    s.submit("ana", {"cpu": 1 / 3}, tasks=9, where=["b"])
    assert [p.server for p in s.place()] == ["b"] * 5  # four tenths and a third
    with pytest.raises(InputError):
        s.add_server("c", {"cpu": 2**62 / 1_024_000_000})  # the total overflows
    s = make(["cpu"], "drf/first-fit", quanta={"cpu": 1})
    s.add_queue("ana")
    s.add_server("a", {"cpu": 2**62})
    g = s.submit("ana", {"cpu": 2**62}, tasks=3)
    assert len(s.place()) == 1
    with pytest.raises(InputError):
        s.assume(g, "a")  # the held amounts overflow
    check(s)


def test_what_if_is_undone_after_an_error() -> None:
    s = one_server(Scheduler)
    before = s.snapshot()
    with suppress(InputError), s.what_if():
        s.add_server("new", {"cpu": 5})
        s.place()
        s.drain("nowhere")
        raise AssertionError
    assert s.snapshot() == before
    s.add_server("new", {"cpu": 5})


def placed(s, *arguments) -> list[tuple[str, str]]:
    return [(p.queue, p.server) for p in s.place(*arguments)]


@pytest.mark.parametrize("seed", range(6))
def test_the_score_for_another_task_is_no_bound(make, seed: int) -> None:
    """On a, bo is next, as ana holds more CPU; on b, ana is, whose task there takes memory."""
    s = make(["cpu", "memory"], "tsf/rrr/residual", seed=seed)
    for name in "ab":
        s.add_server(name, {"cpu": 20, "memory": 20})
    for queue, runs in (("ana", 4), ("bo", 1)):
        s.add_queue(queue)
        group = s.submit(queue, {"cpu": 1}, runs)
        for _ in range(runs):
            s.assume(group, "a")
    s.submit("ana", {"cpu": 1}, 5, where=["a"], priority=1)
    s.submit("ana", {"memory": 1}, 5, where=["b"])
    s.submit("bo", {"cpu": 1}, 5)
    assert sorted(placed(s, 0.0, 2)) == [("ana", "b"), ("bo", "a")]


def test_a_gang_may_stop_being_oversized(make) -> None:
    s = make(["cpu"], "fifo/first-fit")
    s.add_server("a", {"cpu": 2})
    s.add_queue("ana")
    s.add_queue("bo")
    s.submit("ana", {"cpu": 1})
    gang = s.submit("ana", {"cpu": 1}, tasks=3, gang=True, now=1.0)
    s.submit("bo", {"cpu": 1}, now=2.0)
    started = s.place()
    assert [p.queue for p in started] == ["ana", "bo"]  # the gang could never start
    for p in started:
        s.finish(p.task)
    s.assume(gang, "a")
    s.submit("bo", {"cpu": 1}, now=3.0)
    assert not placed(s)  # the rest of the gang fits on idle servers, and no group may pass it


@pytest.mark.parametrize(
    ("policy", "starts"), [("fifo/first-fit", 0), ("easy/first-fit", 0), ("drf/first-fit", 2)]
)
def test_a_gang_that_idle_servers_cannot_hold_never_starts(make, policy: str, starts: int) -> None:
    """On idle servers the larger task takes a, which the other one needs; now a is not free."""
    s = make(["cpu"], policy)
    for name in "ab":
        s.add_server(name, {"cpu": 4})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 3}, time_limit=9)
    s.place()
    s.submit("ana", {"cpu": 4}, time_limit=9, where=["a"])
    s.submit_gang("ana", [({"cpu": 4}, 1), ({"cpu": 1}, 1, ["a"])], time_limit=1)
    assert len(s.place()) == starts


def test_the_next_task_of_a_queue_may_score_less(make) -> None:
    """Ana is behind while its next task takes CPU; when none fits, its next task takes memory."""
    s = make(["cpu", "memory"], "ps-dsf/joint/residual")
    s.add_server("a", {"cpu": 10, "memory": 100})
    s.add_queue("ana")
    s.add_queue("bo")
    s.submit("ana", {"cpu": 4}, 3)
    s.submit("ana", {"memory": 1}, 2)
    s.submit("bo", {"memory": 10}, 8)
    queues = [queue for queue, _ in placed(s, 0.0, 12)]
    assert " ".join(queues) == "ana bo bo bo bo ana ana ana bo bo bo bo"


OFFERS = ["drf/rrr/oblivious", "ps-dsf/rrr/oblivious"]


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


@pytest.mark.parametrize("policy", [name for name in ROWS if name[:4] not in ("fifo", "easy")])
def test_weight_0_comes_last(policy: str) -> None:
    s = Scheduler(["cpu"], policy)
    for server in ("a", "b"):
        s.add_server(server, {"cpu": 2})
    for queue, weight in (("zero", 0), ("ana", 1), ("none", 0)):
        s.add_queue(queue, weight)
        s.submit(queue, {"cpu": 1}, 2)
    assert [p.queue for p in s.place()][:2] == ["ana", "ana"]


@pytest.mark.parametrize("amount", [1 / 3, Fraction(1, 3), 1e-12, 0.1 + 0.2])
def test_equal_amounts_stay_equal(amount: float) -> None:
    s = Scheduler(["cpu"], "drf/best-fit")
    s.add_server("a", {"cpu": amount})
    s.add_queue("ana")
    s.submit("ana", {"cpu": amount}, tasks=2)
    assert placed(s) == [("ana", "a")]


def test_a_server_with_other_labels_is_tried_again() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 1})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 1}, where={"gpu": "T4"})
    assert placed(s) == []
    s.set_server("a", labels={"gpu": "T4"})
    assert placed(s) == [("ana", "a")]


@pytest.mark.parametrize("is_offered", [True, False])
def test_a_round_goes_on_without_a_removed_server(is_offered: bool) -> None:
    s = Scheduler(["cpu"], "drf/rrr/oblivious")
    for server in "ab":
        s.add_server(server, {"cpu": 4})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 1}, 9)
    (start,) = s.place(limit=1)
    s.remove_server(start.server if is_offered else "ab".replace(start.server, ""))
    assert len(s.place()) == (4 if is_offered else 3)


def test_a_failure_on_trial_is_undone() -> None:
    s = one_server(Scheduler, cpu=2)
    s.submit("ana", {"cpu": 1}, tasks=2, attempts=2)
    first, second = s.place()
    s.fail(first.task)
    before = s.snapshot()
    with s.what_if():
        s.fail(second.task)
    assert s.snapshot() == before


@pytest.mark.parametrize("policy", [*ROWS, "slots:3", "drf/first-fit/reserve"])
def test_a_gang_beyond_all_servers_costs_little(policy: str) -> None:
    """A plan would list all tasks of the gang, which no memory holds."""
    s = Scheduler(["cpu"], policy)
    s.add_server("a", {"cpu": 2})
    for name in ("ana", "bo"):
        s.add_queue(name)
    s.submit("ana", {"cpu": 1}, 2**45, gang=True, time_limit=9)
    s.submit_gang("ana", [({"cpu": 1}, 2**45), ({"cpu": 2}, 1)], time_limit=9)
    s.submit("bo", {"cpu": 1}, time_limit=9)
    (first,) = s.place()
    s.finish(first.task)
    assert s.place(1.0) == []

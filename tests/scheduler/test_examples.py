"""Small examples of a scheduler, each worked out by hand."""

from __future__ import annotations

import pytest

from fairlead.errors import InputError
from fairlead.scheduler.scheduler import Scheduler
from oracles import plain_gangs

# Both behave like this.
SCHEDULERS = [plain_gangs.RememberingScheduler, Scheduler]


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
def test_any_origin_of_time_gives_the_same_starts(policy):
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
    s.check()
    return [(p.queue, p.server, p.index, p.attempt) for p in placed]


def groups(s, **options):
    return [p.group for p in s.place(**options)]


def test_a_placement_says_what_starts_where(make) -> None:
    s = one_server(make)
    g = s.submit("ana", {"cpu": 1}, tasks=2)
    (first, second) = s.place()
    assert (first.group, first.queue, first.server) == (g, "ana", "a")
    assert (first.index, first.attempt, second.index) == (0, 1, 1)
    assert first.task != second.task
    assert s.finish(first.task) is None
    with pytest.raises(InputError):
        s.finish(first.task)


def test_an_evicted_task_waits_in_the_old_place_of_its_group(make) -> None:
    s = one_server(make, cpu=2)
    s.submit("ana", {"cpu": 1}, tasks=3)
    first, second = s.place()
    later = s.submit("ana", {"cpu": 1}, now=1.0)
    assert s.evict(first.task) == [first.task]
    assert started(s) == [("ana", "a", 0, 2)]
    s.finish(second.task)
    assert started(s) == [("ana", "a", 2, 1)]
    assert s.cancel(later) == []


def test_a_cancelled_group_ends_with_its_last_task(make) -> None:
    s = one_server(make, cpu=2)
    g = s.submit("ana", {"cpu": 1}, tasks=5)
    first, second = s.place()
    assert s.cancel(g) == [first.task, second.task]
    assert s.place() == []  # what runs holds its amounts
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


def test_failures_are_bounded_and_losses_are_not_failures(make) -> None:
    s = one_server(make, cpu=1)
    g = s.submit("ana", {"cpu": 1}, attempts=2)
    for attempt, event in enumerate((s.evict, s.fail, s.evict), start=1):
        (p,) = s.place()
        assert p.attempt == attempt
        assert event(p.task) == [p.task]
    (p,) = s.place()
    assert s.fail(p.task) == [p.task]
    assert s.place() == []
    with pytest.raises(InputError):
        s.cancel(g)


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


def test_an_assumed_task_may_overcommit_a_server(make) -> None:
    s = one_server(make)
    g = s.submit("ana", {"memory": 9}, tasks=2)
    assert s.assume(g, "a") is not None
    s.submit("bo", {"cpu": 1, "memory": 1})
    assert s.place() == []
    task = s.assume(g, "a")
    with pytest.raises(InputError):
        s.assume(g, "a")
    assert s.evict(task) == [task]
    s.set_server("a", {"cpu": 4, "memory": 10})
    assert started(s) == [("bo", "a", 0, 1)]


def test_best_fit_takes_the_totals_of_servers_that_are_there(make) -> None:
    """H is 1/2 C/M on a and 2/5 C/D on b, for C, M and D of CPU, memory and disk in all."""
    for memory, expected in ((0, "b"), (95, "a")):
        s = make(["cpu", "memory", "disk"], "drf/best-fit")
        s.add_server("a", {"cpu": 10, "memory": 5, "disk": 10})
        s.add_server("b", {"cpu": 10, "memory": 10, "disk": 6})
        s.add_server("c", {"memory": memory})
        s.drain("c")
        s.add_queue("ana")
        s.submit("ana", {"cpu": 1, "memory": 1, "disk": 1})
        assert [server for _, server, _, _ in started(s)] == [expected]


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
        s.add_server("c", {"cpu": 2**62 / 1_024_000_000})  # with the others it is too much
    s = make(["cpu"], "drf/first-fit", quanta={"cpu": 1})
    s.add_queue("ana")
    s.add_server("a", {"cpu": 2**62})
    g = s.submit("ana", {"cpu": 2**62}, tasks=3)
    assert len(s.place()) == 1
    with pytest.raises(InputError):
        s.assume(g, "a")  # nor does what is held
    s.check()

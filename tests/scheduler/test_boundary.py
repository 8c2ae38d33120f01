"""What is said that is not so is refused and changes nothing; what is kept wrongly is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.model.problem import Problem
from fairlead.scheduler.jobs import JobScheduler
from fairlead.scheduler.online_policy import parse_policy

KINDS = Problem.from_arrays(
    [[4, 3], [6, 2]], [[1, 1], [2, 0], [1, 0.5]], count=[2, 1], task_limit=[3, 2, 4]
)
OWNER = np.array([0, 0, 1])
AMOUNTS = ("free", "pending", "placed", "held_high", "held_low", "placed_by")


def job_scheduler() -> JobScheduler:
    scheduler = JobScheduler(KINDS, OWNER, np.arange(3), parse_policy("drf/first-fit"))
    for number, tasks in ((0, 3), (1, 2), (2, 4)):
        scheduler.submit(number, tasks)
    return scheduler


def placed_by(scheduler: JobScheduler) -> Counter[tuple[int, int]]:
    placed: Counter[tuple[int, int]] = Counter()
    for kinds, servers, *_ in scheduler.place():
        placed.update(zip(kinds.tolist(), servers.tolist(), strict=True))
    return placed


def assert_refused(scheduler: JobScheduler, call: Callable[[], object]) -> None:
    before = [getattr(scheduler.state, name).copy() for name in AMOUNTS]
    with pytest.raises(InputError):
        call()
    for name, values in zip(AMOUNTS, before, strict=True):
        np.testing.assert_array_equal(getattr(scheduler.state, name), values)
    scheduler.check()


both = pytest.mark.parametrize("make", [job_scheduler])


@both
def test_only_what_runs_can_finish(make: Callable[[], JobScheduler]) -> None:
    scheduler = make()
    running = placed_by(scheduler)
    rng = np.random.default_rng(4)
    while running:
        for kind in range(3):
            for server in range(3):
                if not running[kind, server]:
                    assert_refused(scheduler, lambda: scheduler.finish(kind, server))  # noqa: B023
        task = list(running)[rng.integers(len(running))]
        scheduler.finish(*task)
        running[task] -= 1
        running += Counter()
    assert (scheduler.state.free == scheduler.state.capacity[scheduler.state.group]).all()


@both
@pytest.mark.parametrize("number", [-1, 3, 5, 2**40, 2**70, 0.0, 0.5, None, "0"])
def test_numbers_of_nothing_are_refused(make: Callable[[], JobScheduler], number: int) -> None:
    scheduler = make()
    placed_by(scheduler)
    calls = [
        lambda: scheduler.finish(number, 0),
        lambda: scheduler.finish(0, number),
        lambda: scheduler.submit(number, 1),
    ]
    calls += [lambda: scheduler.withdraw(number), lambda: scheduler.set_weight(number, 1.0)]
    calls += [lambda: scheduler.drain(number), lambda: scheduler.leave(number)]
    calls += [lambda: scheduler.join(number)]
    for call in calls:
        assert_refused(scheduler, call)


@both
@pytest.mark.parametrize("tasks", [0, -1, 1.5, None, 2**63, 2**64])
def test_tasks_that_cannot_be_counted_are_refused(
    make: Callable[[], JobScheduler], tasks: int
) -> None:
    scheduler = make()
    assert_refused(scheduler, lambda: scheduler.submit(1, tasks))
    scheduler.submit(1, 2**62)
    assert_refused(scheduler, lambda: scheduler.submit(1, 2**62))


def test_a_server_leaves_when_nothing_runs_there() -> None:
    scheduler = job_scheduler()
    running = placed_by(scheduler)
    server = next(iter(running))[1]
    scheduler.drain(server)
    assert_refused(scheduler, lambda: scheduler.leave(server))
    for (kind, place), tasks in running.items():
        for _ in range(tasks if place == server else 0):
            scheduler.finish(kind, place)
    scheduler.leave(server)
    scheduler.check()


def test_a_list_of_servers_of_another_length_is_refused() -> None:
    policy = parse_policy("drf/first-fit")
    with pytest.raises(InputError, match="there"):
        JobScheduler(KINDS, OWNER, np.arange(3), policy, there=np.ones(4, dtype=bool))


@pytest.mark.parametrize("name", AMOUNTS)
@pytest.mark.parametrize("by", [1, -1, 2**33, 2**62])
def test_amounts_that_are_wrong_are_noticed(name: str, by: int) -> None:
    scheduler = job_scheduler()
    placed_by(scheduler)
    scheduler.check()
    getattr(scheduler.state, name).flat[0] += by
    with pytest.raises(AssertionError):
        scheduler.check()


def test_slots_without_a_resource_that_all_servers_have_are_refused() -> None:
    kinds = Problem.from_arrays([[1, 0], [0, 1]], [[1, 0], [0, 1]])
    with pytest.raises(RefusalError, match="no resource is on every server"):
        JobScheduler(kinds, np.arange(2), np.arange(2), parse_policy("slots:2"))

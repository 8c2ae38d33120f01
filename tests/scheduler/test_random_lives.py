"""The scheduler compared with the plain one in short random lives, under all policies."""

from __future__ import annotations

import pytest

from fairlead.scheduler.scheduler import Scheduler
from oracles.plain_gangs import ParkingScheduler
from scheduler.random_life import (
    POLICIES,
    REFUSED,
    RESOURCES,
    Both,
    RandomLife,
    life_quanta,
    lives,
    make_life,
)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_event_is_as_defined(policy: str) -> None:
    placed, refused, number = 0, 0, lives(4)
    for seed in range(number):
        life = make_life(policy, seed)
        for _ in range(100):
            life.step()
        placed += len(life.tasks)
        refused += life.s.seen[REFUSED]
    assert placed > 0
    assert refused > 10 * number


@pytest.mark.parametrize("policy", ["drf/first-fit", "drf/rrr", "fifo/best-fit", "easy/first-fit"])
def test_a_queue_of_many_shapes_is_as_defined(policy: str) -> None:
    s = Both(RESOURCES, policy)
    s.add_queue("ana")
    s.add_server("a", dict.fromkeys(RESOURCES, 60))
    groups = []
    for k in range(70):  # more waiting lists than the 64 entries that are kept with stale ones
        amounts = 1 + k % 23, 1 + (k * k) % 19
        groups.append(s.submit("ana", dict(zip(RESOURCES, amounts, strict=True)), now=k // 10))
    for group in groups[::2]:
        s.cancel(group)
    placed = s.place()
    for row in placed[::3]:
        s.finish(row.task)
        placed += s.place()
    assert len(placed) >= 5


SCORED_BY_TASK = ["drf/first-fit/residual", "tsf/best-fit/residual", "ps-dsf/rrr/residual"]
SCORED_BY_TASK += ["ps-dsf/rrr", "ps-dsf/joint", "ps-dsf/rrr/oblivious"]


@pytest.mark.parametrize("policy", SCORED_BY_TASK)
def test_task_scores_are_as_defined(policy: str) -> None:
    compared = 0
    for seed in range(lives(3)):
        arguments = (RESOURCES, policy, life_quanta(seed))
        s, plain = Scheduler(*arguments), ParkingScheduler(*arguments)
        both = [RandomLife(s, seed), RandomLife(plain, seed)]
        for _ in range(80):
            for life in both:
                life.step()
            compared += compare_scores(s, plain)
    assert compared > 0


def compare_scores(s: Scheduler, plain: ParkingScheduler) -> int:
    """Compare the scores of all queues' first tasks on all servers with room."""
    state, compared = s._state, 0
    for queue in plain.queues.values():
        for group in plain.groups_within_limits(queue)[:1]:
            index = next(group.waiting_indices())
            for server in plain.servers.values():
                if plain.fits(group, index, server):
                    expected = plain.score(queue, group, index, server).value
                    shape = state.groups[group.id].shape_of(index)
                    queue_and_task = (state.queues[queue.name], shape)
                    assert state.criterion.bound(*queue_and_task, None) <= expected
                    on = state.servers[server.name]
                    assert state.criterion.score_of(*queue_and_task, on) == expected
                    compared += 1
    return compared

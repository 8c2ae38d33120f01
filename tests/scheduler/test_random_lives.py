"""The scheduler compared with the plain one in short random lives, under all policies."""

from __future__ import annotations

import pytest

from scheduler.random_life import (
    POLICIES,
    REFUSED,
    RESOURCES,
    Both,
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

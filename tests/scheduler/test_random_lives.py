"""The scheduler beside the plain one through thousands of short random lives."""

from __future__ import annotations

import pytest

from effort import cases
from scheduler.beside_plain import Both
from scheduler.random_life import RESOURCES, RandomLife, quanta_of
from scheduler.test_events import POLICIES


@pytest.mark.parametrize("policy", POLICIES)
def test_random_lives_are_as_defined(policy: str) -> None:
    placed, lives = 0, cases(60)
    for seed in range(lives):
        life = RandomLife(Both(RESOURCES, policy, quanta_of(seed), strict_fifo=seed % 2 == 0), seed)
        for _ in range(80):
            life.tell()
        placed += len(life.tasks)
    assert placed > 2 * lives

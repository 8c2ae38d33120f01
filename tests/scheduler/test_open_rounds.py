"""Rounds as replays have them, shuffled over the servers of which anything is taken."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.scheduler.open_scheduler import Scheduler
from fairlead.scheduler.round_robin import no_takers, place_in_rounds
from oracles.open_replay import OpenReplay
from oracles.plain_offers import PlainOffers
from oracles.random_workloads import random_workload


class Shuffling(Scheduler):
    """Places as a replay does, a few tasks at a time."""

    def __init__(self, *arguments: Any, seed: int, **options: Any) -> None:
        super().__init__(*arguments, seed=seed, **options)
        self._takers = no_takers(64, seed)

    def _place(self, limit: int) -> int:
        n, placed = 0, 3
        while n < limit and placed == 3:
            placed = place_in_rounds(self._core, self._takers, min(3, limit - n), self._out[n:])
            n += placed
        return n


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", ["drf/rrr", "tsf/rrr", "ps-dsf/rrr"])
def test_replays_are_what_they_were(policy: str) -> None:
    rows = 0
    for seed in range(6):
        workload, strict = random_workload(seed, gangs=False), seed % 2 == 0
        plain = PlainOffers(workload, policy, strict=strict, seed=seed)
        expected = [tuple(row) for row in plain.run()]
        replay = OpenReplay(
            Shuffling, workload, policy, plain.unplaceable, strict=strict, seed=seed
        )
        assert replay.run() == expected
        rows += len(expected)
    assert rows > 200

"""Rounds as replays have them, shuffled over the servers of which anything is taken."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.scheduler.offering import place_by_offers
from fairlead.scheduler.round_robin import no_takers, place_in_rounds
from fairlead.scheduler.scheduler import Scheduler
from oracles.open_replay import OpenReplay
from oracles.plain_offers import PlainOffers
from oracles.random_workloads import random_workload

POLICIES = ["drf/rrr", "tsf/rrr", "ps-dsf/rrr", "drf/rrr/oblivious", "ps-dsf/rrr/oblivious"]


class Shuffling(Scheduler):
    """Places as a replay does, a few tasks at a time, and remembers who left."""

    def __init__(self, *arguments: Any, seed: int, **options: Any) -> None:
        super().__init__(*arguments, seed=seed, **options)
        self._takers = no_takers(64, seed)
        self._left: dict[str, Any] = {}

    def remove_server(self, name: str) -> list[int]:
        """In a replay a server that comes again is the one that was declined."""
        s = self._servers[name]
        if self._filters is not None:
            self._left[name] = self._filters.moment[:, s].copy(), self._filters.until[:, s].copy()
        return super().remove_server(name)

    def add_server(self, name: str, *arguments: Any, **options: Any) -> None:
        super().add_server(name, *arguments, **options)
        if self._filters is not None and name in self._left:
            moment, until = self._left[name]
            s = self._servers[name]
            self._filters.moment[: len(moment), s] = moment
            self._filters.until[: len(until), s] = until

    def _place(self, limit: int) -> int:
        n, placed = 0, 3
        while n < limit and placed == 3:
            rest = min(3, limit - n), self._out[n:]
            if self._filters is None:
                placed = place_in_rounds(self._core, self._takers, *rest)
            else:
                placed = place_by_offers(self._core, self._filters, self._takers, *rest)
            n += placed
        return n


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", POLICIES)
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

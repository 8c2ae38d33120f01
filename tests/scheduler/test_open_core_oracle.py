"""The plain open scheduler places what the plain definitions of replays and fillings place."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.open_replay import OpenReplay, fill_openly

from fairlead.model.problem import Problem
from filling_problems import POLICIES as FILLING
from oracles.plain_filling import PlainScheduler as PlainFilling
from oracles.plain_gangs import RememberingScheduler
from oracles.plain_offers import PlainOffers, shuffled
from oracles.plain_open_core import Scheduler
from oracles.plain_open_policies import POLICIES
from oracles.plain_simulation import PlainSimulation
from oracles.random_workloads import crowded_workload, random_workload

REPLAYED = [p for p in POLICIES if not p.startswith(("fifo", "easy"))] + ["slots:3", "slots:7"]


class Shuffling(RememberingScheduler):
    """Rounds as replays have them: of servers of which anything is taken, shuffled."""

    def __init__(self, *arguments, seed, **options):
        super().__init__(*arguments, seed=seed, **options)
        self.state = [seed]

    def mark(self, server):
        """In replays a server that joins again is the one that was declined."""
        return server.name

    def add_server(self, name, *arguments, **options):
        super().add_server(name, *arguments, **options)
        self.free_up(self.servers[name])

    def round_order(self):
        is_wanted = self.hearing if self.oblivious else self.next_plan
        return shuffled([s for s in self.there() if is_wanted(s)], self.state)


def assert_same_replay(workload, policy: str, seed: int, *, strict: bool) -> None:
    by, make, options = PlainSimulation, RememberingScheduler, {}
    if "rrr" in policy:
        by, make, options = PlainOffers, Shuffling, {"seed": seed}
    plain = by(workload, policy, strict=strict, **options)
    expected = [tuple(row) for row in plain.run()]
    openly = OpenReplay(make, workload, policy, plain.unplaceable, strict=strict, seed=seed)
    assert openly.run() == expected


@pytest.mark.parametrize("seed", range(len(REPLAYED)), ids=REPLAYED)
def test_replays_are_what_they_were(seed: int) -> None:
    policy, strict = REPLAYED[seed], seed % 2 == 0
    assert_same_replay(random_workload(seed), policy, seed, strict=strict)
    if seed % 3 == 0 or "joint" in policy:
        assert_same_replay(crowded_workload(seed), policy, seed, strict=not strict)


@pytest.mark.parametrize("policy", ["drf/best-fit-first", "drf/first-fit"])
def test_gangs_that_failed_wait_for_room_in_replays_alone(policy: str) -> None:
    """The only difference, and one that is met: of these two both."""
    for seed in (18, 36):
        workload = random_workload(seed)
        plain = PlainSimulation(workload, policy, strict=True)
        expected = [tuple(row) for row in plain.run()]
        arguments = (workload, policy, plain.unplaceable)
        assert OpenReplay(RememberingScheduler, *arguments, strict=True).run() == expected
        differs = OpenReplay(Scheduler, *arguments, strict=True).run() != expected
        assert differs is ((policy, seed) in {("drf/best-fit-first", 18), ("drf/first-fit", 36)})


@pytest.mark.parametrize("policy", FILLING, ids=lambda policy: policy.name)
def test_fillings_are_what_they_were(policy) -> None:
    rng = np.random.default_rng(7)
    for n_resources in (1, 2, 3):
        problem = Problem.from_arrays(
            rng.integers(2, 5, (3, n_resources)),
            rng.integers(1, 4, (4, n_resources)) / 2,
            count=[1, 2, 1],
            weight=[1, 2, 1, 0.3],
            eligible=rng.random((4, 3)) < [True, 0.7, 0.5],
            task_limit=[3, 2.5, np.inf, 4],
        )
        plain = PlainFilling(problem, policy.criterion, policy.select, policy.residual)
        plain.orders = np.random.default_rng(3).permutation
        placed = fill_openly(Scheduler, problem, policy.name, 3)
        assert placed == plain.place_all()
        assert placed

"""The compiled replay gives the run log that the definitions give, start for start."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.model.run_log import RunLog
from fairlead.simulation.replay import replay
from oracles.plain_offers import PlainOffers
from oracles.plain_simulation import PlainSimulation
from oracles.random_workloads import random_workload

POLICIES = [
    "drf/first-fit",
    "drf/best-fit",
    "tsf/first-fit",
    "tsf/best-fit",
    "ps-dsf/first-fit",
    "ps-dsf/best-fit",
    "ps-dsf/joint",
    "ps-dsf/joint/residual",
    "drf/first-fit/residual",
    "drf/best-fit/residual",
    "tsf/first-fit/residual",
    "tsf/best-fit/residual",
    "drf/best-fit-first",
    "tsf/best-fit-first/residual",
    "slots:3",
    "slots:7",
]


def assert_same_log(fast: RunLog, plain: RunLog) -> None:
    for name in ("task", "server", "start", "end", "lost", "set_unplaceable"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name), err_msg=name)
    assert fast.policy == plain.policy


@pytest.mark.parametrize("strict", [False, True], ids=["passed-over", "strict-fifo"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_replay_is_what_the_definitions_say(policy: str, strict: bool) -> None:
    for seed in range(30):
        workload = random_workload(seed)
        plain = PlainSimulation(workload, policy, strict=strict).as_log()
        assert_same_log(replay(workload, policy, strict_fifo=strict), plain)


OFFERS = [
    "drf/rrr",
    "tsf/rrr",
    "ps-dsf/rrr",
    "drf/rrr/residual",
    "tsf/rrr/residual",
    "ps-dsf/rrr/residual",
    "drf/rrr/oblivious",
    "ps-dsf/rrr/oblivious",
]


@pytest.mark.parametrize("strict", [False, True], ids=["passed-over", "strict-fifo"])
@pytest.mark.parametrize("policy", OFFERS)
def test_offers_are_what_the_definitions_say(policy: str, strict: bool) -> None:
    for seed in range(30):
        workload = random_workload(seed)
        plain = PlainOffers(workload, policy, strict=strict, seed=seed, refuse=2.0).as_log()
        fast = replay(workload, policy, strict_fifo=strict, seed=seed, refuse_seconds=2.0)
        assert_same_log(fast, plain)


@pytest.mark.parametrize(
    "policy",
    ["drf/best-fit", "ps-dsf/joint", "drf/first-fit/residual", "ps-dsf/rrr", "drf/rrr/oblivious"],
)
def test_it_is_the_same_with_hardly_any_room(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Placements come back in small portions, and the log is lengthened when tasks run again."""
    monkeypatch.setattr("fairlead.simulation.replay.PORTION", 2)
    plainly = PlainOffers if "rrr" in policy else PlainSimulation
    for seed in range(30):
        workload = random_workload(seed)
        assert_same_log(replay(workload, policy), plainly(workload, policy).as_log())

"""A replay comes back from what is compiled again and again, whatever a moment costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from fairlead.model.cluster import BoolArray
from fairlead.simulation import replay as module
from fairlead.simulation import replay as replays
from fairlead.simulation.replay import paused_often, replay
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", ["drf/best-fit", "drf/first-fit/residual", "ps-dsf/rrr"])
def test_it_pauses_between_a_few_placements_and_goes_on_as_if_it_had_not(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the middle of a moment at which everything comes."""

    @contextmanager
    def always(pause: BoolArray) -> Iterator[None]:
        pauses.append(pause)
        pause[0] = True
        yield

    pauses: list[BoolArray] = []
    monkeypatch.setattr(replays, "paused_often", always)
    monkeypatch.setattr(replays, "PORTION", 2)
    for seed in range(8):
        workload = random_workload(seed)
        seen: list[tuple[int, float]] = []

        def report(starts: int, moment: float, seen: list[tuple[int, float]] = seen) -> None:
            seen.append((starts, moment))
            pauses[-1][0] = True

        log = replay(workload, policy, on_progress=report)
        plain = plain_replay(workload, policy)
        for name in ("task", "server", "start", "end", "lost", "set_unplaceable"):
            np.testing.assert_array_equal(getattr(log, name), getattr(plain, name), err_msg=name)
        starts = [0, *(starts for starts, _ in seen)]
        largest_gang = int(workload.job_tasks[workload.job_gang].max(initial=1))
        assert max(np.diff(starts)) <= 1 + largest_gang
        assert starts[-1] == len(log.task)
        assert starts == sorted(starts)


def test_a_pause_is_asked_for_again_and_again_until_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_PAUSES", 0.001)
    pause = np.zeros(1, dtype=bool)
    with paused_often(pause):
        for _ in range(3):
            pause[0] = False
            give_up = time.monotonic() + 10
            while not pause[0]:
                assert time.monotonic() < give_up
                time.sleep(0.001)
    pause[0] = False
    time.sleep(0.005)
    assert not pause[0]

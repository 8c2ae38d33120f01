"""Scores with a task at hand, where it stops to fit while other queues' tasks are placed."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.scheduler.scheduler import Scheduler
from oracles.plain_scheduler import Scheduler as Plain

POLICIES = ["ps-dsf/joint", "ps-dsf/joint/residual"]
POLICIES += [
    f"{c}/{s}/residual" for c in ("drf", "tsf") for s in ("first-fit", "best-fit", "best-fit-first")
]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_queue_whose_first_task_fits_no_more_scores_with_its_next(policy: str) -> None:
    """Ana holds a gpu, and waits for another, which Bo takes; then what she scores is less."""

    def queues_of_placements(make: Any) -> list[tuple[str, str]]:
        scheduler = make(["cpu", "gpu"], policy)
        scheduler.add_server("a", {"cpu": 10, "gpu": 2})
        scheduler.add_server("b", {"cpu": 10})
        for name in ("ana", "bo", "cy"):
            scheduler.add_queue(name)
        scheduler.submit("ana", {"cpu": 1, "gpu": 1}, 1)
        scheduler.submit("cy", {"cpu": 1}, 3)
        scheduler.place()
        scheduler.submit("ana", {"cpu": 1, "gpu": 1}, 1)
        scheduler.submit("ana", {"cpu": 1}, 3)
        scheduler.submit("bo", {"cpu": 1, "gpu": 1}, 1)
        scheduler.submit("cy", {"cpu": 1}, 3)
        return [(p.queue, p.server) for p in scheduler.place()]

    expected = queues_of_placements(Plain)
    assert [queue for queue, _ in expected[:3]] == ["bo", "ana", "ana"]
    assert queues_of_placements(Scheduler) == expected

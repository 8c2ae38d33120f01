"""A replay returns from compiled code again and again, also in the middle of an event time."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from fairlead.scheduler.event_loop import PORTION
from fairlead.simulation import replay as module
from oracles.plain_replay import plain_replay

TASKS = 3 * PORTION + 7


def much_at_once() -> Workload:
    """All jobs come at one moment, and some tasks have to wait."""
    return Workload.from_arrays(
        Cluster(
            groups=("big",),
            resources=("cpu",),
            capacity=np.array([[PORTION]]),
            count=np.array([3]),
            units=("",),
            labels=({},),
        ),
        ["ana", "bo"],
        job_user=[0, 1],
        job_submit=[0, 0],
        set_job=[0, 1],
        set_shape=[0, 0],
        shapes=[[1]],
        set_tasks=[TASKS, TASKS],
        task_duration=np.arange(1, 2 * TASKS + 1) % 5 + 1.0,
    )


@pytest.mark.parametrize("policy", ["drf/best-fit", "drf/first-fit/residual", "ps-dsf/rrr"])
def test_a_replay_pauses_after_some_placements(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEPS", 1)
    monkeypatch.setattr(module, "SECONDS_BETWEEN_REPORTS", -1.0)
    seen: list[tuple[int, float]] = []
    workload = much_at_once()
    log = module.replay(workload, policy, on_progress=lambda *found: seen.append(found))
    plain = plain_replay(workload, policy)
    for name in ("task", "server", "start", "end", "lost", "set_unplaceable"):
        np.testing.assert_array_equal(getattr(log, name), getattr(plain, name), err_msg=name)
    starts = [0, *(starts for starts, _ in seen)]
    assert max(np.diff(starts)) == PORTION
    assert [moment for _, moment in seen].count(0.0) >= 3
    assert starts[-1] == len(log.task) == 2 * TASKS
    assert starts == sorted(starts)

"""Rounded times do not count as overuse: jobs of 0 s, and an excess of at most .1 % in a bin."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from fairlead.report._against_today import HALF_SECOND, takes_too_much
from fairlead.simulation.metrics.summary import summarise
from fairlead.simulation.runs import recorded_run
from fairlead.simulation.simulate import Outcome

# One after the other: the next one starts in the second in which the last one ended.
IN_TURN = [(k // 2, (k + 1) // 2) for k in range(8)]


def recorded(times: list[tuple[int, int]]) -> Outcome:
    """Return the run of jobs, each on the whole server from a start to an end in seconds."""
    start, end = np.array(times, dtype=float).T
    n_jobs = len(times)
    workload = Workload.from_arrays(
        Cluster(("s",), ("cpu",), np.ones((1, 1)), np.array([1]), ("",), ({},)),
        ["ana"],
        job_user=[0] * n_jobs,
        job_submit=[0.0] * n_jobs,
        set_job=range(n_jobs),
        set_tasks=[1] * n_jobs,
        shapes=[[1.0]],
        set_shape=[0] * n_jobs,
        task_duration=np.maximum(end - start, HALF_SECOND),
        task_start=start,
    )
    outcome = Outcome("recorded", workload, recorded_run(workload))
    vars(outcome)["summary"] = summarise(workload, outcome.log, instants=0)
    return outcome


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        (IN_TURN, False),
        ([(5, 5)] * 9 + [(5, 6)], False),
        # Two of a second each on a node for one, beside those of 0 s.
        ([*IN_TURN, (2, 3), (2, 3)], True),
        # Bins of 2000 s, in one of which 1 s (.05 %) or 3 s (.15 %) are taken twice.
        ([(0, 300_501), (300_500, 600_000)], False),
        ([(0, 300_503), (300_500, 600_000)], True),
    ],
)
def test_only_real_overuse_is_called_so(jobs: list[tuple[int, int]], expected: bool) -> None:
    assert takes_too_much(recorded(jobs)) == expected

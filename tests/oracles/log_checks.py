"""Check rules for the run log of any policy, by a sweep over all starts and ends."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import ROUNDING
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload


def check_log(workload: Workload, log: RunLog) -> None:
    """Assert that a log is possible, for a workload without server events."""
    number = np.repeat(np.arange(workload.n_sets), workload.set_tasks)[log.task]
    job = workload.set_job[number]
    group = np.repeat(np.arange(workload.cluster.count.size), workload.cluster.count)[log.server]
    assert not len(workload.server_time)
    assert not log.lost.any()
    assert len(np.unique(log.task)) == len(log.task), "a task ran twice"
    assert (np.diff(log.start) >= 0).all(), "starts run backwards"
    assert (log.start >= workload.job_submit[job]).all(), "a task started before it came"
    assert (log.start <= workload.job_cancel[job]).all(), "a withdrawn task started"
    np.testing.assert_array_equal(log.end, log.start + workload.task_duration[log.task])
    assert workload.places[workload.set_place[number], group].all(), "a task is misplaced"
    waiting = np.ones(workload.n_tasks, dtype=bool)
    waiting[log.task] = False
    never = np.repeat(log.set_unplaceable, workload.set_tasks)
    cancelled = np.repeat(workload.job_cancel[workload.set_job] < np.inf, workload.set_tasks)
    assert (waiting == never)[~cancelled].all(), "a task that could run did not"
    for gang in np.flatnonzero(workload.job_gang):
        assert len(np.unique(log.start[job == gang])) <= 1, "a gang started in parts"
    _check_room(workload, log, workload.shapes[workload.set_shape[number]], group)


def _check_room(workload, log, amount, group):
    """Assert that no server ever holds more than its capacity."""
    order = np.lexsort(
        (
            np.r_[np.ones(len(log.task)), np.zeros(len(log.task))],
            np.r_[log.start, log.end],
            np.r_[log.server, log.server],
        )
    )
    change = np.r_[amount, -amount][order]
    server = np.r_[log.server, log.server][order]
    held = np.cumsum(change, axis=0)
    first = np.searchsorted(server, server)
    before = np.where(first[:, None] > 0, held[first - 1], 0.0)
    capacity = workload.cluster.capacity[np.r_[group, group][order]]
    slack = ROUNDING * capacity + 1e-9 * np.abs(held).max(axis=0)
    assert (held - before <= capacity + slack).all(), "a server is overbooked"

"""Running and active tasks at given instants."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import IndexArray, Workload
from fairlead.simulation.metrics.task_outcomes import TaskOutcomes


class Snapshot(NamedTuple):
    """Tasks of each of K sets at an instant, in seconds: (K,) that run, (K,) that run or wait.

    What starts or comes at the instant is there, what ends then is not.
    """

    time: float
    running: IntArray
    active: IntArray


def snapshots(
    workload: Workload, log: RunLog, course: TaskOutcomes, times: FloatArray
) -> Iterator[Snapshot]:
    """Yield the running and the active tasks at each instant; the next one changes the arrays.

    Parameters
    ----------
    workload : Workload
    log : RunLog
    course : TaskOutcomes
        As `fairlead.simulation.metrics.task_outcomes.follow_tasks` returned it.
    times : (I,) float
        Ascending, seconds.

    Notes
    -----
    Cost O(P log I + I K).
    """
    n_sets = workload.n_sets
    is_over = ~course.never_active
    came = np.bincount(course.set[is_over], minlength=n_sets)
    runs_of, wants_of = course.set[log.task], course.set[is_over]
    start, end, over = (
        _by_instant(of, time, times)
        for of, time in ((runs_of, log.start), (runs_of, log.end), (wants_of, course.over[is_over]))
    )
    submit = np.searchsorted(times, workload.job_submit[workload.set_job], side="left")
    running, active = np.zeros((2, n_sets), dtype=np.int64)
    for i, time in enumerate(times.tolist()):
        running += np.bincount(start[i], minlength=n_sets)
        running -= np.bincount(end[i], minlength=n_sets)
        active += np.where(submit == i, came, 0)
        active -= np.bincount(over[i], minlength=n_sets)
        yield Snapshot(time, running, active)


def _by_instant(of: IndexArray, time: FloatArray, times: FloatArray) -> list[IndexArray]:
    """Return the sets of what happened since the instant before, for each instant."""
    since = np.searchsorted(times, time, side="left")
    order = np.argsort(since.astype(np.min_scalar_type(len(times))), kind="stable")
    bounds = np.searchsorted(since[order], np.arange(len(times) + 1))
    return [of[order[one:other]] for one, other in pairwise(bounds)]

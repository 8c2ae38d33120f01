"""What a replay knows of a workload beside the scheduler: what is to come, what runs, the log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.workload import IndexArray, Workload

NONE = -1
# What a replay does next at a moment, after the tasks that end have ended.
FINISHES, SUBMISSIONS, PLACEMENTS = 0, 1, 2


class ReplayState(NamedTuple):
    """A replay under way; T tasks, K sets, J jobs, P starts at most.

    Attributes
    ----------
    now : (1,) float
        The moment, seconds.
    stage : (1,) int
        What comes next at this moment.
    pause : (1,) bool
        Whether a call returns after the placements at hand; set by another thread.
    server_time : (1,) float
        When servers change next; infinite if never.
    job_submit : (J,) float
        When each job arrives, ascending.
    job_first_set : (J + 1,) int
        Where the sets of each job begin.
    next_job : (1,) int
        The job that arrives next.
    cancel_time, cancel_job : (C,)
        When which jobs are withdrawn, ascending.
    next_cancel : (1,) int
        The next of them.
    set_tasks : (K,) int
        Tasks of each set; 0 where it cannot be placed.
    next_task : (K,) int
        The first task of each set that has not started.
    lost_task : (K,) int
        The first task of each set that was lost and waits, or -1.
    next_lost : (T or 0,) int
        The lost task of the set after each, or -1; ascending.
    duration : (T,) float
        Seconds.
    ending, ending_start : (T,)
        A heap of what runs: when each task ends, and its start in the log.
    n_running : (1,) int
        Its size.
    task, server, kind : (P,) int32
        The log: which task started where, and its kind.
    start, end : (P,) float
        When, and until when.
    lost : (P,) bool
        Whether it was lost before its end.
    n_started : (1,) int
        Starts in the log.
    """

    now: FloatArray
    stage: IntArray
    pause: BoolArray
    server_time: FloatArray
    job_submit: FloatArray
    job_first_set: IntArray
    next_job: IntArray
    cancel_time: FloatArray
    cancel_job: IntArray
    next_cancel: IntArray
    set_tasks: IntArray
    next_task: IntArray
    lost_task: IntArray
    next_lost: IntArray
    duration: FloatArray
    ending: FloatArray
    ending_start: IndexArray
    n_running: IntArray
    task: IndexArray
    server: IndexArray
    kind: IndexArray
    start: FloatArray
    end: FloatArray
    lost: BoolArray
    n_started: IntArray


def begin_replay(workload: Workload, set_unplaceable: BoolArray, spare: int) -> ReplayState:
    """Return the replay before anything happened, with spare room in the log. O(T)."""

    def count() -> IntArray:
        return np.zeros(1, dtype=np.int64)

    cancelled = np.flatnonzero(workload.job_cancel < np.inf)
    cancelled = cancelled[np.argsort(workload.job_cancel[cancelled], kind="stable")]
    n_tasks, may_lose = workload.n_tasks, len(workload.server_time) > 0
    n_starts = n_tasks + spare
    return ReplayState(
        now=np.zeros(1),
        stage=count(),
        pause=np.zeros(1, dtype=bool),
        server_time=np.full(1, np.inf),
        job_submit=workload.job_submit,
        job_first_set=workload.first_set,
        next_job=count(),
        cancel_time=workload.job_cancel[cancelled],
        cancel_job=cancelled,
        next_cancel=count(),
        set_tasks=np.where(set_unplaceable, 0, workload.set_tasks).astype(np.int64),
        next_task=workload.first_task[:-1].copy(),
        lost_task=np.full(workload.n_sets, NONE, dtype=np.int64),
        next_lost=np.full(n_tasks if may_lose else 0, NONE, dtype=np.int64),
        duration=workload.task_duration,
        ending=np.empty(n_tasks),
        ending_start=np.empty(n_tasks, dtype=np.int32),
        n_running=count(),
        task=np.empty(n_starts, dtype=np.int32),
        server=np.empty(n_starts, dtype=np.int32),
        kind=np.empty(n_starts, dtype=np.int32),
        start=np.empty(n_starts),
        end=np.empty(n_starts),
        lost=np.zeros(n_starts, dtype=bool),
        n_started=count(),
    )


def lengthen_log(replay: ReplayState, more: int) -> ReplayState:
    """Return the replay with room for so many more starts, which tasks that run again need."""
    columns = ("task", "server", "kind", "start", "end", "lost")
    longer = {
        name: np.concatenate([column, np.zeros(more, dtype=column.dtype)])
        for name, column in zip(columns, (getattr(replay, name) for name in columns), strict=True)
    }
    return replay._replace(**longer)

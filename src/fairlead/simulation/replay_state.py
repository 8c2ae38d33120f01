"""What a replay knows of a workload beside the scheduler: what is to come, what runs, the log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.workload import IndexArray, Workload
from fairlead.optimize.by_address import by_address
from fairlead.scheduler.records import NONE

# What a replay does next at a moment, after the tasks that end have ended.
FINISHES, SUBMISSIONS, PLACEMENTS = 0, 1, 2


@by_address
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
    job_gang : (J,) bool
        Whether all its tasks start together.
    job_limit : (J,) float
        Seconds for which each of its tasks runs at the most, or infinite.
    next_job, next_set, next_cancel : (1,) int
        The job that arrives next, its set that does, and the next withdrawal.
    cancel_time, cancel_job : (C,)
        When which jobs are withdrawn, ascending.
    set_line : (K,) int
        Where each set waits.
    set_tasks, set_first_task : (K,) int
        Tasks of each set, 0 where it cannot be placed; and its first task.
    set_group : (K or 0,) int
        The scheduler's group of each set that came; empty where no job is withdrawn.
    group_set : (groups,) int
        The set of each of the scheduler's groups.
    duration : (T,) float
        Seconds.
    ending, ending_start : (tasks,)
        A heap of what runs: when each task ends, and its start in the log.
    n_running, n_started : (1,) int
        Its size, and the starts in the log.
    task, server, row : (P,) int32
        The log: which task started where, and its number in the scheduler while it runs.
    start, end : (P,) float
        When, and until when.
    lost : (P,) bool
        Whether it was lost before its end.
    """

    now: FloatArray
    stage: IntArray
    pause: BoolArray
    server_time: FloatArray
    job_submit: FloatArray
    job_first_set: IntArray
    job_gang: BoolArray
    job_limit: FloatArray
    next_job: IntArray
    next_set: IntArray
    cancel_time: FloatArray
    cancel_job: IntArray
    next_cancel: IntArray
    set_line: IntArray
    set_tasks: IntArray
    set_first_task: IntArray
    set_group: IntArray
    group_set: IntArray
    duration: FloatArray
    ending: FloatArray
    ending_start: IndexArray
    n_running: IntArray
    task: IndexArray
    server: IndexArray
    row: IndexArray
    start: FloatArray
    end: FloatArray
    lost: BoolArray
    n_started: IntArray


def begin_replay(workload: Workload, set_line: IntArray, set_unplaceable: BoolArray) -> ReplayState:
    """Return the replay before anything happened. O(T)."""

    def count() -> IntArray:
        return np.zeros(1, dtype=np.int64)

    cancelled = np.flatnonzero(workload.job_cancel < np.inf)
    cancelled = cancelled[np.argsort(workload.job_cancel[cancelled], kind="stable")]
    n_starts = workload.n_tasks
    return ReplayState(
        now=np.zeros(1),
        stage=count(),
        pause=np.zeros(1, dtype=bool),
        server_time=np.full(1, np.inf),
        job_submit=workload.job_submit,
        job_first_set=workload.first_set,
        job_gang=workload.job_gang & (workload.job_tasks > 1),
        job_limit=workload.job_limit,
        next_job=count(),
        next_set=count(),
        cancel_time=workload.job_cancel[cancelled],
        cancel_job=cancelled,
        next_cancel=count(),
        set_line=set_line,
        set_tasks=np.where(set_unplaceable, 0, workload.set_tasks).astype(np.int64),
        set_first_task=workload.first_task[:-1],
        set_group=np.full(workload.n_sets if len(cancelled) else 0, NONE, dtype=np.int64),
        group_set=count(),
        duration=workload.task_duration,
        ending=np.empty(0),
        ending_start=np.empty(0, dtype=np.int32),
        n_running=count(),
        task=np.empty(n_starts, dtype=np.int32),
        server=np.empty(n_starts, dtype=np.int32),
        row=np.empty(n_starts, dtype=np.int32),
        start=np.empty(n_starts),
        end=np.empty(n_starts),
        lost=np.zeros(n_starts, dtype=bool),
        n_started=count(),
    )


_LOG = ("task", "server", "row", "start", "end", "lost")


def with_longer(replay: ReplayState, starts: int, groups: int, tasks: int) -> ReplayState:
    """Return the replay with room for these starts in the log, groups, and tasks that run."""
    wanted = dict.fromkeys(_LOG, starts) | {"group_set": groups}
    wanted |= {"ending": tasks, "ending_start": tasks}
    return replay._replace(
        **{
            name: np.concatenate([column, np.zeros(length - len(column), dtype=column.dtype)])
            for name, length in wanted.items()
            if length > len(column := getattr(replay, name))
        }
    )

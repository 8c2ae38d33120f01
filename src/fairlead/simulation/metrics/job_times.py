"""How long jobs take and tasks wait, and which part of them gets done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.task_outcomes import TaskOutcomes


@dataclass(frozen=True, eq=False)
class JobTimes:
    """Times of J jobs; not a number for jobs with a task that did not end well.

    Waits and completions are of the same jobs, so that one stands beside the other.
    """

    completion: FloatArray  # (J,): seconds from the submission to the end of the last task
    # (J,): completion over the duration of the job's longest task, which is what it would take on a
    # cluster without end: 1 is best.
    slowdown: FloatArray
    wait: FloatArray  # (J,): seconds from the submission to the start of the first task

    @property
    def completed(self) -> BoolArray:
        """(J,) bool: whether all tasks ended well."""
        return ~np.isnan(self.completion)


def measure_jobs(workload: Workload, course: TaskOutcomes) -> JobTimes:
    """Measure how long each job took, from what became of its tasks.

    Notes
    -----
    Cost O(T). Wang, Liang and Li 2015, Fig. 6a.
    """
    first = workload.first_task[workload.first_set[:-1]]
    # The maximum is not a number where one of the ends is not.
    completion = np.maximum.reduceat(course.end, first) - workload.job_submit
    first_start = np.minimum.reduceat(course.first_start, first)
    wait = np.where(np.isnan(completion), np.nan, first_start - workload.job_submit)
    longest = np.maximum.reduceat(workload.task_duration, first)
    return JobTimes(completion, completion / longest, wait)


def waiting_times(course: TaskOutcomes) -> FloatArray:
    """Return (T,) seconds from submission to first start; not a number where there is no start.

    A task that was lost and waits again shows in the completion time of its job.
    """
    waits: FloatArray = course.first_start - course.submit
    return waits


def task_completion_times(course: TaskOutcomes) -> FloatArray:
    """Return (T,) seconds from each task's submission to its end; not a number without one."""
    times: FloatArray = course.end - course.submit
    return times


def completion_ratio(
    course: TaskOutcomes, n_users: int, horizon: float, among: BoolArray | None = None
) -> FloatArray:
    """Return which part of each user's tasks was done at a time.

    Parameters
    ----------
    course : TaskOutcomes
    n_users : int
    horizon : float
        The time, seconds.
    among : (T,) bool, optional
        Tasks that count; all when absent.

    Returns
    -------
    (N,) float
        Tasks that had ended well by then over those submitted by then, withdrawn and unplaceable
        ones too, but not those whose times nobody knows; not a number for users that had
        submitted none.

    Notes
    -----
    Cost O(T). Wang, Liang and Li 2015, Fig. 7.
    """
    counts = ~course.unrecorded if among is None else among & ~course.unrecorded
    submitted = np.bincount(course.user[counts & (course.submit <= horizon)], minlength=n_users)
    # A task that never ended is not done at any time: comparing with "not a number" is false.
    done = np.bincount(course.user[counts & (course.end <= horizon)], minlength=n_users)
    ratio: FloatArray = np.divide(
        done, submitted, out=np.full(n_users, np.nan), where=submitted > 0
    )
    return ratio

"""How long jobs take, from their submission to the end of their last task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.metrics.course import Course
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.workload import Workload


@dataclass(frozen=True, eq=False)
class JobTimes:
    """Times of J jobs; not a number for jobs with a task that did not end well.

    Waits and completions are of the same jobs, so that one stands beside the other.

    Attributes
    ----------
    completion : (J,) float
        Seconds from the submission to the end of the last task.
    slowdown : (J,) float
        Completion over the duration of the job's longest task, which is what it would take on a
        cluster without end: 1 is best.
    wait : (J,) float
        Seconds from the submission to the start of the first task.
    """

    completion: FloatArray
    slowdown: FloatArray
    wait: FloatArray

    @property
    def completed(self) -> BoolArray:
        """(J,) bool: whether all tasks ended well."""
        return ~np.isnan(self.completion)


def measure_jobs(workload: Workload, course: Course) -> JobTimes:
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

"""What each user got of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.workload import IndexArray, Workload
from fairlead.simulation.metrics.distribution import mean_by_user
from fairlead.simulation.metrics.job_times import (
    JobTimes,
    completion_ratio,
    task_completion_times,
    waiting_times,
)
from fairlead.simulation.metrics.task_outcomes import TaskOutcomes


@dataclass(frozen=True, eq=False)
class UserFigures:
    """Figures of N users; means are not a number where there is nothing to take them of."""

    # (N,): tasks submitted, done, and those that can never run.
    tasks: IntArray
    completed: IntArray
    unplaceable: IntArray
    # (N,): jobs submitted, and those with all tasks done.
    jobs: IntArray
    jobs_completed: IntArray
    # (N,): mean completion time, seconds, and mean slowdown of the jobs completed.
    completion: FloatArray
    slowdown: FloatArray
    # (N,): mean time from submission to the first start of the jobs completed, seconds.
    wait: FloatArray
    task_completion: FloatArray  # (N,): mean completion time of the tasks completed, seconds
    # (N,): mean time from submission to first start of the tasks that started, seconds.
    task_wait: FloatArray
    completion_ratio: FloatArray  # (N,): tasks done at the horizon over those submitted by then


def measure_users(
    workload: Workload, course: TaskOutcomes, jobs: JobTimes, horizon: float
) -> UserFigures:
    """Sum up tasks and jobs by user, with completion ratios at the horizon in seconds; O(T + J)."""
    n_users, owner = workload.n_users, workload.job_user

    def count(users: IndexArray) -> IntArray:
        return np.bincount(users, minlength=n_users).astype(np.int64)

    return UserFigures(
        tasks=count(course.user),
        completed=count(course.user[course.completed]),
        unplaceable=count(course.user[course.unplaceable]),
        jobs=count(owner),
        jobs_completed=count(owner[jobs.completed]),
        completion=mean_by_user(jobs.completion, owner, n_users),
        slowdown=mean_by_user(jobs.slowdown, owner, n_users),
        wait=mean_by_user(jobs.wait, owner, n_users),
        task_completion=mean_by_user(task_completion_times(course), course.user, n_users),
        task_wait=mean_by_user(waiting_times(course), course.user, n_users),
        completion_ratio=completion_ratio(course, n_users, horizon),
    )

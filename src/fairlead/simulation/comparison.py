"""Who gained and who lost under a policy, held against another one's run of the same workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.workload import Workload
from fairlead.properties.wording import UNCHANGED
from fairlead.simulation.metrics.distribution import mean_by_user
from fairlead.simulation.metrics.job_times import completion_ratio, waiting_times
from fairlead.simulation.metrics.plain_values import plain, rows_of
from fairlead.simulation.metrics.size_classes import WANG_CLASSES, Reduction, reduction_by_size
from fairlead.simulation.metrics.summary import Summary


@dataclass(frozen=True, eq=False)
class Comparison:
    """A policy against a baseline; N users, means not a number where there is nothing to compare.

    Only tasks count whose fate both runs know: a log may not say when some of them ran.
    """

    policy: str
    baseline: str
    users: tuple[str, ...]
    known: BoolArray  # (T,): tasks whose fate both runs know
    # (N,): users without any known task: nobody can say whether they gained or lost.
    unknown: BoolArray
    # (N,): jobs of each user that are complete under both; only these count in completion times and
    # in `wait_difference`.
    jobs: IntArray
    # (N,): mean completion time of those jobs under each, seconds.
    completion: FloatArray
    baseline_completion: FloatArray
    # (N,): mean wait of those jobs less that under the baseline, seconds: below 0 is sooner.
    wait_difference: FloatArray
    # (N,): tasks of each user that started under both; only these count in `task_wait_difference`.
    started: IntArray
    # (N,): mean wait of those tasks less that under the baseline, seconds.
    task_wait_difference: FloatArray
    # (N,): known tasks completed by the end less those under the baseline.
    completed_difference: IntArray
    horizon: float  # the earlier of the two summaries' horizons, seconds
    # (N,): completion ratio of the known tasks at that horizon, under each.
    done: FloatArray
    baseline_done: FloatArray
    reduction: Reduction  # of completion times, by job size

    @property
    def completion_ratio(self) -> FloatArray:
        """(N,) float: mean completion time over that under the baseline: below 1 is sooner."""
        return self.completion / self.baseline_completion

    @property
    def horizon_difference(self) -> FloatArray:
        """(N,) float: completion ratio at the horizon less that under the baseline."""
        return self.done - self.baseline_done

    @property
    def gained(self) -> BoolArray:
        """(N,) bool: users with jobs that are complete sooner in the mean, by .1 % or more.

        Or, without any to compare, with more tasks completed.
        """
        return np.where(
            self.jobs > 0, self.completion_ratio <= 1 - UNCHANGED, self.completed_difference > 0
        )

    @property
    def lost(self) -> BoolArray:
        """(N,) bool: users with jobs that are complete later in the mean, by .1 % or more.

        Or, without any to compare, with fewer tasks completed.
        """
        return np.where(
            self.jobs > 0, self.completion_ratio >= 1 + UNCHANGED, self.completed_difference < 0
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, None where there is nothing to compare."""
        reduction = self.reduction
        columns = {
            "jobs": self.jobs,
            "completion_ratio": self.completion_ratio,
            "wait_difference": self.wait_difference,
            "started": self.started,
            "task_wait_difference": self.task_wait_difference,
            "completed_difference": self.completed_difference,
            "horizon_difference": self.horizon_difference,
        }
        sizes = {
            "jobs": reduction.jobs,
            "mean_reduction": reduction.mean,
            "reduction_of_mean": reduction.of_means,
            "shortened": reduction.shortened,
            "lengthened": reduction.lengthened,
        }
        figures: dict[str, Any] = plain(
            {
                "baseline": self.baseline,
                "gained": int(self.gained.sum()),
                "lost": int(self.lost.sum()),
                "unknown": int(self.unknown.sum()),
                "horizon": self.horizon,
                "by_job_size": rows_of(reduction.labels, sizes),
                "users": rows_of(self.users, columns),
            }
        )
        return figures


def compare(
    summary: Summary, baseline: Summary, classes: tuple[int, ...] = WANG_CLASSES
) -> Comparison:
    """Compare two runs of the same jobs.

    Parameters
    ----------
    summary, baseline : Summary
        As `summarise` returned them for one workload, or for one in which
        weights or servers were changed.
    classes : tuple of int
        Of job sizes: the largest number of tasks of each class but the last, ascending.

    Raises
    ------
    InputError
        When the summaries are of other jobs.

    Notes
    -----
    Cost O(T + J).
    """
    workload, n_users = summary.workload, summary.workload.n_users
    if not _same_jobs(workload, baseline.workload):
        raise InputError("is of another workload", "baseline")
    courses = summary.course, baseline.course
    user = summary.course.user
    known = ~(courses[0].unrecorded | courses[1].unrecorded)
    of_known, completed, completed_there = (
        np.bincount(user[known & which], minlength=n_users)
        for which in (known, *(course.completed for course in courses))
    )
    both = summary.jobs.completed & baseline.jobs.completed
    ours, theirs = (
        mean_by_user(side.jobs.completion[both], workload.job_user[both], n_users)
        for side in (summary, baseline)
    )
    horizon = min(summary.horizon, baseline.horizon)
    done, done_there = (completion_ratio(course, n_users, horizon, known) for course in courses)
    job_waits = (summary.jobs.wait - baseline.jobs.wait)[both]
    waits = waiting_times(summary.course) - waiting_times(baseline.course)
    return Comparison(
        policy=summary.policy,
        baseline=baseline.policy,
        users=workload.users,
        known=known,
        unknown=(of_known == 0) & (np.bincount(user, minlength=n_users) > 0),
        jobs=np.bincount(workload.job_user[both], minlength=n_users),
        completion=ours,
        baseline_completion=theirs,
        wait_difference=mean_by_user(job_waits, workload.job_user[both], n_users),
        started=np.bincount(user[~np.isnan(waits)], minlength=n_users),
        task_wait_difference=mean_by_user(waits, user, n_users),
        completed_difference=completed - completed_there,
        horizon=horizon,
        done=done,
        baseline_done=done_there,
        reduction=reduction_by_size(workload.job_tasks, summary.jobs, baseline.jobs, classes),
    )


def _same_jobs(one: Workload, other: Workload) -> bool:
    """Return whether users, jobs and tasks have the same numbers and the same durations."""
    if one is other:
        return True
    columns = ("job_user", "job_submit", "set_job", "set_tasks", "task_duration")
    return one.users == other.users and all(
        np.array_equal(getattr(one, column), getattr(other, column)) for column in columns
    )

"""Compare two runs of one workload: users that gain and lose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.distribution import mean_by_user
from fairlead.simulation.metrics.summary import Summary, plain, rows_of
from fairlead.simulation.metrics.task_outcomes import JobTimes, completion_ratio

UNCHANGED = 1e-3  # smaller relative differences of mean completion times do not count
# Largest number of tasks of each class of jobs except the last, as in Wang, Liang and Li 2015.
WANG_CLASSES = (50, 100, 500, 1000)


@dataclass(frozen=True, eq=False)
class Reduction:
    """Reduction of completion time by job size, for C classes of job sizes.

    With a reduction of 0.25 a job takes three quarters of the time; with a negative one, longer.
    """

    min_tasks: tuple[int, ...]  # (C,): smallest number of tasks of a job of the class
    max_tasks: tuple[int, ...]  # (C,): largest number; 0 in the last class, which has no bound
    jobs: IntArray  # (C,): jobs that are complete under both policies; other jobs do not count
    mean: FloatArray  # (C,): mean of ``1 - ours / theirs`` over jobs; NaN without jobs
    of_means: FloatArray  # (C,): reduction of the mean, ``1 - mean(ours) / mean(theirs)``
    shortened: IntArray  # (C,): jobs that are complete sooner, by more than rounding
    lengthened: IntArray  # (C,): jobs that are complete later

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, such as ``51-100`` and ``>1000``."""
        pairs = zip(self.min_tasks, self.max_tasks, strict=True)
        return tuple(f"{low}-{high}" if high else f">{low - 1}" for low, high in pairs)


def reduction_by_size(
    tasks: IntArray, ours: JobTimes, theirs: JobTimes, classes: tuple[int, ...] = WANG_CLASSES
) -> Reduction:
    """Compare completion times of the jobs that are complete under both policies.

    `tasks` (J,) is the number of tasks of each job. Wang, Liang and Li 2015, Fig. 6b, leaves open
    whether it shows the mean of the reductions or the reduction of the mean. O(J log C).
    """
    both: BoolArray = ours.completed & theirs.completed
    kind = np.searchsorted(classes, tasks[both])
    one, other = ours.completion[both], theirs.completion[both]
    n_classes = len(classes) + 1

    def total(values: FloatArray) -> FloatArray:
        return np.bincount(kind, values, minlength=n_classes).astype(np.float64)

    jobs = np.bincount(kind, minlength=n_classes)
    some = jobs > 0
    mean, of_means = np.full((2, n_classes), np.nan)
    mean[some] = total(1.0 - one / other)[some] / jobs[some]
    of_means[some] = 1.0 - total(one)[some] / total(other)[some]
    differs = ~np.isclose(one, other, rtol=1e-9, atol=0.0)
    return Reduction(
        min_tasks=(1, *(size + 1 for size in classes)),
        max_tasks=(*classes, 0),
        jobs=jobs.astype(np.int64),
        mean=mean,
        of_means=of_means,
        shortened=np.bincount(kind[differs & (one < other)], minlength=n_classes),
        lengthened=np.bincount(kind[differs & (one > other)], minlength=n_classes),
    )


@dataclass(frozen=True, eq=False)
class Comparison:
    """A policy compared with a baseline; N users. Means are NaN where there is nothing to compare.

    Only tasks with known times in both runs count, as a log may lack some times.
    """

    policy: str
    baseline: str
    users: tuple[str, ...]
    known: BoolArray  # (T,): tasks whose times both runs know
    unknown: BoolArray  # (N,): users without any known task
    # (N,): jobs of each user that are complete under both; the next three fields are of these.
    jobs: IntArray
    completion: FloatArray  # (N,): mean completion time, seconds
    baseline_completion: FloatArray  # (N,): mean completion time under the baseline, seconds
    # (N,): mean wait minus mean wait under the baseline, seconds: negative if jobs start sooner.
    wait_difference: FloatArray
    # (N,): tasks of each user that started under both; the next field is of these.
    started: IntArray
    task_wait_difference: FloatArray  # (N,): mean wait minus that under the baseline, seconds
    completed_difference: IntArray  # (N,): known tasks completed minus those under the baseline
    horizon: float  # the earlier of the two summaries' horizons, seconds
    done: FloatArray  # (N,): completion ratio of the known tasks at that horizon
    baseline_done: FloatArray  # (N,): the same under the baseline
    reduction: Reduction  # of completion times, by job size

    @property
    def completion_ratio(self) -> FloatArray:
        """(N,) float: mean completion time over that under the baseline: below 1 is sooner."""
        return self.completion / self.baseline_completion

    @property
    def horizon_difference(self) -> FloatArray:
        """(N,) float: completion ratio at the horizon minus that under the baseline."""
        return self.done - self.baseline_done

    @property
    def gained(self) -> BoolArray:
        """(N,) bool: whether the mean completion time of a user's jobs is shorter by 0.1 % or more.

        For a user without jobs to compare, whether more of its tasks are completed.
        """
        return np.where(
            self.jobs > 0, self.completion_ratio <= 1 - UNCHANGED, self.completed_difference > 0
        )

    @property
    def lost(self) -> BoolArray:
        """(N,) bool: whether the mean completion time of a user's jobs is longer by 0.1 % or more.

        For a user without jobs to compare, whether fewer of its tasks are completed.
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


def compare(summary: Summary, baseline: Summary) -> Comparison:
    """Compare two runs of the same jobs.

    Parameters
    ----------
    summary, baseline : Summary
        Of one workload, perhaps with changed weights or servers in one of them.

    Raises
    ------
    InputError
        When the summaries are of different jobs, or measured from different times.

    Notes
    -----
    Cost O(T + J).
    """
    workload, n_users = summary.workload, summary.workload.n_users
    if not _same_jobs(workload, baseline.workload):
        raise InputError("is of another workload", "baseline")
    if summary.since != baseline.since:
        fault = f"must be measured from {summary.since:g} s on, not from {baseline.since:g} s"
        raise InputError(fault, "baseline")
    first = summary.first_job
    owner, job_tasks = workload.job_user[first:], workload.job_tasks[first:]
    ours, theirs = summary.outcomes, baseline.outcomes
    known = ~(ours.unrecorded | theirs.unrecorded)

    def count(which: BoolArray) -> IntArray:
        return np.bincount(ours.user[which], minlength=n_users)

    both = summary.jobs.completed & baseline.jobs.completed

    def job_mean(values: FloatArray) -> FloatArray:
        return mean_by_user(values[both], owner[both], n_users)

    horizon = min(summary.horizon, baseline.horizon)
    waits = ours.wait - theirs.wait
    return Comparison(
        policy=summary.policy,
        baseline=baseline.policy,
        users=workload.users,
        known=known,
        unknown=(count(known) == 0) & (np.bincount(ours.user, minlength=n_users) > 0),
        jobs=np.bincount(owner[both], minlength=n_users),
        completion=job_mean(summary.jobs.completion),
        baseline_completion=job_mean(baseline.jobs.completion),
        wait_difference=job_mean(summary.jobs.wait - baseline.jobs.wait),
        started=count(~np.isnan(waits)),
        task_wait_difference=mean_by_user(waits, ours.user, n_users),
        completed_difference=count(known & ours.completed) - count(known & theirs.completed),
        horizon=horizon,
        done=completion_ratio(ours, n_users, horizon, known),
        baseline_done=completion_ratio(theirs, n_users, horizon, known),
        reduction=reduction_by_size(job_tasks, summary.jobs, baseline.jobs),
    )


def _same_jobs(one: Workload, other: Workload) -> bool:
    """Return whether two workloads have the same users, jobs, tasks and durations."""
    if one is other:
        return True
    columns = ("job_user", "job_submit", "set_job", "set_tasks", "task_duration")
    return one.users == other.users and all(
        np.array_equal(getattr(one, column), getattr(other, column)) for column in columns
    )

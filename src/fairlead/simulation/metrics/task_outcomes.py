"""Outcomes of tasks, times of jobs, and figures of users in a run."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import IndexArray, Workload
from fairlead.simulation.metrics.distribution import mean_by_user, ratio

# Seconds. Bounded slowdowns (Feitelson 2001) count shorter jobs as if they took this long.
# Otherwise jobs of a second or two would decide the mean.
SHORTEST = 10.0


@dataclass(frozen=True, eq=False)
class TaskOutcomes:
    """Tasks from their submission to their end; T tasks.

    A task is *active* while it waits or runs: from `submit` until just before `over`. A task is
    never active if it can never run, or if its times are not recorded.
    """

    set: IndexArray  # (T,): its set of tasks
    user: IndexArray  # (T,)
    submit: FloatArray  # (T,): submission of its job, seconds
    first_start: FloatArray  # (T,): seconds; NaN without a start
    end: FloatArray  # (T,): end of the attempt that ended well, seconds; NaN if none did
    # (T,): seconds; when it last stopped waiting or running:
    # - its end if it ended well,
    # - else its withdrawal, or the loss of its last attempt if that was later,
    # - infinite if it still waits at the end of the run,
    # - its submission if it is never active.
    over: FloatArray
    unplaceable: BoolArray  # (T,): whether it can never run
    unrecorded: BoolArray  # (T,): whether the log of a recorded run lacks its times

    def from_task(self, first: int) -> TaskOutcomes:
        """Return the outcomes of the tasks with numbers from `first` on."""
        return TaskOutcomes(
            **{each.name: getattr(self, each.name)[first:] for each in fields(self)}
        )

    @property
    def never_active(self) -> BoolArray:
        """(T,) bool: whether the task is active at no time."""
        never: BoolArray = self.unplaceable | self.unrecorded
        return never

    @property
    def completed(self) -> BoolArray:
        """(T,) bool: whether the task ended well."""
        return ~np.isnan(self.end)

    @property
    def waits_forever(self) -> BoolArray:
        """(T,) bool: whether the task waits at the end of the run, though it could run alone."""
        return np.isinf(self.over)

    @property
    def withdrawn(self) -> BoolArray:
        """(T,) bool: whether the task was withdrawn before it ended well."""
        withdrawn: BoolArray = ~self.completed & ~self.waits_forever & ~self.never_active
        return withdrawn

    @property
    def wait(self) -> FloatArray:
        """(T,) float: seconds from submission to first start; NaN without a start.

        The second wait of a lost task counts only in the completion time of its job.
        """
        wait: FloatArray = self.first_start - self.submit
        return wait

    @property
    def completion(self) -> FloatArray:
        """(T,) float: seconds from submission to end; NaN without an end."""
        completion: FloatArray = self.end - self.submit
        return completion


def follow_tasks(workload: Workload, log: RunLog) -> TaskOutcomes:
    """Compute the outcome of every task of a workload in a run; O(T + P) for P starts."""
    of_task = np.repeat(np.arange(workload.n_sets, dtype=np.int32), workload.set_tasks)
    job = workload.set_job[of_task]
    submit = workload.job_submit[job]
    unplaceable = log.set_unplaceable[of_task]
    unrecorded = np.isnan(workload.task_start) & log.is_recorded
    _, end = log.task_times(workload)
    first_start = np.full(workload.n_tasks, np.nan)
    # The log has several starts of a task in order; the first is written last, and stays.
    first_start[log.task[::-1]] = log.start[::-1]
    over = workload.job_cancel[job]
    np.maximum.at(over, log.task[log.lost], log.end[log.lost])
    over = np.where(np.isnan(end), over, end)
    return TaskOutcomes(
        set=of_task,
        user=workload.job_user[job],
        submit=submit,
        first_start=first_start,
        end=end,
        over=np.where(unplaceable | unrecorded, submit, over),
        unplaceable=unplaceable,
        unrecorded=unrecorded,
    )


@dataclass(frozen=True, eq=False)
class JobTimes:
    """Times of J jobs; NaN for jobs with a task that did not end well.

    Waits and completions are of the same jobs, so that they can be compared.
    """

    completion: FloatArray  # (J,): seconds from the submission to the end of the last task
    # (J,): completion over the duration of the job's longest task, its time on an unlimited
    # cluster: 1 is best.
    slowdown: FloatArray
    wait: FloatArray  # (J,): seconds from the submission to the start of the first task
    # (J,): completion over the larger of that duration and `SHORTEST`, at least 1.
    bounded_slowdown: FloatArray

    def from_job(self, first: int) -> JobTimes:
        """Return the times of the jobs with numbers from `first` on."""
        return JobTimes(**{each.name: getattr(self, each.name)[first:] for each in fields(self)})

    @property
    def completed(self) -> BoolArray:
        """(J,) bool: whether all tasks ended well."""
        return ~np.isnan(self.completion)


def measure_jobs(workload: Workload, outcomes: TaskOutcomes) -> JobTimes:
    """Measure the times of each job as in Wang, Liang and Li 2015, Fig. 6a; O(T)."""
    first = workload.first_task[workload.first_set[:-1]]
    # The maximum is NaN if one of the ends is NaN.
    completion = np.maximum.reduceat(outcomes.end, first) - workload.job_submit
    first_start = np.minimum.reduceat(outcomes.first_start, first)
    wait = np.where(np.isnan(completion), np.nan, first_start - workload.job_submit)
    longest = np.maximum.reduceat(workload.task_duration, first)
    bounded = np.maximum(completion / np.maximum(longest, SHORTEST), 1.0)
    return JobTimes(completion, completion / longest, wait, bounded)


def completion_ratio(
    outcomes: TaskOutcomes, n_users: int, horizon: float, among: BoolArray | None = None
) -> FloatArray:
    """Return (N,) the fraction of each user's tasks submitted by `horizon` that ended well by then.

    Withdrawn and unplaceable tasks count, tasks with unrecorded times do not; `among` (T,) selects
    tasks. NaN for users without such tasks. Wang, Liang and Li 2015, Fig. 7. O(T).
    """
    counts = ~outcomes.unrecorded if among is None else among & ~outcomes.unrecorded
    submitted = np.bincount(outcomes.user[counts & (outcomes.submit <= horizon)], minlength=n_users)
    # A task that never ended is not done at any time: comparing with NaN is false.
    done = np.bincount(outcomes.user[counts & (outcomes.end <= horizon)], minlength=n_users)
    return ratio(done, submitted)


@dataclass(frozen=True, eq=False)
class UserFigures:
    """Figures of N users, (N,) each; means are NaN for users without anything to average."""

    tasks: IntArray  # submitted
    completed: IntArray  # tasks that ended well
    unplaceable: IntArray  # tasks that can never run
    jobs: IntArray  # submitted
    jobs_completed: IntArray  # jobs with all tasks done
    completion: FloatArray  # mean completion time of the jobs completed, seconds
    slowdown: FloatArray  # mean slowdown of the jobs completed
    bounded_slowdown: FloatArray  # mean bounded slowdown of the jobs completed
    wait: FloatArray  # mean time from submission to first start of the jobs completed, seconds
    task_completion: FloatArray  # mean completion time of the tasks completed, seconds
    task_wait: FloatArray  # mean time from submission to first start of the tasks, seconds
    completion_ratio: FloatArray  # tasks done at the horizon over those submitted by then


def measure_users(
    owner: IndexArray, n_users: int, outcomes: TaskOutcomes, jobs: JobTimes, horizon: float
) -> UserFigures:
    """Count tasks and jobs of each user, and average their times; `owner` (J,) is a job's user.

    Completion ratios are taken at the horizon, in seconds. O(T + J).
    """

    def count(users: IndexArray) -> IntArray:
        return np.bincount(users, minlength=n_users).astype(np.int64)

    return UserFigures(
        tasks=count(outcomes.user),
        completed=count(outcomes.user[outcomes.completed]),
        unplaceable=count(outcomes.user[outcomes.unplaceable]),
        jobs=count(owner),
        jobs_completed=count(owner[jobs.completed]),
        completion=mean_by_user(jobs.completion, owner, n_users),
        slowdown=mean_by_user(jobs.slowdown, owner, n_users),
        bounded_slowdown=mean_by_user(jobs.bounded_slowdown, owner, n_users),
        wait=mean_by_user(jobs.wait, owner, n_users),
        task_completion=mean_by_user(outcomes.completion, outcomes.user, n_users),
        task_wait=mean_by_user(outcomes.wait, outcomes.user, n_users),
        completion_ratio=completion_ratio(outcomes, n_users, horizon),
    )

"""All figures of one policy's run of one workload."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import InputError
from fairlead.model.cluster import FloatArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.distribution import mean, percentile
from fairlead.simulation.metrics.dominant_shares import Shares, measure_shares
from fairlead.simulation.metrics.fairness_error import FairnessError, measure_fairness
from fairlead.simulation.metrics.starvation import Starvation, measure_starvation
from fairlead.simulation.metrics.task_outcomes import (
    JobTimes,
    TaskOutcomes,
    UserFigures,
    follow_tasks,
    measure_jobs,
    measure_users,
)
from fairlead.simulation.metrics.utilization import (
    Utilization,
    capacity_over_time,
    check_time,
    measure_utilization,
    time_grid,
)

DEFAULT_BINS = 300
DEFAULT_INSTANTS = 100
DAY = 86_400.0


@dataclass(frozen=True, eq=False)
class Summary:
    """The figures of a run; a figure without a value, such as an empty mean, is NaN."""

    workload: Workload
    log: RunLog
    outcomes: TaskOutcomes  # of the tasks submitted from `since` on
    jobs: JobTimes  # of the jobs submitted from `since` on
    first_job: int  # number of the first of these jobs
    lost: int  # runs of these tasks that were lost with a server or stopped
    users: UserFigures  # of these jobs and tasks
    utilization: Utilization  # over time, from `since` to `until`
    shares: Shares  # dominant shares, over the same time
    shares_of_arrivals: Shares  # dominant shares from `since` to `arrivals`, in one bin
    fairness: FairnessError | None  # from `since` to `arrivals`; None if not requested
    starvation: Starvation
    since: float  # end of the warm-up, seconds
    until: float  # end of the time over which use is averaged, seconds
    # End of the time over which fairness is judged, seconds. After the last submission the cluster
    # drains: the few users left get all they want.
    arrivals: float
    horizon: float  # time at which completion ratios are taken, seconds
    horizon_utilization: FloatArray  # (R,): of each resource, from `since` to the horizon

    @property
    def policy(self) -> str:
        """Name of the policy."""
        return self.log.policy

    @property
    def jobs_unrecorded(self) -> int:
        """Jobs with a task whose times the log lacks."""
        sets = self.outcomes.set[self.outcomes.unrecorded]
        return len(np.unique(self.workload.set_job[sets]))

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, in the layout of ``simulate --json`` for a policy.

        Times are in seconds. Figures without a value are None.
        """
        outcomes, jobs, fairness = self.outcomes, self.jobs, self.fairness
        shares = self.shares_of_arrivals
        figures = {
            "tasks": len(outcomes.set),
            "completed": int(outcomes.completed.sum()),
            "unplaceable": int(outcomes.unplaceable.sum()),
            "cancelled": int(outcomes.withdrawn.sum()),
            "waiting": int(outcomes.waits_forever.sum()),
            "unrecorded": int(outcomes.unrecorded.sum()),
            "lost": self.lost,
            "jobs": len(jobs.wait),
            "jobs_completed": int(jobs.completed.sum()),
            "jobs_unrecorded": self.jobs_unrecorded,
            "makespan": self.log.makespan,
            **_spread("completion_time", jobs.completion),
            **_spread("slowdown", jobs.slowdown),
            **_spread("bounded_slowdown", jobs.bounded_slowdown),
            **_spread("wait", jobs.wait),
            **_spread("task_completion_time", outcomes.completion),
            **_spread("task_wait", outcomes.wait),
            "utilization": self._by_resource(self.utilization.mean),
            "fairness_error": None if fairness is None else fairness.mean,
            "fairness": None
            if fairness is None
            else {
                "mechanism": fairness.mechanism,
                "instants": len(fairness.time),
                "unsolved": fairness.unsolved,
                "fault": fairness.fault or None,
                "jain": fairness.jain,
                "over_a_day": fairness.over(DAY),
                "over_a_week": fairness.over(7 * DAY),
            },
            "got_nothing": self._got_nothing(),
            "never_ran": [
                self.workload.users[n] for n in np.flatnonzero(self.starvation.never_ran).tolist()
            ],
            "longest_without": self._longest_starvation(),
            "jain": shares.jain,
            "least_share": shares.mean_least,
            "measured_since": self.since,
            "averaged_until": self.until,
            "arrivals_until": self.arrivals,
            "horizon": self._horizon(),
            "users": self._users(),
        }
        layout: dict[str, Any] = plain(figures)
        return layout

    def _got_nothing(self) -> dict[str, float]:
        """Return, for each user that got nothing, its longest wait in seconds, longest first."""
        longest, names = self.starvation.longest, self.workload.users
        users = np.flatnonzero(self.starvation.got_nothing)
        users = users[np.argsort(-longest[users], kind="stable")]
        return {names[n]: float(longest[n]) for n in users.tolist()}

    def _longest_starvation(self) -> dict[str, Any] | None:
        longest = self.starvation.longest
        n = int(np.argmax(longest))
        if longest[n] <= 0:
            return None
        return {"user": self.workload.users[n], "seconds": float(longest[n])}

    def _by_resource(self, values: FloatArray) -> dict[str, float]:
        return dict(zip(self.workload.cluster.resources, values.tolist(), strict=True))

    def _horizon(self) -> dict[str, Any]:
        """Return the figures at the horizon."""
        outcomes = self.outcomes
        submitted = (outcomes.submit <= self.horizon) & ~outcomes.unrecorded
        done = outcomes.end <= self.horizon
        return {
            "time": self.horizon,
            "submitted": int(submitted.sum()),
            "completed": int(done.sum()),
            "completion_ratio": float(done.sum() / submitted.sum()) if submitted.any() else None,
            "utilization": self._by_resource(self.horizon_utilization),
        }

    def _users(self) -> dict[str, dict[str, Any]]:
        users = self.users
        columns = {
            "completed": users.completed,
            "mean_completion_time": users.completion,
            "tasks": users.tasks,
            "unplaceable": users.unplaceable,
            "jobs": users.jobs,
            "jobs_completed": users.jobs_completed,
            "mean_slowdown": users.slowdown,
            "mean_bounded_slowdown": users.bounded_slowdown,
            "mean_wait": users.wait,
            "mean_task_completion_time": users.task_completion,
            "mean_task_wait": users.task_wait,
            "longest_without": self.starvation.longest,
            "dominant_share": self.shares_of_arrivals.mean_while_active,
            "completion_ratio": users.completion_ratio,
        }
        if self.fairness is not None:
            columns["fairness_error"] = self.fairness.user_error
            columns["held_share"] = self.fairness.user_held
            columns["fair_share"] = self.fairness.user_fair
            columns["owed_cluster_hours"] = self.fairness.owed
        return rows_of(self.workload.users, columns)


def summarise(
    workload: Workload,
    log: RunLog,
    *,
    since: float = 0.0,
    until: float | None = None,
    horizon: float | None = None,
    bins: int = DEFAULT_BINS,
    instants: int = DEFAULT_INSTANTS,
    mechanism: str = "drfh",
) -> Summary:
    """Measure a run.

    Parameters
    ----------
    workload : Workload
    log : RunLog
        The run of a policy.
    since : float
        End of the warm-up, seconds. Earlier jobs run and hold resources, but do not count.
    until : float, optional
        End of the time over which utilisation, shares and the fairness error are averaged, from
        `since` on; seconds. When absent, use is averaged until the makespan, or until the last
        submission or server event if no task ran. Fairness is averaged until the last submission,
        or as long as use if all jobs were submitted at once.
    horizon : float, optional
        Time at which completion ratios are taken; seconds. When absent, `until` if that is given,
        else the last submission or event of a server, else the makespan.
    bins : int
        Number of bins of utilisation and shares over time; means do not depend on it.
    instants : int
        Number of instants of the fairness error; 0 leaves it out.
    mechanism : str
        Mechanism of the fair shares, such as ``"drfh"`` or ``"ps-dsf"``.

    Raises
    ------
    InputError
        When a time is not positive, `since` is negative or not before the other times, there are
        no bins, or the mechanism is unknown.

    Notes
    -----
    Starvation counts until the last event. In a trace whose later submissions were cut off, it
    counts until the cut (`Workload.recorded_until`), as the missing jobs might have run.

    With a warm-up the figures are of:

    - the jobs submitted from `since` on: waits, completion times, slowdowns, completion ratios,
      all counts of tasks and jobs, lost runs, and the users' counts and means;
    - the time from `since` on, with the tasks of all jobs: utilisation, shares, Jain's index, the
      fairness error with the owed cluster-hours, and users that got nothing. A user's longest time
      without a running task begins at `since` at the earliest;
    - the whole run: the makespan, and the users that never ran.

    About 1.5 s for a million starts of 250 users without the fairness error, which adds about 10 ms
    for each of its instants.
    """
    outcomes, capacity = follow_tasks(workload, log), capacity_over_time(workload)
    # If no task ran after the warm-up and all jobs were submitted at once, any time will do.
    end = log.makespan if log.makespan > since else workload.span or 1.0
    if horizon is None:
        horizon = until if until is not None else workload.span or end
    if until is None:
        first, last = workload.job_submit[[0, -1]].tolist()
        until, arrivals = end, last if last > first else end
    else:
        arrivals = until
    check_time(until, "until")
    check_time(horizon, "horizon")
    check_since(since, min(until, arrivals, horizon), "since")
    edges = time_grid(until, bins, since)
    fairness = None
    if instants:
        fairness = measure_fairness(
            workload,
            log,
            outcomes,
            arrivals,
            capacity,
            instants=instants,
            mechanism=mechanism,
            since=since,
        )
    shares = shares_of_arrivals = measure_shares(workload, log, outcomes, edges, capacity)
    if arrivals != until:
        whole = time_grid(arrivals, 1, since)
        shares_of_arrivals = measure_shares(workload, log, outcomes, whole, capacity)
    # Jobs are in order of submission, and their tasks follow each other.
    first = int(np.searchsorted(workload.job_submit, since))
    first_task = int(workload.first_task[workload.first_set[first]])
    jobs, tasks = measure_jobs(workload, outcomes).from_job(first), outcomes.from_task(first_task)
    owner = workload.job_user[first:]
    return Summary(
        workload=workload,
        log=log,
        outcomes=tasks,
        jobs=jobs,
        first_job=first,
        lost=int((log.lost & (log.task >= first_task)).sum()),
        users=measure_users(owner, workload.n_users, tasks, jobs, horizon),
        utilization=measure_utilization(workload, log, edges, capacity),
        shares=shares,
        shares_of_arrivals=shares_of_arrivals,
        fairness=fairness,
        starvation=measure_starvation(
            workload, log, outcomes, arrivals, since=since, until=workload.recorded_until
        ),
        since=since,
        until=until,
        arrivals=arrivals,
        horizon=horizon,
        horizon_utilization=measure_utilization(
            workload, log, time_grid(horizon, 1, since), capacity
        ).mean,
    )


def check_since(since: float, end: float, name: str) -> None:
    """Raise `InputError` for a warm-up that is negative or lasts until the end of measuring."""
    if not 0 <= since < end:
        fault = f"must be at least 0 and before {end:g} s, when measuring ends, not {since:g} s"
        raise InputError(fault, name)


def _spread(name: str, values: FloatArray) -> dict[str, float]:
    """Return mean, median and 95th percentile by the name of each figure."""
    return {
        f"mean_{name}": mean(values),
        f"median_{name}": percentile(values, 50),
        f"p95_{name}": percentile(values, 95),
    }


def plain(value: Any) -> Any:
    """Return a value as dicts, lists and numbers for JSON; None for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def rows_of(names: Sequence[str], columns: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
    """Return a table by rows: the value in each column, for each name."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return {
        name: dict(zip(columns, row, strict=True)) for name, row in zip(names, rows, strict=True)
    }

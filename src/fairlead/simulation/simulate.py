"""Simulate a trace under several policies, and measure each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.executors.executor import Executor, Processes
from fairlead.formats.queue_file import load_queues
from fairlead.formats.run_log_file import server_names
from fairlead.mechanisms.catalogue import CATALOGUE, known_mechanism
from fairlead.model.arguments import file_name, number, one_or_several, switch, whole_number
from fairlead.model.notebooks import Plottable
from fairlead.model.queues import JOBS, TASKS
from fairlead.model.quotas import check_cluster
from fairlead.model.run_log import RECORDED, RunLog
from fairlead.model.workload import Workload, first_seconds
from fairlead.simulation.metrics.summary import Summary, check_since, summarise
from fairlead.simulation.metrics.task_outcomes import follow_tasks
from fairlead.simulation.planned_runs import Policies, policies_of
from fairlead.simulation.runs import (
    Progress,
    check_recorded,
    recorded_run,
    run_policies,
)
from fairlead.traces.journal_trace import JournalWorkload
from fairlead.traces.readers import read_workload
from fairlead.traces.what_if import with_load, with_perfect_estimates

# Mechanisms that are defined with placement constraints; the first is the default.
FAIR = ("drfh", "tsf", "ps-dsf")


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(Plottable):
    """A run of a policy, and its figures.

    `to_frame` has a row for each user; ``to_frame("jobs")`` for each job after the warm-up, and
    ``to_frame("starts")`` for each start of a task. Times are in seconds. `plot` draws
    users' shares until the last submission.

    Attributes
    ----------
    name : str
        The policy, and the change of the workload, if any.
    workload : Workload
    log : RunLog
    path : Path or None
        File of the log, if kept.
    until : float, optional
        Time at which completion ratios are taken, in seconds; by default as in `summarise`.
    since : float
        End of the warm-up in seconds, from which on the run is measured.
    fair : str
        Mechanism of the fair shares, for the fairness error.
    """

    name: str
    workload: Workload
    log: RunLog
    path: Path | None = None
    until: float | None = None
    fair: str = FAIR[0]
    since: float = 0.0
    frames = ("users", "jobs", "starts")

    @cached_property
    def summary(self) -> Summary:
        """The figures of the run, computed at the first access."""
        return summarise(
            self.workload, self.log, since=self.since, horizon=self.until, mechanism=self.fair
        )

    @cached_property
    def waiting(self) -> int:
        """Tasks submitted after the warm-up that still wait at the end of the run."""
        tasks = follow_tasks(self.workload, self.log)
        return int((tasks.waits_forever & (tasks.submit >= self.since)).sum())

    @cached_property
    def unplaceable_jobs(self) -> tuple[str, ...]:
        """Names of jobs submitted after the warm-up with an unplaceable task, in that order."""
        jobs = np.unique(self.workload.set_job[self.log.set_unplaceable])
        later = jobs[self.workload.job_submit[jobs] >= self.since]
        return tuple(self.workload.job_names[later].tolist())

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, for JSON."""
        return self.summary.to_dict() | {"unplaceable_jobs": list(self.unplaceable_jobs)}

    def _columns(self, what: str) -> Mapping[str, Any]:
        workload, log = self.workload, self.log
        users = np.array(workload.users, dtype=object)
        if what == "jobs":
            jobs, first = self.summary.jobs, self.summary.first_job
            return {
                "job": workload.job_names[first:].tolist(),
                "user": users[workload.job_user[first:]].tolist(),
                "submitted": workload.job_submit[first:],
                "wait": jobs.wait,
                "completion_time": jobs.completion,
                "slowdown": jobs.slowdown,
                "bounded_slowdown": jobs.bounded_slowdown,
            }
        if what == "starts":
            job = np.repeat(workload.set_job, workload.set_tasks)[log.task]
            servers = np.array([*server_names(workload), None], dtype=object)  # -1 has none
            return {
                "job": workload.job_names[job].tolist(),
                "user": users[workload.job_user[job]].tolist(),
                "task": log.task,
                "server": log.server,
                "server_name": servers[log.server].tolist(),
                "submit": workload.job_submit[job],
                "start": log.start,
                "end": log.end,
                "lost": log.lost,
            }
        rows = self.summary.to_dict()["users"]
        names: Mapping[str, Any] = next(iter(rows.values()), {})
        return {"user": list(rows)} | {c: [row[c] for row in rows.values()] for c in names}

    def __repr__(self) -> str:
        left = f"; {still_wait(self.waiting)}" if self.waiting else ""
        starts, end = len(self.log.task), self.log.makespan
        return f"<{self.name}: {starts:,} starts, until {end:,.0f} s{left}>"


def still_wait(tasks: int) -> str:
    """Format a number of waiting tasks: ``1 task still waits``, ``2 tasks still wait``."""
    return f"{tasks:,} {'task still waits' if tasks == 1 else 'tasks still wait'}"


# Columns of `Outcomes.to_frame`, and those of them in seconds.
FIGURES = (
    "tasks",
    "completed",
    "unplaceable",
    "waiting",
    "makespan",
    "mean_wait",
    "mean_completion_time",
    "mean_slowdown",
    "mean_bounded_slowdown",
    "fairness_error",
    "unsolved",
)
TIME_FIGURES = ("makespan", "mean_wait", "mean_completion_time")


class Outcomes(dict[str, Outcome], Plottable):
    """Outcomes by policy; `to_frame` has a row for each, and `plot` draws how soon jobs complete.

    ``to_frame("figures")`` has further figures of each, as ``docs/run-figures.md`` defines them.
    """

    frames = ("policies", "figures")

    def __missing__(self, name: object) -> Outcome:
        """Raise a KeyError that lists the names of the outcomes."""
        raise KeyError(f"no outcome of {name!r:.60}; there are: {', '.join(self)}")

    def __repr__(self) -> str:
        """Return the outcomes, one line each."""
        return "\n".join(map(repr, self.values())) or "<no outcome>"

    def _columns(self, what: str) -> Mapping[str, Any]:
        rows = [outcome.to_dict() for outcome in self.values()]
        rows = [row | {"unsolved": row["fairness"]["unsolved"]} for row in rows]
        figures = dict.fromkeys(FIGURES)
        if what == "figures":  # all that are one number; `longest_without` has a user, too
            figures |= {
                name: None
                for row in rows[:1]
                for name, value in row.items()
                if name != "longest_without" and not isinstance(value, dict | list)
            }
        columns = {figure: [row[figure] for row in rows] for figure in figures}
        # Utilisation until the horizon: over the makespan, a late task would hide differences.
        used = [row["horizon"]["utilization"] for row in rows]
        columns |= {f"used_{r}": [row[r] for row in used] for r in (used[0] if used else ())}
        return {"policy": list(self)} | columns


def simulate(
    trace: Workload | Path | str,
    policies: Policies,
    *,
    folder: Path | str | None = None,
    processes: int | None = None,
    executor: Executor | None = None,
    seed: int = 0,
    strict_fifo: bool = False,
    what_if: str | Sequence[str] = (),
    dedicated: bool = False,
    perfect_estimates: bool = False,
    load: float = 1.0,
    until: float | None = None,
    warm_up: float = 0.0,
    fair: str = FAIR[0],
    queues: Path | str | None = None,
    on_found: Callable[[str, Path], None] | None = None,
    on_progress: Progress | None = None,
) -> Outcomes:
    """Replay a trace under several policies, each in its own process.

    Parameters
    ----------
    trace : Workload, Path or str
        A workload, or the file or folder of a trace of any known format.
    policies : str or callable, sequence of these, or mapping of str to callable
        One or several, such as ``drf/best-fit``, ``ps-dsf/joint/residual``, ``drf/rrr/oblivious``
        or ``slots:14``; or ``recorded``, the run that the trace records. A function is a rule of
        your own: it gets a `fairlead.scheduler.own_rules.ClusterView` and returns the group that
        starts next, or None. The run's name is the key in the mapping, or the function's name.
    folder : Path or str, optional
        Folder for the log of each run. A run found there is not repeated, except under a rule of
        your own, because a change of a rule cannot be detected.
    processes : int, optional
        Policies replayed at a time; the number of processors when absent.
    executor : Executor, optional
        Runs the replays instead of local processes, such as the executor that
        `fairlead.executors.ray_tasks.joined_ray` returns.
    seed : int
        Seed of random policies: the same seed gives the same run.
    strict_fifo : bool
        Whether each user's tasks start in order of submission. If not, a task that fits starts
        before an earlier task of its user that does not fit.
    what_if : str or sequence of str
        Changes such as ``weight:ana=3``, ``servers:big+10`` or ``servers:big-3``. Each adds a run
        of the first policy other than ``recorded``, named ``drf/best-fit, weight:ana=3``.
    dedicated : bool
        Whether to add a run of that first policy with each user alone on its own share of the
        servers, named ``drf/best-fit, dedicated``.
    perfect_estimates : bool
        Whether reserved starts and rules get the true durations of jobs as time limits.
    load : float
        Factor that speeds up the arrivals of jobs and the events of servers; durations stay.
    until : float, optional
        Seconds. Only jobs submitted before this time are replayed, and run to their end;
        completion ratios are taken at this time.
    warm_up : float
        Seconds. Jobs submitted earlier fill the cluster, but are not measured; see `since` of
        `summarise`.
    fair : str
        Mechanism of the fair shares, for the fairness error: one of `FAIR`, or one of your own
        (`fairlead.mechanism`). Instants without an answer do not count; the column ``unsolved``
        of frames has their number.
    queues : Path or str, optional
        A file with a tree of queues, to which the users belong.
    on_found : callable, optional
        Called with the name and the file of each run that was found in the folder.
    on_progress : callable, optional
        Called regularly with the name of a run, its started tasks, all its tasks, and the time in
        seconds.

    Returns
    -------
    dict of str to Outcome
        `Outcomes` by name of the run, in the order of the policies.

    Raises
    ------
    InputError
        For an unusable trace, policy, change, number or folder, or ``recorded`` where the trace
        does not record when its tasks started.
    FairleadError
        When a rule raised an exception or made an impossible start; finished runs are kept in the
        folder.
    RefusalError
        When the parts of a policy cannot be combined.
    KeyboardInterrupt
        When interrupted; finished runs are kept in the folder.

    Notes
    -----
    Processes are forked where the system can; elsewhere the calling program needs the usual guard
    (``if __name__ == "__main__"``) or ``processes=1``.

    Examples
    --------
    A server of 4 cores; ana submits six tasks of 1 core and bo two of 2 cores, of 10 s each:

    >>> import fairlead
    >>> from fairlead.model.workload import Workload
    >>> problem = fairlead.Problem.from_arrays([[4]], [[1]], resources=["cpu"])
    >>> workload = Workload.from_arrays(
    ...     problem.cluster,
    ...     ["ana", "bo"],
    ...     job_user=[0, 1],
    ...     job_submit=[0, 0],
    ...     set_job=[0, 1],
    ...     set_tasks=[6, 2],
    ...     shapes=[[1], [2]],
    ...     task_duration=[10] * 8,
    ... )
    >>> runs = fairlead.simulate(workload, policies=["drf/best-fit"], processes=1)
    >>> result = runs["drf/best-fit"].to_dict()
    >>> result["completed"], result["makespan"]
    (8, 30.0)

    A rule that serves the user with the fewest running tasks:

    >>> def fewest_tasks(view):
    ...     groups = [group for group in view.waiting if view.fits(group)]
    ...     return min(groups, key=lambda group: group.user.running, default=None)
    >>> fairlead.simulate(workload, policies={"fewest": fewest_tasks}, processes=1)
    <fewest: 8 starts, until 30 s>
    """
    check_fair(fair)
    if processes is not None:
        processes = whole_number(processes, "processes", 1)
    policies = policies_of(policies)
    if until is not None:
        until = number(until, "until")
    workload = read_trace(trace, "trace")
    if queues is not None:
        workload = with_queues(workload, queues)
    load = number(load, "load")
    has_changed = switch(perfect_estimates, "perfect_estimates") or until is not None or load != 1
    if has_changed and isinstance(workload, JournalWorkload):
        workload = workload.as_trace()
    if load != 1:
        workload = with_load(workload, load)
    if RECORDED in policies:
        check_recorded(workload, "" if isinstance(trace, Workload) else str(trace))
    if perfect_estimates:
        workload = with_perfect_estimates(workload)
    if until is not None:
        workload = first_seconds(workload, until)
    warm_up = number(warm_up, "warm_up")
    if warm_up:
        check_since(warm_up, float(workload.job_submit[-1]), "warm_up")
    runs = run_policies(
        workload,
        policies,
        folder=None if folder is None else Path(file_name(folder, "folder")),
        executor=executor or Processes(processes),
        seed=seed,
        strict_fifo=switch(strict_fifo, "strict_fifo"),
        what_if=one_or_several(what_if, "what_if"),
        dedicated=switch(dedicated, "dedicated"),
        on_found=on_found,
        on_progress=on_progress,
    )
    return Outcomes(
        {
            name: Outcome(name, run.workload, run.log, run.path, until, fair, warm_up)
            for name, run in runs.items()
        }
    )


def read_trace(trace: Workload | Path | str, name: str) -> Workload:
    """Return a workload, or read it from a file; `name` is that of the argument, for errors."""
    if isinstance(trace, Workload):
        return trace
    return read_workload(Path(file_name(trace, name)))[0]


def with_queues(workload: Workload, path: Path | str) -> Workload:
    """Return the workload with its users in the tree of queues of a file.

    A recording of a service becomes a plain trace. Raises InputError for an unusable file.
    """
    if isinstance(workload, JournalWorkload):
        workload = workload.as_trace()
    tree, resources = load_queues(path), workload.cluster.resources
    for name, limit in tree.limits.items():
        for resource in limit:
            if resource not in (*resources, TASKS, JOBS):
                fault = f"the trace has no such resource; it has {', '.join(resources)}"
                raise InputError(fault, f"limits.{name}.{resource}", str(path))
    try:
        queues = tree.of(workload.users)
        check_cluster(tree.quotas, tree.parents, workload.cluster)
        return replace(workload, queues=queues, limits=tree.limits, quotas=tree.quotas)
    except ProblemError as error:
        raise error.within(str(path)) from None


def with_recorded(
    outcomes: Mapping[str, Outcome],
    workload: Workload,
    fair: str = FAIR[0],
    since: float = 0.0,
) -> Outcomes:
    """Return the outcomes, with the recorded run put first if it is missing.

    `workload` is the trace without any change. Raises InputError when it has no start times.
    """
    if RECORDED in outcomes:
        return Outcomes(outcomes)
    recorded = Outcome(RECORDED, workload, recorded_run(workload), None, None, fair, since)
    return Outcomes({RECORDED: recorded, **outcomes})


def check_fair(name: str) -> None:
    """Raise `InputError` unless the mechanism is one of `FAIR`, or user-defined."""
    is_added = isinstance(name, str) and name not in CATALOGUE and known_mechanism(name)
    if name not in FAIR and not is_added:
        known = f"must be one of {', '.join(FAIR)}, or a mechanism of your own"
        raise InputError(f"{known}, not {name!r:.60}", "fair")

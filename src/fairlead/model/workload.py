"""Jobs of many tasks, and the servers that join and leave a cluster, over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairlead.errors import InputError, ProblemError
from fairlead.model.arguments import number
from fairlead.model.cluster import ROUNDING, BoolArray, Cluster, FloatArray, IntArray, check_devices
from fairlead.model.notebooks import Tabular
from fairlead.model.queues import Limits, Queues
from fairlead.model.quotas import Quotas
from fairlead.model.workload_checks import (
    check_cluster,
    check_server_events,
    check_unlike_names,
    check_weights,
    distinct_rows,
    fail_at,
    read_amounts,
    read_indices,
    read_times,
    read_vector,
    used_rows,
)

IndexArray = NDArray[np.int32]
NameArray = NDArray[np.str_]

JOIN, LEAVE, DRAIN = 0, 1, 2
LATEST_DATE = 221_845_392_000.0  # the start of the year 9000; later dates are errors
EVENT_NAMES = ("join", "leave", "drain")


@dataclass(frozen=True, eq=False, repr=False)
class Workload(Tabular):
    """The input of a simulation as arrays; times are seconds from the start.

    Letters: N users, J jobs, K sets of equal tasks, T tasks, D shapes, E places, G groups of
    identical servers, S servers, R resources, X events of servers. A place is a set of groups on
    which tasks may run. A job has one or more sets. Sets are in the order of their jobs, tasks in
    the order of their sets. Servers are numbered through all groups: those of group g are
    ``first_server[g]`` up to ``first_server[g + 1]``, exclusive.

    Build a workload with `Workload.from_arrays`, which validates the arrays. `to_frame` has a row
    for each user.
    """

    cluster: Cluster  # every server that is present at any time
    users: tuple[str, ...]  # length N
    weight: FloatArray  # (N,)
    job_names: NameArray  # (J,): unique
    job_user: IndexArray  # (J,): the user of the job
    job_submit: FloatArray  # (J,): submission, ascending
    job_gang: BoolArray  # (J,): whether all tasks start together
    job_cancel: FloatArray  # (J,): time at which its user withdraws the job; or infinite
    # (J,): the declared longest run of a task, seconds; infinite if none. Policies may use it;
    # replays do not stop tasks at it.
    job_limit: FloatArray
    set_job: IndexArray  # (K,): the job of the set, ascending
    set_shape: IndexArray  # (K,): the demand of one task, a row of `shapes`
    set_place: IndexArray  # (K,): the groups on which a task may run, a row of `places`
    set_tasks: IndexArray  # (K,): number of tasks
    shapes: FloatArray  # (D, R): amounts of one task; distinct rows in order of first use
    places: BoolArray  # (E, G): whether a group is allowed; distinct rows in order of first use
    task_duration: FloatArray  # (T,): seconds from start to end
    # (T,): recorded start, which replays do not use. Infinite if the task never started, NaN if the
    # log lacks it.
    task_start: FloatArray
    task_server: IndexArray  # (T,): recorded server; -1 if the log lacks it
    server_time: FloatArray  # (X,): time of the event, ascending
    # (X,): JOIN; LEAVE, by which running tasks are lost; or DRAIN, after which they still finish.
    server_event: NDArray[np.int8]
    # (X,): the server of the event. A server whose first event is a join is absent at time 0.
    server: IndexArray
    queues: Queues | None = None  # the tree to which the users belong, if any
    limits: Limits = field(default_factory=dict)  # by name of a queue or user
    quotas: Quotas = field(default_factory=dict)  # by name of a queue or user
    origin: str = ""  # source of the workload, for reports
    # Date of second 0 by the clock of the log, as seconds since 1970; None if the log has none.
    start_date: float | None = None
    # Time at which the trace was cut; None if it was not. Jobs submitted later are missing, so the
    # recorded run is complete only before this time.
    recorded_until: float | None = None
    # For reports: how many records were dropped, repaired or simplified on reading, by reason.
    notes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_arrays(
        cls,
        cluster: Cluster,
        users: Sequence[str],
        *,
        job_user: ArrayLike,
        job_submit: ArrayLike,
        set_job: ArrayLike,
        set_tasks: ArrayLike,
        shapes: ArrayLike,
        task_duration: ArrayLike,
        set_shape: ArrayLike | None = None,
        places: ArrayLike | None = None,
        set_place: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        job_names: ArrayLike | None = None,
        job_gang: ArrayLike | None = None,
        job_cancel: ArrayLike | None = None,
        job_limit: ArrayLike | None = None,
        task_start: ArrayLike | None = None,
        task_server: ArrayLike | None = None,
        server_time: ArrayLike = (),
        server_event: ArrayLike = (),
        server: ArrayLike = (),
        queues: Queues | None = None,
        limits: Limits | None = None,
        quotas: Quotas | None = None,
        origin: str = "",
        start_date: float | None = None,
        recorded_until: float | None = None,
        notes: Mapping[str, int] | None = None,
    ) -> Workload:
        """Validate the arrays and normalise them, so that equal workloads have equal arrays.

        - Equal shapes become one row, and so do equal places; unused rows are removed.
        - Adjacent sets of a job with the same shape and place become one set.

        Parameters
        ----------
        cluster, users, job_user, job_submit, set_job, set_tasks, shapes, task_duration
            See the fields.
        set_shape : (K,) array of int, optional
            The row of `shapes` of each set. By default `shapes` has a row for each set.
        places, set_place : arrays, optional
            By default tasks may run everywhere. Without `set_place`, `places` has a row for each
            set.
        weight : (N,) array, optional
            By default 1.
        job_names : (J,) array of str, optional
            By default ``job-0``, ``job-1``, ...
        job_gang, job_cancel, job_limit : (J,) arrays, optional
            By default no gangs, no cancellations, no limits.
        task_start, task_server : (T,) arrays, optional
            By default unknown. The server of a task without a start is unknown, too.
        server_time, server_event, server : (X,) arrays, optional
            By default no events.
        queues, limits, quotas, origin, start_date, recorded_until, notes
            See the fields. `read_queues`, `read_limits` and `read_quotas` make them from plain
            values.

        Raises
        ------
        ProblemError
            With the entry, for

            - wrong lengths, numbers out of range, times that run backwards, or a duplicate name;
            - a job without tasks, a task that takes nothing, or a place without a group;
            - a task that starts before its job's submission or after its cancellation;
            - an impossible server event.

        Notes
        -----
        O(J log J + K log K + T + X log X); about a second and 85 MB for a million jobs of one task,
        0.03 s and 12 MB for a million tasks in 50,000 jobs.
        """
        check_cluster(cluster)
        names = tuple(map(str, users))
        check_unlike_names(names, "users")
        n_users, n_groups = len(names), len(cluster.groups)
        submit = read_times(job_submit, None, "jobs", "submit")
        n_jobs = len(submit)
        if not n_jobs:
            raise ProblemError("there is no job", "jobs")
        user = read_indices(job_user, n_jobs, n_users, "jobs", "user")
        names_of_jobs = _read_job_names(job_names, n_jobs)
        cancel = _read_cancellations(job_cancel, submit)
        jobs_of_sets, tasks = _read_sets(set_job, set_tasks, n_jobs)
        n_sets = len(jobs_of_sets)
        shape_rows, shape_of_set = distinct_rows(
            read_amounts(shapes, cluster.resources, "shapes"),
            _read_rows_of_sets(set_shape, n_sets, shapes, "shape"),
        )
        check_devices(cluster, shape_rows, "groups[{}].capacity", "shapes[{}]")
        if places is None:
            places, set_place = np.ones((1, n_groups), dtype=bool), np.zeros(n_sets, dtype=np.int32)
        place_rows, place_of_set = distinct_rows(
            _read_places(places, n_groups), _read_rows_of_sets(set_place, n_sets, places, "place")
        )
        duration = _read_durations(task_duration, int(tasks.sum()))
        job_of_task = np.repeat(jobs_of_sets, tasks)
        start = _read_task_starts(task_start, submit[job_of_task], cancel[job_of_task])
        server_of_task = _read_task_servers(task_server, start, int(cluster.count.sum()))
        # Merge each set with the previous one if job, shape and place are the same.
        differs_from_previous = np.ones(n_sets, dtype=bool)
        differs_from_previous[1:] = (
            (np.diff(jobs_of_sets) != 0)
            | (np.diff(shape_of_set) != 0)
            | (np.diff(place_of_set) != 0)
        )
        kept_sets = np.flatnonzero(differs_from_previous)
        shape_rows, shape_of_set = used_rows(shape_rows, shape_of_set[kept_sets])
        place_rows, place_of_set = used_rows(place_rows, place_of_set[kept_sets])
        time = read_times(server_time, None, "server events", "time")
        event = read_indices(server_event, len(time), len(EVENT_NAMES), "server events", "event")
        servers = read_indices(
            server, len(time), int(cluster.count.sum()), "server events", "server"
        )
        check_server_events(servers, event, EVENT_NAMES)
        return cls(
            cluster=cluster,
            users=names,
            weight=check_weights(weight, n_users),
            job_names=names_of_jobs,
            job_user=user,
            job_submit=submit,
            job_gang=_read_gangs(job_gang, n_jobs),
            job_cancel=cancel,
            job_limit=_read_job_limits(job_limit, n_jobs),
            set_job=jobs_of_sets[kept_sets],
            set_shape=shape_of_set,
            set_place=place_of_set,
            set_tasks=np.add.reduceat(tasks, kept_sets, dtype=np.int32),
            shapes=shape_rows,
            places=place_rows,
            task_duration=duration,
            task_start=start,
            task_server=server_of_task,
            server_time=time,
            server_event=event.astype(np.int8),
            server=servers,
            queues=queues,
            limits=dict(limits or {}),
            quotas=dict(quotas or {}),
            origin=origin,
            start_date=None if start_date is None else _read_start_date(start_date),
            recorded_until=None
            if recorded_until is None
            else _read_recorded_until(recorded_until, submit[-1]),
            notes=dict(notes or {}),
        )

    @property
    def n_users(self) -> int:
        """Number of users, N."""
        return len(self.users)

    @property
    def n_jobs(self) -> int:
        """Number of jobs, J."""
        return len(self.job_submit)

    @property
    def n_sets(self) -> int:
        """Number of sets of equal tasks, K."""
        return len(self.set_job)

    @property
    def n_tasks(self) -> int:
        """Number of tasks, T."""
        return len(self.task_duration)

    @property
    def n_servers(self) -> int:
        """Number of servers in all groups, also of those that join later; S."""
        return int(self.cluster.count.sum())

    @cached_property
    def has_starts(self) -> bool:
        """Whether the log records, for any task, its start or that it never started."""
        return not bool(np.isnan(self.task_start).all())

    def __repr__(self) -> str:
        """Return the size and the times on one line; the arrays are in the fields."""
        counts = [
            f"{count:,} {noun}{'' if count == 1 else 's'}"
            for count, noun in (
                (self.n_servers, "server"),
                (self.n_users, "user"),
                (self.n_jobs, "job"),
                (self.n_tasks, "task"),
            )
        ]
        has_dates = self.date_of(0.0) is not None
        dates = f", {self.time_text(0.0)} to {self.time_text(self.span)}" if has_dates else ""
        return f"<Workload of {', '.join(counts)}, over {self.span:,.0f} s{dates}>"

    def _columns(self, what: str) -> Mapping[str, Any]:  # noqa: ARG002 (there is one table)
        return {
            "user": list(self.users),
            "weight": self.weight,
            "jobs": np.bincount(self.job_user, minlength=self.n_users),
            "tasks": np.bincount(self.job_user, self.job_tasks, self.n_users).astype(np.int64),
        }

    def date_of(self, seconds: float) -> datetime | None:
        """Return the date of a time by the clock of the log; None if the date is not known."""
        if self.start_date is None or not 0 <= self.start_date + seconds <= LATEST_DATE:
            return None
        return datetime.fromtimestamp(self.start_date + seconds, UTC)

    def time_text(self, seconds: float) -> str:
        """Format a time as a date if the trace has dates, else as seconds."""
        date = self.date_of(seconds)
        return f"{seconds:g} s" if date is None else f"{date:%Y-%m-%d %H:%M:%S}"

    @property
    def span(self) -> float:
        """Seconds from the start to the last submission or event of a server."""
        last_event = float(self.server_time[-1]) if len(self.server_time) else 0.0
        return max(float(self.job_submit[-1]), last_event)

    @cached_property
    def first_task(self) -> IntArray:
        """(K + 1,) int: first task of each set, and T at the end."""
        return _offsets(self.set_tasks)

    @cached_property
    def first_set(self) -> IntArray:
        """(J + 1,) int: first set of each job, and K at the end."""
        return np.searchsorted(self.set_job, np.arange(self.n_jobs + 1)).astype(np.int64)

    @cached_property
    def first_server(self) -> IntArray:
        """(G + 1,) int: first server of each group, and the number of servers at the end."""
        return _offsets(self.cluster.count)

    @cached_property
    def job_tasks(self) -> IntArray:
        """(J,) int: tasks of each job."""
        first: IntArray = self.first_task[self.first_set]
        return np.diff(first)

    @cached_property
    def there_at_start(self) -> BoolArray:
        """(S,) bool: whether each server is present at time 0."""
        there = np.ones(self.n_servers, dtype=bool)
        first = np.unique(self.server, return_index=True)[1]
        there[self.server[first]] = self.server_event[first] != JOIN
        return there

    @cached_property
    def fits(self) -> BoolArray:
        """(D, G) bool: whether one task of each shape fits on an empty server of each group."""
        room = self.cluster.capacity * (1 + ROUNDING)
        return np.stack([(self.shapes <= row).all(axis=1) for row in room], axis=1)


def _offsets(counts: NDArray[np.int32] | IntArray) -> IntArray:
    """Return the number of the first item of each container, and the number of all items."""
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _read_job_names(job_names: ArrayLike | None, n_jobs: int) -> NameArray:
    if job_names is None:
        return np.char.add("job-", np.arange(n_jobs).astype(f"U{len(str(n_jobs - 1))}"))
    names = np.asarray(job_names).astype(np.str_)
    if names.shape != (n_jobs,):
        raise ProblemError(f"must have shape ({n_jobs},), not {names.shape}", "job names")
    as_given = np.asarray(job_names, dtype=object)  # NumPy strings lose trailing zero characters
    check_unlike_names([str(name) for name in as_given], "jobs")
    return names


def _read_cancellations(job_cancel: ArrayLike | None, submit: FloatArray) -> FloatArray:
    cancel = read_vector(job_cancel, len(submit), "job cancel", np.inf)
    fault = "must be a time at or after its submission, not"
    fail_at(~(cancel >= submit), cancel, "jobs", "cancel", fault)
    return cancel


def _read_job_limits(job_limit: ArrayLike | None, n_jobs: int) -> FloatArray:
    limit = read_vector(job_limit, n_jobs, "job limit", np.inf)
    fail_at(~(limit > 0), limit, "jobs", "limit", "must be a positive number of seconds, not")
    return limit


def _read_gangs(job_gang: ArrayLike | None, n_jobs: int) -> BoolArray:
    if job_gang is None:
        return np.zeros(n_jobs, dtype=bool)
    gangs = np.array(job_gang)
    if gangs.shape != (n_jobs,) or gangs.dtype != np.bool_:
        raise ProblemError(f"must be booleans of shape ({n_jobs},)", "job gang")
    return gangs


def _read_sets(
    set_job: ArrayLike, set_tasks: ArrayLike, n_jobs: int
) -> tuple[IndexArray, IndexArray]:
    """Check and return the job of each set, (K,), and its number of tasks, (K,)."""
    jobs = read_indices(set_job, None, n_jobs, "sets", "job")
    fail_at(np.diff(jobs, prepend=0) < 0, jobs, "sets", "job", "runs backwards to job")
    empty = np.flatnonzero(np.bincount(jobs, minlength=n_jobs) == 0)
    if len(empty):
        raise ProblemError("has no tasks", f"jobs[{empty[0]}]")
    tasks = read_indices(set_tasks, len(jobs), 2**31 - 1, "sets", "tasks")
    fail_at(tasks < 1, tasks, "sets", "tasks", "must be a positive number, not")
    if tasks.sum(dtype=np.int64) >= 2**31:
        raise ProblemError("there are 2^31 tasks or more", "sets")
    return jobs, tasks


def _read_rows_of_sets(
    given: ArrayLike | None, n_sets: int, rows: ArrayLike, field: str
) -> IndexArray:
    """Return the given row of each set; by default the k-th set has the k-th row."""
    n_rows = len(np.asarray(rows))
    if given is not None:
        return read_indices(given, n_sets, n_rows, "sets", field)
    if n_rows != n_sets:
        raise ProblemError(f"{n_rows} rows for {n_sets} sets", f"{field}s")
    return np.arange(n_sets, dtype=np.int32)


def _read_places(places: ArrayLike, n_groups: int) -> BoolArray:
    rows = np.array(places)
    if rows.ndim != 2 or rows.shape[1] != n_groups or rows.dtype != np.bool_:
        raise ProblemError(f"must be booleans of shape (E, {n_groups})", "places")
    nowhere = np.flatnonzero(~rows.any(axis=1))
    if len(nowhere):
        raise ProblemError("allows no group", f"places[{nowhere[0]}]")
    return rows


def _read_durations(task_duration: ArrayLike, n_tasks: int) -> FloatArray:
    duration = read_vector(task_duration, n_tasks, "task duration")
    usable = (duration > 0) & np.isfinite(duration)
    fail_at(~usable, duration, "tasks", "duration", "must be a positive number of seconds, not")
    return duration


def _read_task_starts(
    task_start: ArrayLike | None, submit: FloatArray, cancel: FloatArray
) -> FloatArray:
    """Check and return the start of each task; `submit`, `cancel` are (T,) times of its job."""
    start = read_vector(task_start, len(submit), "task start", np.nan)
    early, late = start < submit, np.isfinite(start) & (start > cancel)
    fault = "must be a time at or after its job's submission, not"
    fail_at(early, start, "tasks", "start", fault)
    fault = "must be a time at or before its job's cancellation, not"
    fail_at(late, start, "tasks", "start", fault)
    return start


def _read_task_servers(
    task_server: ArrayLike | None, start: FloatArray, n_servers: int
) -> IndexArray:
    if task_server is None:
        return np.full(len(start), -1, dtype=np.int32)
    given = np.asarray(task_server)
    known = given != -1
    found = read_indices(np.where(known, given, 0), len(start), n_servers, "tasks", "server")
    return np.where(known & np.isfinite(start), found, -1).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Excerpt:
    """A workload with some sets and servers of another one, and with all of its users."""

    workload: Workload
    task: IntArray  # (T',): number in the other workload of each task, ascending
    server: IntArray  # (S',): number in the other workload of each server, ascending


def excerpt(
    workload: Workload, sets: BoolArray, servers: BoolArray, events: BoolArray | None = None
) -> Excerpt:
    """Return a workload of some sets and servers, with their jobs, groups and events.

    `sets` (K,), `servers` (S,) and `events` (X,) are True for the kept ones; without `events`, all
    events of kept servers remain. Adjacent sets of a job that differ only in removed groups become
    one. Raises ProblemError when a set may run on none of the servers. O(J + K + T + X + S).
    """
    jobs = np.zeros(workload.n_jobs, dtype=bool)
    jobs[workload.set_job[sets]] = True
    count = np.diff(np.append(0, np.cumsum(servers))[workload.first_server])
    groups = np.flatnonzero(count)
    tasks = np.repeat(sets, workload.set_tasks)
    kept_events = servers[workload.server] & (True if events is None else events)
    places, set_place = np.unique(workload.set_place[sets], return_inverse=True)
    part = Workload.from_arrays(
        workload.cluster.select(groups, count[groups]),
        workload.users,
        weight=workload.weight,
        job_names=workload.job_names[jobs],
        job_user=workload.job_user[jobs],
        job_submit=workload.job_submit[jobs],
        job_gang=workload.job_gang[jobs],
        job_cancel=workload.job_cancel[jobs],
        job_limit=workload.job_limit[jobs],
        set_job=_renumbered(workload.set_job[sets], jobs),
        set_tasks=workload.set_tasks[sets],
        set_shape=workload.set_shape[sets],
        shapes=workload.shapes,
        set_place=set_place,
        places=workload.places[places][:, groups],
        task_duration=workload.task_duration[tasks],
        task_start=workload.task_start[tasks],
        # -1 for a server that is not kept, or not recorded: index -1 is the appended last entry.
        task_server=np.append(np.where(servers, np.cumsum(servers) - 1, -1), -1)[
            workload.task_server[tasks]
        ],
        server_time=workload.server_time[kept_events],
        server_event=workload.server_event[kept_events],
        server=_renumbered(workload.server[kept_events], servers),
        queues=workload.queues,
        limits=workload.limits,
        quotas=workload.quotas,
        origin=workload.origin,
        start_date=workload.start_date,
        recorded_until=workload.recorded_until,
        notes=workload.notes,
    )
    return Excerpt(part, np.flatnonzero(tasks), np.flatnonzero(servers))


def first_seconds(workload: Workload, until: float) -> Workload:
    """Return the workload with the jobs and server events before a time, in seconds.

    The remaining tasks keep their durations. Servers that first join later are removed, except that
    a group without other servers keeps its first one. Raises InputError unless `until` is a
    positive number after the first submission.
    """
    if not 0 < until < np.inf:
        raise InputError(f"must be a positive number, not {until:g}", "until")
    jobs = workload.job_submit < until
    if not jobs.any():
        first = float(workload.job_submit[0])
        raise InputError(f"no job comes before {until:g} s; the first comes at {first:g} s")
    before = workload.server_time < until
    servers = workload.there_at_start.copy()
    servers[workload.server[before & (workload.server_event == JOIN)]] = True
    first_server = workload.first_server[:-1]
    # Groups in which no server is present before `until`: their first servers stay.
    only_servers = first_server[np.add.reduceat(servers, first_server, dtype=np.int64) == 0]
    servers[only_servers] = True
    events = before | np.isin(workload.server, only_servers)
    part = excerpt(workload, jobs[workload.set_job], servers, events).workload
    return part if jobs.all() else replace(part, recorded_until=float(until))


def _read_recorded_until(seconds: float, last_submission: float) -> float:
    if not last_submission <= number(seconds, "recorded_until") < np.inf:
        fault = f"must be seconds, at least the last submission ({last_submission:g})"
        raise ProblemError(f"{fault}, not {seconds!r:.60}", "recorded_until")
    return float(seconds)


def _read_start_date(seconds: float) -> float:
    if not 0 <= number(seconds, "start_date") <= LATEST_DATE:
        fault = f"must be seconds since 1970, from 0 to {LATEST_DATE:.0f}, not {seconds!r:.60}"
        raise ProblemError(fault, "start_date")
    return float(seconds)


def _renumbered(numbers: IndexArray, kept: BoolArray) -> IntArray:
    """Return the new numbers of entries after some entries were removed."""
    renumbered: IntArray = np.cumsum(kept)[numbers] - 1
    return renumbered

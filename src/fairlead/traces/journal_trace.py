"""Read the journal of a service as a trace.

The recorded events are applied once more, and must place the same tasks on the same servers. A
journal of an earlier version of fairlead records the starts of tasks; these are repeated instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from math import ceil, inf
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.model.cluster import Cluster
from fairlead.model.queues import Queues, read_queues
from fairlead.model.workload import JOIN, LEAVE, Workload
from fairlead.service.jobs import DONE, FAILED, Effects, Job, Running, TaskKey
from fairlead.service.service_state import DEVICES, RESOURCES, ServiceState
from fairlead.traces._stored_files import ProgressReport

UNITS = {"cpu": "cores", "memory": "GiB"}
EVENTS_PER_REPORT = 2000
SHORTEST = 2.0**-20  # seconds, the unit of a service's clock
ESTIMATED = "tasks whose duration is an estimate, as they have not ended by themselves"
NOWHERE = "jobs limited to servers that never joined, taken as free to run anywhere"
Event = tuple[int, float, str, dict[str, Any]]  # number, time, kind, content
Task = tuple[int, int]  # job and index
_Start = tuple[str, float, dict[str, float]]  # server, time and demand


@dataclass
class Recording:
    """The events of a journal, and their relation to the workload; times are seconds since 1970."""

    path: Path
    # Number of the event after which replays start, from the snapshot taken there; 0: they start
    # from the first event, without a snapshot.
    replays_after: int = 0
    # Names of policies with their seeds, in the order in which they were in force.
    policies: list[tuple[str, int]] = field(default_factory=list)
    # Time of the first event, or of the first job or start if that is earlier.
    begin: float = inf
    end: float = inf  # time of the last event
    # Server and time of each start, by the key of the attempt.
    starts: dict[TaskKey, tuple[str, float]] = field(default_factory=dict)
    # Attempts that were asked to stop, for preemption or with their gang, and then ran again.
    stopped: set[TaskKey] = field(default_factory=set)
    # Seconds and exit status of each task that ended by itself.
    completed_runs: dict[Task, tuple[float, int]] = field(default_factory=dict)
    numbers: dict[Task, int] = field(default_factory=dict)  # number of each task in the workload
    # For each name of a server: pairs of a time, and the number in the workload from then on.
    servers: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    # Tasks that ended before the first event, though their jobs had not ended by then.
    ended_before: set[Task] = field(default_factory=set)
    # For each job that its user modified: its final requests, with the largest demand of its tasks.
    final_requests: dict[int, dict[str, Any]] = field(default_factory=dict)
    durations: list[float] = field(default_factory=list)  # seconds of each task of the workload

    def server(self, name: str, time: float) -> int:
        """Return the number, in the workload, that a server of this name has at a time."""
        return max(number for from_time, number in self.servers[name] if from_time <= time)

    def first_state(self) -> ServiceState | None:
        """Return the state from which replays start.

        None if they start from the first event, or the snapshot is damaged.
        """
        from fairlead.service.journal.event_journal import reading

        with reading(self.path) as journal:
            if not self.replays_after:
                return None
            found = journal.snapshots.first_readable([self.replays_after])
        return None if found is None else found[1]

    def events(self) -> Iterator[Event]:
        """Yield the events of replays, in order."""
        from fairlead.service.journal.event_journal import reading

        with reading(self.path) as journal:
            for event in journal.events(self.replays_after):
                if event[1] > self.end:
                    return  # a running service wrote it after the journal was read
                yield event


@dataclass(frozen=True, eq=False, repr=False)
class JournalWorkload(Workload):
    """A workload, with the recording of the journal from which it was read."""

    recording: Recording = field(kw_only=True)

    def as_trace(self) -> Workload:
        """Return the workload without the recording."""
        return Workload(**{f.name: getattr(self, f.name) for f in fields(Workload)})


@dataclass
class _ServerSpan:
    """A time span in which a server kept its capacity and labels: one server of the workload."""

    name: str
    capacity: dict[str, float]
    labels: dict[str, str]
    joins: float  # seconds since 1970
    leaves: float | None = None  # the same; None for a server that is still there


def read_journal(path: Path, *, on_progress: ProgressReport | None = None) -> Workload:
    """Read a journal of ``fairlead serve``, which may be running; about 60 us an event.

    Returns a `JournalWorkload`, or a plain `Workload` if an earlier version wrote the journal.

    - A task that never ended by itself gets an estimated duration: the median of its job's other
      tasks, else of its user's tasks, else of all; but at least its observed run time.
    - A job that waited for others counts from its submission. Weights are the final ones.
    - Each server is a group of its own, and a new group when its amounts or labels change.
    - The arrays do not show that servers stopped responding or drained, or that jobs were held; a
      replay of the `recording` does.
    - Amounts are cores, GiB and GPU devices; times are from `Recording.begin`.
    - If older events were deleted (``serve --keep``), the trace begins with the jobs that waited or
      ran at the snapshot from which replays start.

    Raises InputError for a journal without a job or a server.
    """
    from fairlead.service.journal.earlier_journal import repeat_starts
    from fairlead.service.journal.event_journal import reading, repeat_event

    recording = Recording(path)
    history = _History(recording)
    with reading(path) as journal:
        total = journal.seq
        recorded_starts = journal.recorded_starts() if journal.is_earlier else None
        recording.replays_after, last_time, state = journal.replay_start()
    if state is not None:
        history.note_first_state(state, last_time)
    for seq, now, kind, body in recording.events():
        if on_progress is not None and seq % EVENTS_PER_REPORT == 0:
            on_progress(seq, total)
        recording.begin = min(recording.begin, now)
        if state is None:
            state = ServiceState(body.get("policy", "drf/best-fit"))
            if kind != "policy":
                recording.policies.append((state.scheduler.policy.name, state.scheduler.seed))
        outcome: Any = None
        if recorded_starts is not None and kind == "place":
            repeat_starts(state, recorded_starts.get(now, {}), now, path, seq)
        else:
            outcome = repeat_event(state, kind, body, now, path, seq)
        history.note_event(state, kind, body, outcome, now)
        last_time = now
    if state is None or not history.jobs:
        raise InputError("holds no job yet", "", str(path))
    recording.end = last_time
    history.note_running(state)
    try:
        workload = _make_workload(history, state)
        return workload if recorded_starts is None else workload.as_trace()
    except ProblemError as error:
        raise InputError(error.fault, error.place, str(path)) from None


@dataclass
class _History:
    """Collects jobs, runs and servers from the events of a journal, in order of time."""

    recording: Recording
    jobs: dict[int, Job] = field(default_factory=dict)
    starts: dict[Task, _Start] = field(default_factory=dict)  # last start of each task
    # Seconds of the longest run of each task that did not end by itself.
    cut_runs: dict[Task, float] = field(default_factory=dict)
    withdrawn: dict[int, float] = field(default_factory=dict)  # time of cancellation, by job
    modified: set[int] = field(default_factory=set)  # jobs that their users modified
    spans: list[_ServerSpan] = field(default_factory=list)
    present: dict[str, _ServerSpan] = field(default_factory=dict)  # by name of a server
    stopping: set[TaskKey] = field(default_factory=set)  # attempts that were asked to stop
    leaving: set[str] = field(default_factory=set)  # lost servers that the state still has

    def note_first_state(self, state: ServiceState, time: float) -> None:
        """Note the state at the time from which events are kept; set `Recording.begin`."""
        recording = self.recording
        recording.policies.append((state.scheduler.policy.name, state.scheduler.seed))
        self.jobs |= state.jobs
        begin = time
        for job in self.jobs.values():
            ended = (n for n, status in enumerate(job.status) if status in (DONE, FAILED))
            recording.ended_before |= {(job.id, index) for index in ended}
            for run in job.running.values():
                if not run.awaits:  # a task that waits for its victims has not started
                    self._note_start(run)
                    begin = min(begin, run.since)
            begin = min(begin, job.submitted)
        recording.begin = begin
        for name, server in state.servers.items():
            self.note_server(state, name, begin)
            if server.running and name not in self.present:
                # Its capacity became 0; it had at least what its tasks take, in whole devices.
                demands = [run.demand for run in server.running.values()]
                used = {r: float(ceil(sum(d.get(r, 0.0) for d in demands))) for r in RESOURCES}
                self.spans.append(_ServerSpan(name, used, server.labels, begin, time))
            if server.lost:
                self.leaving.add(name)

    def note_event(
        self, state: ServiceState, kind: str, body: dict[str, Any], outcome: Any, now: float
    ) -> None:
        """Note an event that the state has applied; `outcome` of a submission is its jobs."""
        if kind == "policy":
            policy = state.scheduler.policy.name, state.scheduler.seed
            self.recording.policies.append(policy)
        elif kind == "submit":
            self.jobs |= {job: state.jobs[job] for job in outcome}
        self.note_effects(state.take_effects(), now)
        if kind == "cancel":
            self.withdrawn.setdefault(body["job"], now)
        elif kind == "modify":
            self.modified.add(body["job"])
        elif kind == "server":
            self.note_server(state, body["name"], now)
        elif kind == "lost":
            self.leaving.add(body["name"])
        self.note_departures(state, now)

    def note_effects(self, effects: Effects, now: float) -> None:
        """Note the starts and ends of tasks, and the cancelled jobs, of one event."""
        for run in effects.starts:
            self._note_start(run)
        self.stopping |= {run.key for run in effects.stops}
        for past in effects.attempts:
            if past.key not in self.recording.starts:
                continue  # it was stopped before its victims had ended, so it never ran
            task, seconds = past.key[:2], past.ended - past.started
            if past.status is None and past.key in self.stopping:
                self.recording.stopped.add(past.key)
            if past.status is None or self.jobs[past.key.job].cancelled:
                self._note_cut_run(task, seconds)
            else:
                self.recording.completed_runs[task] = seconds, past.status
        for job in effects.ended:
            if job.cancelled:
                self.withdrawn.setdefault(job.id, now)

    def note_server(self, state: ServiceState, name: str, now: float) -> None:
        """End the span of a server that changed or left, and begin another if it is there."""
        server, span = state.servers.get(name), self.present.get(name)
        if span is not None:
            unchanged = server is not None and (
                (span.capacity, span.labels) == (server.capacity, server.labels)
            )
            if unchanged:
                return
            span.leaves = now
            del self.present[name]
        # Nothing can run on a server without capacity.
        if server is not None and any(server.capacity.values()):
            self.present[name] = _ServerSpan(name, server.capacity, server.labels, now)
            self.spans.append(self.present[name])

    def note_departures(self, state: ServiceState, now: float) -> None:
        """End the spans of lost servers that the state has removed."""
        for name in self.leaving - state.servers.keys():
            self.note_server(state, name, now)
            self.leaving.discard(name)

    def note_running(self, state: ServiceState) -> None:
        """Note the runs that are unfinished at the end of the recording."""
        for job in state.jobs.values():
            for run in job.running.values():
                if not run.awaits:
                    self._note_cut_run(run.key[:2], self.recording.end - run.since)

    def _note_start(self, run: Running) -> None:
        self.recording.starts[run.key] = run.server, run.since
        self.starts[run.key[:2]] = run.server, run.since, run.demand

    def _note_cut_run(self, task: Task, seconds: float) -> None:
        self.cut_runs[task] = max(self.cut_runs.get(task, 0.0), seconds)


@dataclass
class _TaskTable:
    """Sets of tasks and their tasks, as arguments of `Workload.from_arrays`."""

    set_job: list[int] = field(default_factory=list)
    set_tasks: list[int] = field(default_factory=list)
    shapes: list[tuple[float, ...]] = field(default_factory=list)
    places: list[list[bool]] = field(default_factory=list)
    task_start: list[float] = field(default_factory=list)
    task_server: list[int] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)


def _list_tasks(history: _History, resources: tuple[str, ...]) -> _TaskTable:
    """List the tasks of all jobs; tasks of a job with equal demands are a set.

    Adds to the recording the durations and numbers of tasks, and the requests of modified jobs.
    """
    recording, table = history.recording, _TaskTable()
    medians = _median_durations(recording, history.jobs)
    for number, job in enumerate(history.jobs.values()):
        place = _allowed_servers(job, history.spans)
        if not any(place):
            table.notes[NOWHERE] += 1
            place = [True] * len(history.spans)
        # 1 s if no task of the journal has ended yet.
        estimate = next(
            (medians[owner] for owner in (job.id, job.user, None) if owner in medians), 1.0
        )
        by_demand: dict[tuple[float, ...], list[int]] = {}
        for index in range(job.tasks):
            task = job.id, index
            if task in recording.ended_before:
                continue
            demand = history.starts[task][2] if task in history.starts else job.demand_of(index)
            by_demand.setdefault(tuple(demand.get(r, 0.0) for r in resources), []).append(index)
        if job.id in history.modified:
            recording.final_requests[job.id] = {
                # Without 0 of a resource that the service may not know when the job is submitted.
                "demand": {
                    r: largest
                    for k, r in enumerate(resources)
                    if (largest := max(d[k] for d in by_demand)) or r in RESOURCES
                },
                "where": job.where,
                "priority": job.priority,
                "time_limit": job.time_limit,
            }
        for amounts, indices in by_demand.items():
            table.set_job.append(number)
            table.set_tasks.append(len(indices))
            table.shapes.append(amounts)
            table.places.append(place)
            for index in indices:
                task = job.id, index
                recording.numbers[task] = len(recording.numbers)
                known = recording.completed_runs.get(task)
                table.notes[ESTIMATED] += known is None
                seconds = known[0] if known else max(estimate, history.cut_runs.get(task, 0.0))
                recording.durations.append(max(seconds, SHORTEST))
                server, start, _ = history.starts.get(task, ("", inf, {}))
                table.task_start.append(start - recording.begin)
                table.task_server.append(recording.server(server, start) if server else -1)
    return table


def _make_workload(history: _History, state: ServiceState) -> JournalWorkload:
    """Return the workload of a journal, and complete its recording."""
    recording, jobs, spans = history.recording, history.jobs, history.spans
    if not spans:
        raise InputError("no server has joined yet", "", str(recording.path))
    resources = tuple(state.resources)
    users = {name: number for number, name in enumerate(state.users)}
    for number, span in enumerate(spans):
        recording.servers.setdefault(span.name, []).append((span.joins, number))
    table = _list_tasks(history, resources)
    events = [(s.joins, JOIN, n) for n, s in enumerate(spans)]
    events += [(s.leaves, LEAVE, n) for n, s in enumerate(spans) if s.leaves is not None]
    events.sort(key=lambda event: event[0])
    plain = Workload.from_arrays(
        _cluster_of_spans(spans, resources),
        list(users),
        weight=[user.weight for user in state.users.values()],
        job_names=[str(job) for job in jobs],
        job_user=[users[job.user] for job in jobs.values()],
        job_submit=[job.submitted - recording.begin for job in jobs.values()],
        job_gang=np.array([job.gang for job in jobs.values()], dtype=bool),
        job_cancel=[history.withdrawn.get(job, inf) - recording.begin for job in jobs],
        job_limit=[job.time_limit or inf for job in jobs.values()],
        set_job=table.set_job,
        set_tasks=table.set_tasks,
        shapes=np.array(table.shapes),
        places=np.array(table.places),
        set_place=np.arange(len(table.places)),
        task_duration=recording.durations,
        task_start=table.task_start,
        task_server=table.task_server,
        server_time=[time - recording.begin for time, _, _ in events],
        server_event=[event for _, event, _ in events],
        server=[number for _, _, number in events],
        queues=_make_queues(state, list(users)),
        limits=state.limits,
        quotas=state.quotas,
        origin=f"journal {recording.path.name}",
        start_date=recording.begin,
        notes={what: n for what in (ESTIMATED, NOWHERE) if (n := table.notes[what])},
    )
    values = {f.name: getattr(plain, f.name) for f in fields(Workload)}
    return JournalWorkload(**values, recording=recording)


def _cluster_of_spans(spans: list[_ServerSpan], resources: tuple[str, ...]) -> Cluster:
    """Return a cluster with a group for each span; a repeated name gets a number."""
    names = [span.name for span in spans]
    return Cluster(
        groups=tuple(
            f"{n} ({names[:i].count(n) + 1})" if n in names[:i] else n for i, n in enumerate(names)
        ),
        resources=resources,
        capacity=np.array([[s.capacity.get(r, 0.0) for r in resources] for s in spans]),
        count=np.ones(len(spans), dtype=np.int64),
        units=tuple(UNITS.get(name, "") for name in resources),
        labels=tuple(span.labels for span in spans),
        devices=tuple(name for name in DEVICES if name in resources),
    )


def _make_queues(state: ServiceState, users: list[str]) -> Queues | None:
    if not state.queue_rows:
        return None
    return read_queues(state.queue_rows, [state.queue_of.get(user) for user in users], users)


def _median_durations(recording: Recording, jobs: dict[int, Job]) -> dict[Any, float]:
    """Return the median duration of ended tasks, by job and by user; that of all has key None."""
    durations: dict[Any, list[float]] = {}
    for (job, _), (seconds, _) in recording.completed_runs.items():
        for owner in (job, jobs[job].user, None):
            durations.setdefault(owner, []).append(seconds)
    return {owner: median(seconds) for owner, seconds in durations.items()}


def _allowed_servers(job: Job, spans: list[_ServerSpan]) -> list[bool]:
    """Return whether a job's placement constraint allows each server."""
    if job.where is None:
        return [True] * len(spans)
    if isinstance(job.where, dict):
        wanted = job.where.items()
        return [wanted <= span.labels.items() for span in spans]
    return [span.name in job.where for span in spans]

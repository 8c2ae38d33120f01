"""The journal of a service as a trace.

Its events are applied once more, and must place the same tasks. In a journal of an earlier version
of fairlead, tasks start where they were recorded to start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.model.cluster import Cluster
from fairlead.model.queues import Queues, read_queues
from fairlead.model.workload import JOIN, LEAVE, Workload
from fairlead.service.jobs import DONE, FAILED, Effects, Job, TaskKey
from fairlead.service.service_state import DEVICES, RESOURCES, ServiceState
from fairlead.traces._stored_files import ProgressReport

UNITS = {"cpu": "cores", "memory": "GiB"}
EVENTS_PER_REPORT = 2000
SHORTEST = 2.0**-20  # seconds, the unit of a service's clock
ESTIMATED = "tasks whose duration is an estimate, as they have not ended by themselves"
NOWHERE = "jobs kept to servers that never joined, taken as free to run anywhere"
Event = tuple[int, float, str, dict[str, Any]]
Task = tuple[int, int]  # job and index
_Run = tuple[str, float, dict[str, float]]  # server, time and demand of the last start of a task


@dataclass
class Recording:
    """The events of a journal, and their relation to the workload; times are seconds since 1970."""

    path: Path
    # The event before the first one: 0, or that of the snapshot after which events are kept.
    since: int = 0
    policies: list[tuple[str, int]] = field(default_factory=list)  # with seeds, in order
    # Times of the first and of the last event; `begin` is no later than any task.
    begin: float = inf
    end: float = inf
    starts: dict[TaskKey, tuple[str, float]] = field(default_factory=dict)  # server and time
    # Seconds and exit status of each task that ended by itself.
    lasted: dict[Task, tuple[float, int]] = field(default_factory=dict)
    numbers: dict[Task, int] = field(default_factory=dict)  # of tasks in the workload
    # By name of a server: its numbers in the workload, each with the time of its start.
    servers: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    # Tasks that ended before the first event, of jobs that went on.
    ended_before: set[Task] = field(default_factory=set)
    # The final requests of each job that its user modified, with the largest demand of its tasks.
    settled: dict[int, dict[str, Any]] = field(default_factory=dict)
    durations: list[float] = field(default_factory=list)  # seconds of each task of the workload

    def server(self, name: str, time: float) -> int:
        """Return the number of the server with a name at a time."""
        return max(number for since, number in self.servers[name] if since <= time)

    def first_state(self) -> ServiceState | None:
        """Return the state before the first event, where older ones are deleted."""
        from fairlead.service.journal.event_journal import reading

        with reading(self.path) as journal:
            found = journal.snapshots.first_readable([self.since]) if self.since else None
        return None if found is None else found[1]

    def events(self) -> Iterator[Event]:
        """Yield the kept events up to the last one, in order."""
        from fairlead.service.journal.event_journal import reading

        with reading(self.path) as journal:
            for event in journal.events(self.since):
                if event[1] > self.end:
                    return  # a running service has just written it
                yield event


@dataclass(frozen=True, eq=False, repr=False)
class JournalWorkload(Workload):
    """A workload with the journal that it was read from."""

    recording: Recording = field(kw_only=True)

    def as_trace(self) -> Workload:
        """Return the arrays alone."""
        return Workload(**{f.name: getattr(self, f.name) for f in fields(Workload)})


@dataclass
class _ServerSpan:
    """The time of a server with unchanged amounts and labels."""

    name: str
    capacity: dict[str, float]
    labels: dict[str, str]
    joins: float
    leaves: float | None = None


def read_journal(path: Path, *, on_progress: ProgressReport | None = None) -> Workload:
    """Read a journal of ``fairlead serve``, which may be running; about 60 us an event.

    The duration of a task that never ended by itself is an estimate: the median of its job's other
    tasks, else of its user's, else of all, and at least its observed run time. A job that waited
    for others counts from its submission. Weights are the final ones. Silent, draining and held
    servers or jobs are not in the arrays; a replay of the `recording` has them. Where older events
    are deleted (``serve --keep``), the trace begins with the jobs waiting and running then.

    Returns a `JournalWorkload`, unless an earlier version wrote the journal. Each server is a group
    of its own, and a new one when its amounts or labels change; cpu in cores, memory in GiB, gpu in
    devices; times from the first event.
    """
    from fairlead.service.journal.earlier_journal import repeat_starts
    from fairlead.service.journal.event_journal import reading, repeat_event

    recording = Recording(path)
    spans: list[_ServerSpan] = []
    present: dict[str, _ServerSpan] = {}
    jobs: dict[int, Job] = {}
    runs: dict[Task, _Run] = {}
    observed: dict[Task, float] = {}  # longest run of a task that never ended by itself
    withdrawn: dict[int, float] = {}
    leaving: set[str] = set()
    with reading(path) as journal:
        total = journal.seq
        starts = journal.recorded_starts() if journal.is_earlier else None
        recording.since, end, state = journal.replay_start()
    if state is not None:
        recording.begin = _note_first_state(recording, state, end, jobs, runs)
        for name, server in state.servers.items():
            _note_server(state, name, spans, present, recording.begin)
            if server.lost:
                leaving.add(name)
    for seq, now, kind, body in recording.events():
        if on_progress is not None and seq % EVENTS_PER_REPORT == 0:
            on_progress(seq, total)
        recording.begin = min(recording.begin, now)
        if state is None:
            state = ServiceState(body.get("policy", "drf/best-fit"))
            if kind != "policy":
                recording.policies.append((state.scheduler.policy.name, state.scheduler.seed))
        if starts is not None and kind == "place":
            repeat_starts(state, starts.get(now, {}), now, path, seq)
        else:
            outcome = repeat_event(state, kind, body, now, path, seq)
        if kind == "policy":
            recording.policies.append((state.scheduler.policy.name, state.scheduler.seed))
        if kind == "submit":
            jobs |= {job: state.jobs[job] for job in outcome}
        effects = state.take_effects()
        for run in effects.starts:
            recording.starts[run.key] = run.server, run.since
            runs[run.key[:2]] = run.server, run.since, run.demand
        _note_ends(effects, jobs, withdrawn, recording, observed, now)
        if kind == "cancel":
            withdrawn.setdefault(body["job"], now)
        elif kind == "modify":
            recording.settled[body["job"]] = {}
        if kind == "server":
            _note_server(state, body["name"], spans, present, now)
        elif kind == "lost":
            leaving.add(body["name"])
        for name in leaving - state.servers.keys():
            _note_server(state, name, spans, present, now)
            leaving.discard(name)
        end = now
    if state is None or not jobs:
        raise InputError("holds no job yet", "", str(path))
    recording.end = end
    for job in state.jobs.values():
        for run in job.running.values():
            observed[run.key[:2]] = max(observed.get(run.key[:2], 0.0), recording.end - run.since)
    try:
        workload = _workload(recording, state, jobs, spans, runs, observed, withdrawn)
        return workload if starts is None else workload.as_trace()
    except ProblemError as fault:
        raise InputError(fault.fault, fault.place, str(path)) from None


def _note_first_state(
    recording: Recording,
    state: ServiceState,
    begin: float,
    jobs: dict[int, Job],
    runs: dict[Task, _Run],
) -> float:
    """Note the jobs from before the first event; return the time of the first of them."""
    recording.policies.append((state.scheduler.policy.name, state.scheduler.seed))
    jobs |= state.jobs
    for job in jobs.values():
        ended = (n for n, what in enumerate(job.status) if what in (DONE, FAILED))
        recording.ended_before |= {(job.id, index) for index in ended}
        for run in job.running.values():
            recording.starts[run.key] = run.server, run.since
            runs[run.key[:2]] = run.server, run.since, run.demand
            begin = min(begin, run.since)
        begin = min(begin, job.submitted)
    return begin


def _note_ends(
    effects: Effects,
    jobs: dict[int, Job],
    withdrawn: dict[int, float],
    recording: Recording,
    observed: dict[Task, float],
    now: float,
) -> None:
    for past in effects.attempts:
        task, lasted = past.key[:2], past.ended - past.started
        if past.status is None or jobs[past.key.job].cancelled:
            observed[task] = max(observed.get(task, 0.0), lasted)
        else:
            recording.lasted[task] = lasted, past.status
    for job in effects.ended:
        if job.cancelled:
            withdrawn.setdefault(job.id, now)


def _note_server(
    state: ServiceState,
    name: str,
    spans: list[_ServerSpan],
    present: dict[str, _ServerSpan],
    now: float,
) -> None:
    server, span = state.servers.get(name), present.get(name)
    if span is not None:
        if server is not None and (span.capacity, span.labels) == (server.capacity, server.labels):
            return
        span.leaves = now
        del present[name]
    if server is not None and any(server.capacity.values()):  # else nothing ever runs there
        present[name] = _ServerSpan(name, server.capacity, server.labels, now)
        spans.append(present[name])


def _workload(
    recording: Recording,
    state: ServiceState,
    jobs: dict[int, Job],
    spans: list[_ServerSpan],
    runs: dict[Task, _Run],
    observed: dict[Task, float],
    withdrawn: dict[int, float],
) -> JournalWorkload:
    if not spans:
        raise InputError("no server has joined yet", "", str(recording.path))
    resources = tuple(state.resources)
    users = {name: number for number, name in enumerate(state.users)}
    for number, span in enumerate(spans):
        recording.servers.setdefault(span.name, []).append((span.joins, number))
    medians = _median_durations(recording, jobs)
    set_job, set_tasks, shapes, places = [], [], [], []
    start, server, unknown, nowhere = [], [], 0, 0
    for number, job in enumerate(jobs.values()):
        place = _place(job, spans)
        if not any(place):
            nowhere += 1
            place = [True] * len(spans)
        # 1 s where no task has ended yet.
        estimate = next((medians[o] for o in (job.id, job.user, None) if o in medians), 1.0)
        by_demand: dict[tuple[float, ...], list[int]] = {}
        for index in range(job.tasks):
            if (job.id, index) in recording.ended_before:
                continue
            demand = runs[job.id, index][2] if (job.id, index) in runs else job.demand_of(index)
            by_demand.setdefault(tuple(demand.get(r, 0.0) for r in resources), []).append(index)
        if job.id in recording.settled:
            recording.settled[job.id] = {
                # A resource that a later server introduces is not known yet.
                "demand": {
                    r: most
                    for k, r in enumerate(resources)
                    if (most := max(d[k] for d in by_demand)) or r in RESOURCES
                },
                "where": job.where,
                "priority": job.priority,
                "time_limit": job.time_limit,
            }
        for amounts, indices in by_demand.items():
            set_job.append(number)
            set_tasks.append(len(indices))
            shapes.append(amounts)
            places.append(place)
            for index in indices:
                task = job.id, index
                recording.numbers[task] = len(recording.numbers)
                known = recording.lasted.get(task)
                unknown += known is None
                lasts = known[0] if known else max(estimate, observed.get(task, 0.0))
                recording.durations.append(max(lasts, SHORTEST))
                where, since, _ = runs.get(task, ("", inf, {}))
                start.append(since - recording.begin)
                server.append(recording.server(where, since) if where else -1)
    times = [(s.joins, JOIN, n) for n, s in enumerate(spans)]
    times += [(s.leaves, LEAVE, n) for n, s in enumerate(spans) if s.leaves is not None]
    times.sort(key=lambda at: at[0])
    names = [span.name for span in spans]
    notes = {ESTIMATED: unknown, NOWHERE: nowhere}
    plain = Workload.from_arrays(
        Cluster(
            groups=tuple(
                f"{n} ({names[:i].count(n) + 1})" if n in names[:i] else n
                for i, n in enumerate(names)
            ),
            resources=resources,
            capacity=np.array([[s.capacity.get(r, 0.0) for r in resources] for s in spans]),
            count=np.ones(len(spans), dtype=np.int64),
            units=tuple(UNITS.get(name, "") for name in resources),
            labels=tuple(span.labels for span in spans),
            devices=tuple(name for name in DEVICES if name in resources),
        ),
        list(users),
        weight=list(state.users.values()),
        job_names=[str(job) for job in jobs],
        job_user=[users[job.user] for job in jobs.values()],
        job_submit=[job.submitted - recording.begin for job in jobs.values()],
        job_gang=np.array([job.gang for job in jobs.values()], dtype=bool),
        job_cancel=[withdrawn.get(job, inf) - recording.begin for job in jobs],
        job_limit=[job.time_limit or inf for job in jobs.values()],
        set_job=set_job,
        set_tasks=set_tasks,
        shapes=np.array(shapes),
        places=np.array(places),
        set_place=np.arange(len(places)),
        task_duration=recording.durations,
        task_start=start,
        task_server=server,
        server_time=[time - recording.begin for time, _, _ in times],
        server_event=[event for _, event, _ in times],
        server=[number for _, _, number in times],
        queues=_queues(state, list(users)),
        limits=state.limits,
        quotas=state.quotas,
        origin=f"journal {recording.path.name}",
        start_date=recording.begin,
        notes={what: n for what, n in notes.items() if n},
    )
    values = {f.name: getattr(plain, f.name) for f in fields(Workload)}
    return JournalWorkload(**values, recording=recording)


def _queues(state: ServiceState, users: list[str]) -> Queues | None:
    if not state.queue_rows:
        return None
    return read_queues(state.queue_rows, [state.queue_of.get(user) for user in users], users)


def _median_durations(recording: Recording, jobs: dict[int, Job]) -> dict[Any, float]:
    """Return medians of observed durations by job, by user, and of all (None)."""
    durations: dict[Any, list[float]] = {}
    for (job, _), (seconds, _) in recording.lasted.items():
        for owner in (job, jobs[job].user, None):
            durations.setdefault(owner, []).append(seconds)
    return {owner: median(seconds) for owner, seconds in durations.items()}


def _place(job: Job, spans: list[_ServerSpan]) -> list[bool]:
    if job.where is None:
        return [True] * len(spans)
    if isinstance(job.where, dict):
        wanted = job.where.items()
        return [wanted <= span.labels.items() for span in spans]
    return [span.name in job.where for span in spans]

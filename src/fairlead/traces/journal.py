"""A service's journal as a trace: what came when, where it ran, and for how long.

All of its events are carried out once more, and have to place what they placed. In a journal of an
earlier version of fairlead, tasks start where they were recorded to start.
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
from fairlead.model.workload import JOIN, LEAVE, Workload
from fairlead.service.jobs import DONE, FAILED, Effects, Job, TaskKey
from fairlead.service.service_state import RESOURCES, ServiceState
from fairlead.traces.lines import ProgressReport

UNITS = {"cpu": "cores", "memory": "GiB"}
SHOWN_EVERY = 2000  # events
SHORTEST = 2.0**-20  # seconds, as a service counts them
ESTIMATED = "tasks whose duration is an estimate, as they have not ended by themselves"
NOWHERE = "jobs kept to servers that never joined, taken as free to run anywhere"
Event = tuple[int, float, str, dict[str, Any]]
Task = tuple[int, int]  # job and index


@dataclass
class Recording:
    """What a journal tells; moments are seconds since 1970."""

    path: Path
    # The event before the first one: 0, or that of the snapshot behind which events are kept.
    since: int = 0
    # Those that were in force with their seeds, one after the other.
    policies: list[tuple[str, int]] = field(default_factory=list)
    # The moments of the first and of the last event; the first is no later than a task of it.
    begin: float = inf
    end: float = inf
    # On which server each attempt started, and when.
    starts: dict[TaskKey, tuple[str, float]] = field(default_factory=dict)
    # Seconds and exit status of each task that ended by itself.
    lasted: dict[Task, tuple[float, int]] = field(default_factory=dict)
    # The number of each task in the workload.
    numbers: dict[Task, int] = field(default_factory=dict)
    # Since when which number of the workload is the server of a name.
    servers: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    # Tasks that ended before the first event, of jobs that went on.
    ended_before: set[Task] = field(default_factory=set)
    # What each job that its user modified asks for in the end; the largest demand of its tasks.
    settled: dict[int, dict[str, Any]] = field(default_factory=dict)
    durations: list[float] = field(default_factory=list)  # seconds of each task of the workload

    def server(self, name: str, moment: float) -> int:
        """Return the number of the server that has a name at a moment."""
        return max(number for since, number in self.servers[name] if since <= moment)

    def first_state(self) -> ServiceState | None:
        """Return the state before the first event, where older ones are deleted."""
        from fairlead.service.journal.event_journal import reading

        with reading(self.path) as journal:
            found = journal.snapshots.first_readable([self.since]) if self.since else None
        return None if found is None else found[1]

    def events(self) -> Iterator[Event]:
        """Yield all that was kept up to the last event, in order."""
        from fairlead.service.journal.event_journal import reading

        with reading(self.path) as journal:
            for event in journal.events(self.since):
                if event[1] > self.end:
                    return  # a service writes it just now
                yield event


@dataclass(frozen=True, eq=False)
class JournalWorkload(Workload):
    """A workload with the journal that it was read from."""

    recording: Recording = field(kw_only=True)

    def as_trace(self) -> Workload:
        """Return the arrays alone."""
        return Workload(**{f.name: getattr(self, f.name) for f in fields(Workload)})


@dataclass
class _ServerSpan:
    """A server as long as it is there and stays as it is."""

    name: str
    capacity: dict[str, float]
    labels: dict[str, str]
    joins: float
    leaves: float | None = None


def read_journal(path: Path, *, on_progress: ProgressReport | None = None) -> Workload:
    """Read a journal of ``fairlead serve``, which may be running.

    A task that never ended by itself is taken to last as long as the median of its job's others,
    else of its user's, else of all, and no less than it was seen to run. A job that waited for
    others counts from its submission. Weights are those of the end. Silence, draining and holding
    are not in the arrays; a replay of the `recording` has them. Where older events are deleted
    (``serve --keep``), it begins with what waited and ran then.

    Parameters
    ----------
    path : Path
    on_progress : callable, optional
        Called now and then with the events read, and their number.

    Returns
    -------
    Workload
        A `JournalWorkload`, unless an earlier version wrote the journal. Each server a group of
        its own, another one where its amounts or labels change; cpu in cores, memory in GiB, gpu
        in devices; times from the first event.

    Raises
    ------
    InputError
        When it cannot be read, places other tasks than it did, or holds no job.

    Notes
    -----
    About 60 us an event on one core.
    """
    from fairlead.service.journal.earlier_journal import repeat_starts
    from fairlead.service.journal.event_journal import reading
    from fairlead.service.journal.repeated_events import repeat_event

    recording = Recording(path)
    machines: list[_ServerSpan] = []
    jobs: dict[int, Job] = {}
    runs: dict[Task, tuple[str, float, dict[str, float]]] = {}  # the last start of each
    seen: dict[Task, float] = {}  # the longest that it ran without an end of its own
    withdrawn: dict[int, float] = {}
    there: dict[str, _ServerSpan] = {}
    leaving: set[str] = set()
    with reading(path) as journal:
        total = journal.seq
        starts = journal.recorded_starts() if journal.is_earlier else None
        recording.since, moment, state = journal.beginning()
    if state is not None:
        recording_end = moment
        recording.begin = _note_first_state(recording, state, moment, jobs, runs)
        for name, machine in state.servers.items():
            _note_server(state, name, machines, there, recording.begin)
            if machine.lost:
                leaving.add(name)
    for seq, now, kind, body in recording.events():
        if on_progress is not None and seq % SHOWN_EVERY == 0:
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
        _note_ends(effects, jobs, withdrawn, recording, seen, now)
        if kind == "cancel":
            withdrawn.setdefault(body["job"], now)
        elif kind == "modify":
            recording.settled[body["job"]] = {}
        if kind == "server":
            _note_server(state, body["name"], machines, there, now)
        elif kind == "lost":
            leaving.add(body["name"])
        for name in leaving - state.servers.keys():
            _note_server(state, name, machines, there, now)
            leaving.discard(name)
        recording_end = now
    if state is None or not jobs:
        raise InputError("holds no job yet", "", str(path))
    recording.end = recording_end
    for job in state.jobs.values():
        for run in job.running.values():
            seen[run.key[:2]] = max(seen.get(run.key[:2], 0.0), recording.end - run.since)
    try:
        workload = _workload(recording, state, jobs, machines, runs, seen, withdrawn)
        return workload if starts is None else workload.as_trace()
    except ProblemError as fault:
        raise InputError(fault.fault, fault.place, str(path)) from None


def _note_first_state(
    recording: Recording,
    state: ServiceState,
    moment: float,
    jobs: dict[int, Job],
    runs: dict[Task, tuple[str, float, dict[str, float]]],
) -> float:
    """Note what waited and ran before the first event, at a moment; return when it began."""
    recording.policies.append((state.scheduler.policy.name, state.scheduler.seed))
    jobs |= state.jobs
    for job in jobs.values():
        ended = (n for n, what in enumerate(job.status) if what in (DONE, FAILED))
        recording.ended_before |= {(job.id, index) for index in ended}
        for run in job.running.values():
            recording.starts[run.key] = run.server, run.since
            runs[run.key[:2]] = run.server, run.since, run.demand
            moment = min(moment, run.since)
        moment = min(moment, job.submitted)
    return moment


def _note_ends(
    effects: Effects,
    jobs: dict[int, Job],
    withdrawn: dict[int, float],
    recording: Recording,
    seen: dict[Task, float],
    now: float,
) -> None:
    for past in effects.past:
        task, lasted = past.key[:2], past.ended - past.started
        if past.status is None or jobs[past.key.job].cancelled:
            seen[task] = max(seen.get(task, 0.0), lasted)
        else:
            recording.lasted[task] = lasted, past.status
    for job in effects.ended:
        if job.cancelled:
            withdrawn.setdefault(job.id, now)


def _note_server(
    state: ServiceState,
    name: str,
    machines: list[_ServerSpan],
    there: dict[str, _ServerSpan],
    now: float,
) -> None:
    """Note that a server came, went, or is another now."""
    machine, known = state.servers.get(name), there.get(name)
    is_same = (
        known is not None
        and machine is not None
        and (known.capacity, known.labels) == (machine.capacity, machine.labels)
    )
    if is_same:
        return
    if known is not None:
        known.leaves = now
        del there[name]
    if machine is not None and any(machine.capacity.values()):  # else nothing ever runs there
        there[name] = _ServerSpan(name, machine.capacity, machine.labels, now)
        machines.append(there[name])


def _workload(
    recording: Recording,
    state: ServiceState,
    jobs: dict[int, Job],
    machines: list[_ServerSpan],
    runs: dict[Task, tuple[str, float, dict[str, float]]],
    seen: dict[Task, float],
    withdrawn: dict[int, float],
) -> JournalWorkload:
    if not machines:
        raise InputError("no server has joined yet", "", str(recording.path))
    resources = tuple(state.resources)
    users = {name: number for number, name in enumerate(state.users)}
    for number, machine in enumerate(machines):
        recording.servers.setdefault(machine.name, []).append((machine.joins, number))
    estimates = _Estimates(recording, jobs)
    set_job, set_tasks, shapes, places = [], [], [], []
    start, server, unknown, nowhere = [], [], 0, 0
    for number, job in enumerate(jobs.values()):
        place = _place(job, machines)
        if not any(place):
            nowhere += 1
            place = [True] * len(machines)
        by_demand: dict[tuple[float, ...], list[int]] = {}
        for index in range(job.tasks):
            if (job.id, index) in recording.ended_before:
                continue
            demand = runs[job.id, index][2] if (job.id, index) in runs else job.demand_of(index)
            by_demand.setdefault(tuple(demand.get(r, 0.0) for r in resources), []).append(index)
        if job.id in recording.settled:
            recording.settled[job.id] = {
                # A resource that comes with a later server is not known yet.
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
                lasts = known[0] if known else max(estimates.of(job), seen.get(task, 0.0))
                recording.durations.append(max(lasts, SHORTEST))
                where, since, _ = runs.get(task, ("", inf, {}))
                start.append(since - recording.begin)
                server.append(recording.server(where, since) if where else -1)
    times = [(m.joins, JOIN, n) for n, m in enumerate(machines)]
    times += [(m.leaves, LEAVE, n) for n, m in enumerate(machines) if m.leaves is not None]
    times.sort(key=lambda at: at[0])
    names = [m.name for m in machines]
    notes = {ESTIMATED: unknown, NOWHERE: nowhere}
    plain = Workload.from_arrays(
        Cluster(
            groups=tuple(
                f"{n} ({names[:i].count(n) + 1})" if n in names[:i] else n
                for i, n in enumerate(names)
            ),
            resources=resources,
            capacity=np.array([[m.capacity.get(r, 0.0) for r in resources] for m in machines]),
            count=np.ones(len(machines), dtype=np.int64),
            units=tuple(UNITS.get(name, "") for name in resources),
            labels=tuple(machine.labels for machine in machines),
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
        origin=f"journal {recording.path.name}",
        notes={what: n for what, n in notes.items() if n},
    )
    values = {f.name: getattr(plain, f.name) for f in fields(Workload)}
    return JournalWorkload(**values, recording=recording)


class _Estimates:
    """How long tasks last that nobody saw end: medians of the job, the user, or all."""

    def __init__(self, recording: Recording, jobs: dict[int, Job]) -> None:
        by: dict[Any, list[float]] = {}
        for (job, _), (seconds, _) in recording.lasted.items():
            for whom in (job, jobs[job].user, None):
                by.setdefault(whom, []).append(seconds)
        self._median = {whom: median(seconds) for whom, seconds in by.items()}

    def of(self, job: Job) -> float:
        """Return seconds; 1 where no task has ended yet."""
        for whom in (job.id, job.user, None):
            if whom in self._median:
                return self._median[whom]
        return 1.0


def _place(job: Job, machines: list[_ServerSpan]) -> list[bool]:
    """Return where a job may run."""
    if job.where is None:
        return [True] * len(machines)
    if isinstance(job.where, dict):
        wanted = job.where.items()
        return [wanted <= machine.labels.items() for machine in machines]
    return [machine.name in job.where for machine in machines]

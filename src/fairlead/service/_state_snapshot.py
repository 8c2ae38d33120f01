"""Snapshots of the service's state: JSON, followed by the scheduler's own snapshot."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from fairlead.errors import InputError
from fairlead.service.jobs import WAITS, Indices, Job, JobGroup, Running, Server, TaskKey, User

if TYPE_CHECKING:
    from fairlead.service.service_state import ServiceState

VERSION = 2
HEAD = 8  # bytes that hold the length of the JSON
# Stored fields of a `JobGroup`, a `Server` and a `Job`, in the order of their rows.
GROUP_FIELDS = ("group", "demand", "waiting", "running", "withdrawn", "time_limit")
SERVER_FIELDS = ("name", "capacity", "labels", "identity", "reachable", "drained", "lost")
JOB_FIELDS = (
    *("id", "user", "demand", "tasks", "gang", "where", "priority", "time_limit", "submitted"),
    *("after", "eligible", "held", "cancelled", "started", "server", "ended", "exit_status"),
    *("attempts", "reason", "members", "name", "size"),
    *("checkpoint_signal", "at_most", "next_index", "notify", "program"),
)


def state_bytes(state: ServiceState) -> bytes:
    """Return a state as bytes; the same events give the same bytes."""
    runs = (run for server in state.servers.values() for run in server.running.values())
    document = {
        "version": VERSION,
        "next_job": state.next_job,
        "unplaced": state.unplaced,
        "users": {name: user.weight for name, user in state.users.items()},
        "queues": [state.queue_rows, state.queue_of, state.limits, state.quotas],
        "servers": [[getattr(s, name) for name in SERVER_FIELDS] for s in state.servers.values()],
        "drained": list(state.drained),
        "jobs": [_job_row(job) for job in state.jobs.values()],
        "running": [
            [
                *r.key,
                r.task,
                r.job_group.group,
                r.server,
                r.since,
                r.stopping,
                r.is_over,
                list(r.awaits),
            ]
            for r in runs
        ],
    }
    part = to_json(document)
    return len(part).to_bytes(HEAD, "big") + part + state.scheduler.snapshot()


def split_snapshot(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the JSON of a snapshot of any version, and the scheduler's own snapshot."""
    end = HEAD + int.from_bytes(data[:HEAD], "big")
    try:
        return from_json(data[HEAD:end]), data[end:]
    except ValueError as fault:
        raise InputError(f"is damaged: {fault}", "snapshot") from None


def restore_records(state: ServiceState, part: dict[str, Any]) -> None:
    """Add the users, servers, jobs and tasks of a snapshot to a new state."""
    state.users = {name: User(weight) for name, weight in part["users"].items()}
    # Snapshots of earlier versions lack `queues`, or the quotas in it.
    state.queue_rows, state.queue_of, state.limits, *rest = part.get("queues", ([], {}, {}))
    state.quotas = rest[0] if rest else {}
    state.next_job, state.unplaced = part["next_job"], part["unplaced"]
    for values in part["servers"]:
        state.servers[values[0]] = Server(*values)
    state.drained = dict.fromkeys(part.get("drained", ()))  # earlier versions lack it
    for *values, status, lost_attempts, job_groups in part["jobs"]:
        fields = zip(JOB_FIELDS, values, strict=False)  # earlier versions lack the last ones
        job = Job(**dict(fields))
        job.status = bytearray(b"".join(bytes([value]) * n for value, n in status))
        job.lost_attempts = dict(lost_attempts)
        for *given, indices in job_groups:
            listed = range(*indices) if len(indices) == 2 else indices[0]
            named = {"time_limit": job.time_limit} | dict(zip(GROUP_FIELDS, given, strict=False))
            job_group = JobGroup(job=job, indices=listed, **named)
            if job_group.withdrawn:  # earlier versions kept its indices
                job_group.indices = range(0)
            state.groups[job_group.group] = job.groups[job_group.group] = job_group
        state.jobs[job.id] = job
        user = state.users[job.user]
        user.pending += job.status.count(WAITS)
        user.live_bytes += job.size
        user.live_jobs += 1
        for other in job.after:
            state._dependents.setdefault(other, {})[job.id] = None
    for j, index, attempt, task, group, server, since, stopping, is_over, *rest in part["running"]:
        key, job_group = TaskKey(j, index, attempt), state.groups[group]
        # Rows of earlier versions lack `awaits`.
        awaits = dict.fromkeys(TaskKey(*other) for other in (rest[0] if rest else ()))
        run = Running(key, task, job_group, server, since, stopping, is_over, awaits)
        with suppress(InputError):  # the task is over, or its scheduler will be rebuilt
            run.devices = state.devices_of(run)
        for awaited in awaits:
            state._awaiting.setdefault(awaited, []).append(run)
        job_group.job.running[index] = state.servers[server].running[key] = run
        job_group.job.awaiting_gang += is_over
        state.users[job_group.job.user].running += 1
    for job in state.jobs.values():
        state._count_withheld(job)


def _job_row(job: Job) -> list[Any]:
    """Return a job as a list: the fields `JOB_FIELDS`, statuses, lost attempts and groups."""
    job_groups = [
        [*(getattr(job_group, name) for name in GROUP_FIELDS), _indices_row(job_group.indices)]
        for job_group in job.groups.values()
    ]
    return [
        *(getattr(job, name) for name in JOB_FIELDS),
        _equal_runs(job.status),
        list(job.lost_attempts.items()),
        job_groups,
    ]


def _equal_runs(status: bytearray) -> list[tuple[int, int]]:
    """Return the value and the length of each run of equal values."""
    if len(set(status)) == 1:  # the usual case, which needs no loop
        return [(status[0], len(status))]
    return [(value, sum(1 for _ in alike)) for value, alike in groupby(status)]


def _indices_row(indices: Indices) -> list[Any]:
    """Return the ends of a range, or a list of indices in a list."""
    return [indices.start, indices.stop] if isinstance(indices, range) else [indices]

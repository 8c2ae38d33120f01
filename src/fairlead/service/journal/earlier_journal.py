"""Read journals of an earlier version, whose scheduler no longer exists.

The service's part of a snapshot has today's format. From the scheduler's part, only the policy, the
seed and the names of resources are read; the rest follows from jobs and servers. Tasks start on
their recorded servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic_core import from_json

from fairlead.errors import InputError
from fairlead.scheduler.scheduler import Placement
from fairlead.service._state_snapshot import restore_records, split_snapshot
from fairlead.service.jobs import TaskKey
from fairlead.service.service_state import ServiceState

MARK = b"fairlead scheduler snapshot\n"
WORD = 8  # bytes of a number: the version, and the length of the JSON


def earlier_state(data: bytes) -> ServiceState:
    """Return the state of a snapshot of an earlier version; raise `InputError` if damaged."""
    part, scheduler = split_snapshot(data)
    if not scheduler.startswith(MARK):
        raise InputError("is damaged: it has no scheduler", "snapshot")
    length, first = len(MARK) + WORD, len(MARK) + 2 * WORD
    tables = from_json(scheduler[first : first + int.from_bytes(scheduler[length:first], "little")])
    state = ServiceState(tables["policy"], tables["seed"])
    state.resources = tables["resources"]
    restore_records(state, part)
    state.apply("policy", {"policy": tables["policy"], "seed": tables["seed"]}, 0.0)
    return state


def starts_of_running(data: bytes) -> Iterator[tuple[TaskKey, str, float]]:
    """Yield the key, server and start time of each running task in a snapshot."""
    for job, index, attempt, _task, _group, server, since, *_ in split_snapshot(data)[0]["running"]:
        yield TaskKey(job, index, attempt), server, since


def repeat_starts(
    state: ServiceState, starts: Mapping[TaskKey, str], now: float, path: Path, seq: int
) -> None:
    """Start tasks on the servers that were recorded for an event."""
    placed = []
    for key, server in sorted(starts.items()):
        job_groups = state.jobs[key.job].groups.values() if key.job in state.jobs else ()
        job_group = next((e for e in job_groups if e.waiting and key.index in e.indices), None)
        if job_group is None or server not in state.servers:
            fault = f"task {key} was recorded to start on {server!r:.60}, and cannot start there"
            raise InputError(fault, "", f"{path}: event {seq}")
        task = state.scheduler.assume(job_group.group, server, now)
        user, index = job_group.job.user, job_group.indices.index(key.index)
        placed.append(Placement(task, job_group.group, user, server, key.attempt, index))
    state.start(placed, now)

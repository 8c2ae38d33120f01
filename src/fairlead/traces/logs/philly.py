"""Read Microsoft's Philly traces of 2017: deep learning jobs on servers with GPUs.

Source: github.com/msr-fiddle/philly-traces. ``cluster_job_log`` is a JSON list of jobs, each with
its attempts; ``cluster_machine_list`` is a table of servers.

- **Tasks and gangs.** A job runs again after a failure or a preemption, and each run is an attempt.
  Attempts differ in servers and GPUs. Only the last attempt counts, as the job's status is that of
  its last attempt. The GPUs of this attempt on each server are a task; several tasks are a gang.
  The wait until its start includes earlier attempts. The log names neither cores nor memory.
- **Placement.** A task may run on all servers: the log names no requested kind of GPU, and a
  virtual cluster is a share of all servers, not a set of servers.
- **Left out.** Earlier attempts; jobs that never ran or had not ended; jobs whose last attempt has
  no start, ends before its start, or lists no GPU.
- **Servers.** The servers are those of the machine list, which contradicts the log (issue 8 of the
  repository: a job ran on eight GPUs of a server listed with two). So a server has at least the
  GPUs that attempts used on it, including attempts that are left out.

Times are by the cluster's clock; when summer time ends, an hour occurs twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import Final, Literal, NamedTuple, NotRequired

import numpy as np
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from fairlead.errors import InputError
from fairlead.formats.file_faults import check_object
from fairlead.model.cluster import Cluster
from fairlead.model.names import check_name
from fairlead.model.workload import Workload
from fairlead.traces._csv_tables import ROW, TraceColumn, read_blocks
from fairlead.traces._stored_files import (
    ProgressReport,
    error_source,
    only_file,
    quoted,
    read_json,
    start_of_text,
)
from fairlead.traces.logs.job_collector import (
    EARLY_START,
    HALF_SECOND,
    NO_USER,
    ROUNDED_UP,
    JobCollector,
    check_user_from,
    group_equal,
)

JOB_LOGS, MACHINE_LISTS = "cluster_job_log*", "cluster_machine_list*"
MACHINE_COLUMNS = (
    TraceColumn("machineId"),
    TraceColumn("number of GPUs", "whole", least=1, most=1_000_000),
    TraceColumn("single GPU mem"),
)
USERS = ("user", "vc")
ABSENT = frozenset({"", "none", "null"})
_BYTES_FOR_DETECTION = 2**16
_LIST = re.compile(r"\s*\[\s*\{")
_KEYS = (re.compile(r'"jobid"\s*:'), re.compile(r'"attempts"\s*:'))

NEVER_RAN = "jobs left out, as they have no attempt"
NO_START = "jobs left out, as their last attempt has no start"
STILL_RAN = "jobs left out, as they had not ended"
BACKWARDS = "jobs left out, as their last attempt ends before it starts"
NO_GPU = "jobs left out, as their last attempt lists no GPU"
EARLIER_ATTEMPTS = "earlier attempts of jobs, left out"
MORE_GPUS = "servers on which attempts used more GPUs than listed; they have the used ones"
NOT_LISTED = "servers that are not listed; they have the GPUs that attempts used"


class _GpusOnServer(TypedDict):
    ip: str  # the server
    gpus: list[str]


class _Attempt(TypedDict):
    start_time: NotRequired[str | None]
    end_time: NotRequired[str | None]
    detail: list[_GpusOnServer]


class _Record(TypedDict):
    jobid: str
    submitted_time: NotRequired[str | None]
    user: NotRequired[str | None]
    vc: NotRequired[str | None]
    attempts: list[_Attempt]


_RECORD: Final = TypeAdapter(_Record)
_LIST_OF_JOBS: Final = TypeAdapter(list[object])


class _Machine(NamedTuple):
    gpus: int
    memory: str  # of each GPU, such as 24GB; empty if unknown


class _UsedServer(NamedTuple):
    number: int  # by first use
    gpus: set[str]  # that attempts used on it


def is_philly_log(path: Path) -> bool:
    """Return whether a file is a JSON list that begins with a job of a Philly trace."""
    start = start_of_text(path, _BYTES_FOR_DETECTION)
    return _LIST.match(start) is not None and all(key.search(start) for key in _KEYS)


def read_philly(
    path: Path,
    *,
    machines: Path | None = None,
    user_from: Literal["user", "vc"] | None = None,
    on_progress: ProgressReport | None = None,
) -> Workload:
    """Read the folder or log of a Philly trace, with recorded starts and servers. O(attempts).

    Without `machines`, the table of servers is the ``cluster_machine_list`` in the folder of the
    log. Users are the values of the key `user_from` of jobs: ``user`` (default), or ``vc`` for
    virtual clusters.
    """
    check_user_from(user_from, USERS)
    folder = path if path.is_dir() else path.parent
    log = only_file(folder, JOB_LOGS, "name one of them") if path.is_dir() else path
    table = machines or only_file(folder, MACHINE_LISTS, "name one with --machines")
    known = _read_machines(table)
    collected = JobCollector()
    used: dict[str, _UsedServer] = {}
    with error_source(str(log)):
        jobs = check_object(_LIST_OF_JOBS, read_json(log, on_progress), "")
    for number, item in enumerate(jobs):
        place = f"jobs[{number}]"
        with error_source(str(log)):
            record = check_object(_RECORD, item, place)
        with error_source(str(log), f"{place} ({quoted(record['jobid'])})"):
            _collect(record, user_from or "user", used, collected)
    cluster, numbers = _make_cluster(_correct_gpus(known, used, collected.notes))
    workload = collected.workload(log, cluster, "Philly trace")
    by_first_use = np.array([numbers[name] for name in used], dtype=np.int32)
    return replace(workload, task_server=by_first_use[workload.task_server])


def _read_machines(path: Path) -> dict[str, _Machine]:
    """Read the table of servers."""
    found: dict[str, _Machine] = {}
    for block in read_blocks(path, MACHINE_COLUMNS, header=True):
        rows = block.frame.select(ROW, *(column.name for column in MACHINE_COLUMNS)).iter_rows()
        for row, name, gpus, memory in rows:
            with error_source(block.source, f"row {row}"):
                if name in found:
                    raise InputError(f"duplicate server {name!r}")
                found[name] = _Machine(gpus, check_name(memory, "single GPU mem"))
    if not found:
        raise InputError("lists no server", "", str(path))
    return found


def _collect(
    record: _Record,
    user_key: Literal["user", "vc"],
    used: dict[str, _UsedServer],
    collected: JobCollector,
) -> None:
    """Add a job that ran and ended; count any other job in the notes."""
    attempts, notes = record["attempts"], collected.notes
    if not record["jobid"]:
        raise InputError("jobid: is empty")
    check_name(record["jobid"], "jobid")
    gpus_on: dict[int, int] = {}  # number of GPUs of the last attempt, by server
    for number, attempt in enumerate(attempts):
        gpus_on = _gpus_by_server(attempt, number, used)
    if not attempts:
        notes[NEVER_RAN] += 1
        return
    start = _parse_time(attempts[-1].get("start_time"), "start_time")
    end = _parse_time(attempts[-1].get("end_time"), "end_time")
    if start is None or end is None or end < start or not gpus_on:
        notes[_why_left_out(start, end)] += 1
        return
    submit = _parse_time(record.get("submitted_time"), "submitted_time")
    if submit is None:
        raise InputError("submitted_time: is not known")
    user = check_name(record.get(user_key) or "", user_key)
    notes[NO_USER] += not user
    notes[EARLIER_ATTEMPTS] += len(attempts) - 1
    notes[ROUNDED_UP] += end == start
    notes[EARLY_START] += start < submit
    gang = len(gpus_on) > 1
    collected.add_job(record["jobid"], user or "unknown", min(submit, start), gang=gang)
    servers_by_gpus: dict[int, list[int]] = {}
    for server, gpus in gpus_on.items():
        servers_by_gpus.setdefault(gpus, []).append(server)
    seconds = end - start or HALF_SECOND
    for gpus, servers in servers_by_gpus.items():
        durations = repeat(seconds, len(servers))
        collected.add_tasks((float(gpus),), None, durations, start=start, servers=servers)


def _gpus_by_server(attempt: _Attempt, number: int, used: dict[str, _UsedServer]) -> dict[int, int]:
    """Return the number of GPUs of an attempt on each server, by the server's number.

    `number` is that of the attempt, for errors. Adds the GPUs to `used`.
    """
    gpus: dict[int, set[str]] = {}
    for detail in attempt["detail"]:
        if not detail["ip"]:
            raise InputError(f"attempts[{number}]: an ip is empty")
        if detail["gpus"]:
            server = used.setdefault(detail["ip"], _UsedServer(len(used), set()))
            server.gpus.update(detail["gpus"])
            gpus.setdefault(server.number, set()).update(detail["gpus"])
    return {server: len(names) for server, names in gpus.items()}


def _why_left_out(start: float | None, end: float | None) -> str:
    """Return the note that counts a job whose last attempt cannot be used."""
    if start is None:
        return NO_START
    if end is None:
        return STILL_RAN
    return BACKWARDS if end < start else NO_GPU


def _parse_time(text: str | None, key: str) -> float | None:
    """Return the seconds since 1970 of a time such as ``2017-10-07 01:12:09``; None if absent."""
    if text is None or text.strip().lower() in ABSENT:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is not None:
        raise InputError(f"{key}: {quoted(text)} is not a time such as 2017-10-07 01:12:09")
    return found.replace(tzinfo=UTC).timestamp()


def _correct_gpus(
    known: Mapping[str, _Machine], used: Mapping[str, _UsedServer], notes: Counter[str]
) -> dict[str, _Machine]:
    """Return the servers, each with at least the GPUs that attempts used on it.

    The memory of a corrected server's GPUs is unknown, as its row is wrong.
    """
    servers = dict(known)
    for name, server in used.items():
        if name not in known:
            notes[NOT_LISTED] += 1
        elif len(server.gpus) > known[name].gpus:
            notes[MORE_GPUS] += 1
        else:
            continue
        servers[name] = _Machine(len(server.gpus), "")
    return servers


def _make_cluster(servers: Mapping[str, _Machine]) -> tuple[Cluster, dict[str, int]]:
    """Group equal servers; also return the cluster's number of each server."""
    groups, numbers = group_equal(servers)
    cluster = Cluster(
        # For example 8x24GB.
        groups=tuple(f"{gpus}x{memory or 'unknown'}" for gpus, memory in groups),
        resources=("gpu",),
        capacity=np.array([[float(machine.gpus)] for machine in groups]),
        count=np.array([len(names) for names in groups.values()], dtype=np.int64),
        units=("GPUs",),
        labels=tuple({"gpu_memory": memory} if memory else {} for _, memory in groups),
    )
    return cluster, numbers

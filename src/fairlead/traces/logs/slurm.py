"""Read Slurm's accounting: the output of ``sacct --parsable2``, and a list of nodes.

A job is a gang of as many tasks as it had nodes, and its allocated amounts are divided among them.
Each element of a job array is a job. The rows ``7+0`` and ``7+1`` of a heterogeneous job are one
gang. Rows of job steps are left out, as the row of a job has the amounts of its steps. Jobs that
ended before their start are left out, and unless `unended` is given, jobs that had not ended or
were cancelled while pending. Jobs that never ran for another reason are always left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import repeat
from math import ceil, inf, isfinite
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.workload import DRAIN, Workload
from fairlead.traces._stored_files import ProgressReport, error_source, listed, quoted, read_lines
from fairlead.traces.logs.job_collector import (
    HALF_SECOND,
    NO_USER,
    ROUNDED_UP,
    JobCollector,
    Place,
    check_server_options,
    check_user_from,
    divide_amounts,
)
from fairlead.traces.logs.slurm_nodes import NodeTable, amounts_of, host_names, read_nodes

RESOURCES, UNITS = ("cpu", "memory", "gpu"), ("cores", "GiB", "")
NEEDED = ("jobid", "user", "submit", "start", "end", "state")
TRES = ("alloctres", "reqtres")
USERS = ("user", "account", "partition", "qos", "group", "wckey")
ABSENT = frozenset({"", "unknown", "none", "n/a", "(null)"})
NO_LIMIT = frozenset({*ABSENT, "unlimited", "infinite", "partition_limit", "invalid"})

STEPS = "rows of steps left out, as the rows of their jobs include them"
CANCELLED_WHILE_PENDING = "jobs left out, as they were cancelled while pending"
STILL_PENDING = "jobs left out, as they were still pending"
NEVER_RAN = "jobs left out, as they never ran"
ENDED_BEFORE_START = "jobs left out, as they ended before they started"
ENDED_BEFORE_SUBMISSION = "jobs left out, as they ended before they were submitted"
STILL_RAN = "jobs left out, as they had not ended"
EARLIER_RUNS = "earlier runs of requeued jobs, left out"
PARTITION_LIMIT = "jobs with the time limit of their partition; this limit is not known"
NOT_ELIGIBLE = "jobs left out, as they were held, or waited for other jobs or a time, until the end"
NO_REQUEST = "jobs left out, as the table lacks their requests; ask sacct for ReqTRES"
NO_PARTITION = "jobs that may run on all nodes, as the table has no column Partition"
NO_NODE_PARTITION = (
    "jobs with a partition that may run on all nodes, as the machines have no partitions"
)
UNKNOWN_PARTITION = "jobs of a partition that no node has; they may run everywhere"
GPUS_IGNORED = "jobs that ask for GPUs, which no node has; read without them"
CUT_ARRAY = (
    "pending arrays whose jobs cannot be read, taken as one job; ask sacct with SLURM_BITSTR_LEN=0"
)
GPUS_GUESSED = "jobs with GPUs; each server is given as many GPUs as the largest task holds"
CUT_OFF = "last row without a line end, where the table may be cut off"
NO_SERVER = "jobs whose nodes are not known, or not among the machines"
OUT_OF_SERVICE = (
    "nodes in state DOWN, DRAIN or FAIL ({}); they count, as the state is that of today"
)
OUT_AT_END = (
    "nodes in state DOWN, DRAIN or FAIL ({}); they count until the last time of the table, and "
    "after that only while jobs run on them"
)
NODES_NAMED = 5
_DURATION = re.compile(r"(?:(\d{1,7})-)?(?:(\d{1,7}):)?(\d{1,7}):(\d{1,7}(?:\.\d+)?)")
_ARRAY_WITH_STEP = re.compile(r"([0-9]+_)\[([0-9]{1,6})-([0-9]{1,6}):([1-9][0-9]{0,6})\]")
_DAYS_AND_HOURS = re.compile(r"(\d{1,7})-(\d{1,7})")


class SlurmRow(NamedTuple):
    """A job, or a component of a heterogeneous job; times are seconds by the cluster's clock."""

    row: int  # number in the file
    job: str
    user: str
    submit: float
    start: float  # infinite for a job that never started
    seconds: float  # run time; infinite for a job that had not ended
    cancel: float  # time at which it was cancelled while pending; else infinite
    limit: float  # seconds
    amounts: Mapping[str, float]  # of the whole job
    nodes: int  # number of nodes
    hosts: str  # names of nodes, such as ``gpu[01-03]``
    partition: str  # names of partitions, separated by commas


class _JobRun(NamedTuple):
    """When a job ran, in seconds by the cluster's clock."""

    start: float  # infinite if it never started
    seconds: float  # infinite if it had not ended
    cancel: float  # time at which it was cancelled while pending; else infinite


class _LeftOutError(Exception):
    """A row is not kept; `reason` is the note that counts its `jobs`."""

    def __init__(self, reason: str, jobs: int = 1) -> None:
        self.reason, self.jobs = reason, jobs
        super().__init__(reason)


def is_sacct(line: str) -> bool:
    """Return whether a line is the heading of the output of ``sacct --parsable2``."""
    names = {name.strip().lower() for name in line.split("|")}
    return {"jobid", "state"} <= names


def read_slurm(
    path: Path,
    *,
    machines: Path | None = None,
    servers: int | None = None,
    cores: int | None = None,
    memory: float | None = None,
    user_from: str | None = None,
    unended: float | None = None,
    on_progress: ProgressReport | None = None,
) -> Workload:
    """Read an accounting table as a workload with recorded starts. O(rows).

    The columns JobID, User, Submit, Start, End, State, and AllocTRES or ReqTRES are required;
    Eligible, Timelimit, NNodes, NodeList and Partition are optional; others are ignored. Raises
    InputError with file and row.

    - `machines`: output of ``scontrol show node`` or ``sinfo -N -o "%N|%c|%m|%G|%P|%f"``; jobs run
      on nodes of their partition;
    - `servers`, `cores`, `memory`: instead of `machines`, the number of equal servers, and the
      cores and GiB of each. Each has as many GPUs as the largest task;
    - `user_from`: the column that names users, one of `USERS`; by default ``user``;
    - `unended`: if given, jobs that had not ended are kept. Running jobs run until this time, in
      seconds since 1970 by the cluster's clock, or until the table's last time if that is later.
      Pending jobs never start.
    """
    check_server_options(servers, cores, memory)
    if machines is None and servers is None:
        fault = "names no servers; give --machines FILE with the output of scontrol show node, or "
        raise InputError(f"{fault}--servers and --cores", "", str(path))
    if machines is not None and servers is not None:
        raise InputError("cannot be given with --machines", "--servers")
    check_user_from(user_from, USERS)
    collected = JobCollector()
    lines = _read_rows(path, user_from or "user", unended is not None, collected.notes, on_progress)
    rows = _last_rows(lines, collected)
    last = max(_last_time(rows), -inf if unended is None else unended)
    if unended is not None:
        rows = _end_unended(rows, last)
    if servers is not None and cores is not None:
        gpus = max((row.amounts.get("gpu", 0.0) / row.nodes for row in rows), default=0.0)
        collected.notes[GPUS_GUESSED] = sum("gpu" in row.amounts for row in rows)
        table = NodeTable.equal(servers, cores, memory, gpus)
    else:
        assert machines is not None
        table = read_nodes(machines)
    # Cores always count; memory and GPUs if any node has some.
    used = [0, *(r for r in (1, 2) if (table.capacity[:, r] > 0).any())]
    _note_partitions(rows, table, collected.notes)
    for components in sorted(_jobs_of(rows), key=lambda rows_of_job: rows_of_job[0].submit):
        with error_source(str(path), f"row {components[0].row}"):
            _collect(components, table, used, collected)
    cluster = Cluster(
        groups=table.groups,
        resources=tuple(RESOURCES[r] for r in used),
        capacity=table.capacity[:, used],
        count=table.count,
        units=tuple(UNITS[r] for r in used),
        labels=table.labels,
    )
    if table.out:
        note = OUT_AT_END if unended is not None else OUT_OF_SERVICE
        collected.notes[note.format(listed(table.out, NODES_NAMED))] = len(table.out)
    workload = collected.workload(path, cluster, "sacct table")
    if unended is None:
        return workload
    return _drain_at(last - min(row.submit for row in rows), workload, table)


def _note_partitions(rows: list[SlurmRow], table: NodeTable, notes: Counter[str]) -> None:
    """Correct the notes about partitions, which matter only if there are several."""
    node_partitions = frozenset[str]().union(*table.partitions)
    job_partitions = {row.partition for row in rows if row.partition}
    if len(node_partitions) < 2:
        del notes[NO_PARTITION]
    if not node_partitions and len(job_partitions) > 1:
        notes[NO_NODE_PARTITION] = sum(bool(row.partition) for row in rows)


def _drain_at(end: float, workload: Workload, table: NodeTable) -> Workload:
    """Return the workload with the nodes out of service drained at the end of the record."""
    return replace(
        workload,
        recorded_until=end,
        server_time=np.full(len(table.out), end),
        server_event=np.full(len(table.out), DRAIN, dtype=np.int8),
        server=np.array([table.numbers[name] for name in table.out], dtype=np.int32),
    )


def _read_rows(
    path: Path,
    user: str,
    unended: bool,
    notes: Counter[str],
    on_progress: ProgressReport | None,
) -> Iterator[SlurmRow]:
    """Check the heading, and yield the rows of jobs to keep.

    `user` is the column that names users; `unended` tells whether jobs are kept that had not ended,
    or were cancelled while pending.
    """
    source = str(path)
    names: list[str] = []
    for number, line in read_lines(path, on_progress, on_cut=lambda: notes.update([CUT_OFF])):
        if not line:
            continue
        fields = line.split("|")
        if not names:
            names = [name.strip().lower() for name in fields]
            for name in {*NEEDED, *TRES, user}:
                if names.count(name) > 1:
                    raise InputError(f"has column {name} twice", f"row {number}", source)
            for name in (*NEEDED, user):
                if name not in names:
                    fault = f"has no column {name}; ask sacct for it with --format"
                    raise InputError(fault, f"row {number}", source)
            if not set(TRES) & set(names):
                fault = "has neither AllocTRES nor ReqTRES; ask sacct for one with --format"
                raise InputError(fault, f"row {number}", source)
            continue
        if len(fields) != len(names):
            fault = f"has {len(fields)} columns, where the heading has {len(names)}"
            cause = "the table may be cut off, or names of jobs hold a |"
            raise InputError(f"{fault}; {cause}", f"row {number}", source)
        values = dict(zip(names, map(str.strip, fields), strict=True))
        try:
            with error_source(source, f"row {number}"):
                row = _parse_row(number, values, user, unended, notes)
        except _LeftOutError as fault:
            notes[fault.reason] += fault.jobs
        else:
            yield row


def _parse_row(
    number: int, values: Mapping[str, str], user: str, unended: bool, notes: Counter[str]
) -> SlurmRow:
    """Return the row of a job; raise `_LeftOutError` for any other row.

    Only jobs that ran and ended are kept, unless `unended`. A job that had not ended gets
    an infinite run time, and a job that never started an infinite start.
    """
    job = values["jobid"]
    if not job:
        raise InputError("column jobid: is empty")
    if "." in job.partition("[")[0]:  # but not ``9_[1-100...]``, a list that sacct cut off
        raise _LeftOutError(STEPS)
    submitted, start, end = (_parse_time(values[name], name) for name in ("submit", "start", "end"))
    run = _run_of(values, start, end, unended)
    requested = values.get("reqtres", "")
    allocated = values.get("alloctres", requested)
    tres = allocated or requested if isfinite(run.start) else requested or allocated
    if not tres:
        raise _LeftOutError(NO_REQUEST)
    notes[ROUNDED_UP] += run.seconds == HALF_SECOND
    submit = _submission_of(values, submitted, run)
    amounts = amounts_of(tres)
    nodes = int(amounts.get("node", 0) or _parse_whole(values.get("nnodes", ""), "nnodes"))
    notes[NO_USER] += not values[user]
    notes[NO_PARTITION] += "partition" not in values
    limit = values.get("timelimit", "")
    notes[CUT_ARRAY] += "[" in job and _jobs_of_array(job) == [job]
    notes[PARTITION_LIMIT] += limit.lower() == "partition_limit"
    return SlurmRow(
        row=number,
        job=job,
        user=values[user] or "unknown",
        submit=min(submit, run.start),  # a requeued job may start before its last submission
        start=run.start,
        seconds=run.seconds,
        cancel=run.cancel,
        limit=inf if limit.lower() in NO_LIMIT else _parse_limit(limit),
        amounts=amounts,
        nodes=max(nodes, 1),
        hosts=values.get("nodelist", ""),
        partition=values.get("partition", ""),
    )


def _run_of(
    values: Mapping[str, str], start: float | None, end: float | None, unended: bool
) -> _JobRun:
    """Return when a job ran or was cancelled; raise `_LeftOutError` if it is not kept."""
    state = values["state"].partition(" ")[0].upper()
    has_amounts = bool(values["alloctres"] if "alloctres" in values else values["reqtres"])
    if start is None or state == "PENDING" or (not has_amounts and end is not None):
        reason, cancel = NEVER_RAN, inf
        if end is None and state != "REVOKED":  # such as PENDING or REQUEUE_HOLD
            reason = STILL_PENDING
        elif end is not None and (start is None or state == "CANCELLED"):
            reason, cancel = CANCELLED_WHILE_PENDING, end
        if not unended or reason == NEVER_RAN:
            raise _LeftOutError(reason, len(_jobs_of_array(values["jobid"])))
        return _JobRun(inf, inf, cancel)
    if end is not None and end < start:
        raise _LeftOutError(ENDED_BEFORE_START)
    if end is None or state in ("RUNNING", "SUSPENDED", "COMPLETING"):
        if not unended:
            raise _LeftOutError(STILL_RAN)
        return _JobRun(start, inf, inf)
    return _JobRun(start, end - start or HALF_SECOND, inf)


def _submission_of(values: Mapping[str, str], submit: float | None, run: _JobRun) -> float:
    """Return when a job was submitted, or became eligible: until then it requests nothing.

    Raises `_LeftOutError` for a job that never became eligible, or was cancelled before it was.
    """
    if submit is None:
        raise InputError("column submit: is not known")
    if "eligible" in values:
        eligible = _parse_time(values["eligible"], "eligible")
        never_eligible = eligible is None and not isfinite(run.start)
        if never_eligible or (eligible is not None and submit <= run.cancel < eligible):
            raise _LeftOutError(NOT_ELIGIBLE, len(_jobs_of_array(values["jobid"])))
        submit = max(submit, eligible or submit)
    if run.cancel < submit:
        raise _LeftOutError(ENDED_BEFORE_SUBMISSION)
    return submit


def _last_rows(rows: Iterator[SlurmRow], collected: JobCollector) -> list[SlurmRow]:
    """Return the last row of each job; ``--duplicates`` lists all runs of a requeued job."""
    found: dict[str, SlurmRow] = {}
    for row in rows:
        collected.notes[EARLIER_RUNS] += row.job in found
        found[row.job] = row
    return list(found.values())


def _jobs_of_array(job: str) -> list[str]:
    """Return the jobs of a pending array, ``9_[1-3%2]`` or ``9_[0-9:3]``; else the job itself."""
    whole = re.sub(r"%[0-9]+", "", job)
    with suppress(InputError):  # such as ``9_[1-100...]``, which sacct cut off
        if (steps := _ARRAY_WITH_STEP.fullmatch(whole)) is not None:
            first, last, step = (int(steps[k]) for k in (2, 3, 4))
            return [f"{steps[1]}{k}" for k in range(first, last + 1, step)] or [job]
        return host_names(whole) or [job]
    return [job]


def _last_time(rows: list[SlurmRow]) -> float:
    """Return the last time in a table; minus infinity if it is empty."""
    times = (
        t for row in rows for t in (row.submit, row.start, row.start + row.seconds, row.cancel)
    )
    return max(filter(isfinite, times), default=-inf)


def _end_unended(rows: list[SlurmRow], last: float) -> list[SlurmRow]:
    """Set a finite run time in every row; split pending arrays into a row for each job.

    Running jobs end a second after the time `last`, so that they still run at `last`. If a row
    without an end has times before the first submission of the other rows, these times are moved to
    it, so that second 0 of the trace stays the same.
    """
    first = min((row.submit for row in rows if isfinite(row.seconds)), default=-inf)
    found: list[SlurmRow] = []
    known = {row.job for row in rows}
    for row in rows:
        if isfinite(row.seconds):
            found.append(row)
            continue
        submit, start, cancel = (max(time, first) for time in (row.submit, row.start, row.cancel))
        moved = row._replace(submit=submit, start=start, cancel=cancel)
        if isfinite(start):
            found.append(moved._replace(seconds=last + 1.0 - start))
            continue
        names = [name for name in _jobs_of_array(row.job) if name == row.job or name not in known]
        found += [moved._replace(job=name, seconds=1.0) for name in names]
    return found


def _jobs_of(rows: list[SlurmRow]) -> list[list[SlurmRow]]:
    """Return the rows of each job; a heterogeneous job has several."""
    found: dict[str, list[SlurmRow]] = {}
    for row in rows:
        found.setdefault(row.job.partition("+")[0], []).append(row)
    return list(found.values())


def _collect(
    components: list[SlurmRow], table: NodeTable, used: list[int], collected: JobCollector
) -> None:
    """Add a job of one or more components; `used` are the indices of resources that nodes have."""
    first = components[0]
    places = [_allowed_groups(row, table, collected.notes) for row in components]
    rows = [
        _with_enough_nodes(row, table, place, used)
        for row, place in zip(components, places, strict=True)
    ]
    tasks = sum(row.nodes for row in rows)
    collected.check_task_count(tasks, "column nnodes")
    limit = min(row.limit for row in rows)
    name = first.job.partition("+")[0]
    cancel = max(row.cancel for row in rows)
    collected.add_job(name, first.user, first.submit, gang=tasks > 1, limit=limit, cancel=cancel)
    has_gpus = any(RESOURCES[r] == "gpu" for r in used)
    collected.notes[GPUS_IGNORED] += not has_gpus and any(row.amounts.get("gpu") for row in rows)
    for row, place in zip(rows, places, strict=True):
        hosts = [table.numbers.get(name, -1) for name in host_names(row.hosts)]
        if len(hosts) != row.nodes:
            hosts = [-1] * row.nodes
        collected.notes[NO_SERVER] += -1 in hosts and isfinite(row.start)
        first_host = 0
        for shape, count in divide_amounts(
            {RESOURCES[r]: row.amounts.get(RESOURCES[r], 0.0) for r in used}, row.nodes
        ):
            collected.add_tasks(
                shape, place, repeat(row.seconds, count), start=row.start,
                servers=hosts[first_host : first_host + count],
            )  # fmt: skip
            first_host += count


def _with_enough_nodes(row: SlurmRow, table: NodeTable, place: Place, used: list[int]) -> SlurmRow:
    """Give a job that never started as many nodes as its amounts need; return its row.

    Until a job starts, ReqTRES has one node, unless the job requested several. The row stays as it
    is if the allowed groups have too few nodes.
    """
    if isfinite(row.start):
        return row
    largest = table.capacity[np.array(place)][:, used].max(axis=0).tolist()
    requested = (row.amounts.get(RESOURCES[r], 0.0) for r in used)
    needed = [ceil(amount / each) for amount, each in zip(requested, largest, strict=True) if each]
    nodes = max([row.nodes, *needed])
    return row._replace(nodes=nodes) if nodes <= table.count[np.array(place)].sum() else row


def _allowed_groups(row: SlurmRow, table: NodeTable, notes: Counter[str]) -> Place:
    """Return whether each group is in a partition of the job; all groups if none is."""
    names = set(row.partition.split(",")) if row.partition else set()
    place = tuple(bool(names & of_group) for of_group in table.partitions)
    if any(place):
        return place
    notes[UNKNOWN_PARTITION] += bool(names) and any(table.partitions)
    return (True,) * len(table.partitions)


def _parse_time(text: str, column: str) -> float | None:
    """Parse a time such as ``2025-01-31T08:00:00``, or seconds since 1970; return such seconds.

    The result is None for an absent time.
    """
    if text.lower() in ABSENT:
        return None
    try:
        if text.isascii() and text.isdigit():
            return float(text)
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            fault = "has a time zone; let SLURM_TIME_FORMAT be standard, or %s for all times"
            raise InputError(f"column {column}: {quoted(text)} {fault}")
        return found.replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        raise InputError(f"column {column}: {quoted(text)} is not a time") from None


def _parse_limit(text: str) -> float:
    """Return the seconds of a limit.

    Its form is ``D-HH:MM:SS``, ``D-HH:MM``, ``D-HH``, ``HH:MM:SS``, ``MM:SS``, or minutes.
    """
    if (parts := _DURATION.fullmatch(text)) is not None:
        days, hours, minutes, seconds = (float(part or 0) for part in parts.groups())
        if parts[1] and not parts[2]:  # D-HH:MM
            hours, minutes, seconds = minutes, seconds, 0.0
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if (parts := _DAYS_AND_HOURS.fullmatch(text)) is not None:
        return (float(parts[1]) * 24 + float(parts[2])) * 3600
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text) * 60
    raise InputError(f"column timelimit: {quoted(text)} is not a time limit")


def _parse_whole(text: str, column: str) -> int:
    """Return a whole number; 0 if it is absent."""
    if text.lower() in ABSENT:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"column {column}: {quoted(text)} is not a whole number")
    return int(text)

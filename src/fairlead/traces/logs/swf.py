"""Read logs in Standard Workload Format: a row for each job, 18 numbers, -1 for unknown.

Version 2.2 of the format of D. Feitelson and others, for the Parallel Workloads Archive. Some logs
append columns, which `read_swf` keeps as text if their number is known.

The format has processors, not nodes. The usual simulators (those of the archive, Alea, Batsim)
give a job its p processors at once, from one pool. So does this reader: a job is one task of p
processors, on one server with all processors (the header's ``MaxProcs``, else ``MaxNodes``). If
options give servers, a job is a gang of p tasks of one core, which may run on any server.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import repeat
from math import nan
from pathlib import Path
from typing import NamedTuple

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from fairlead.traces._stored_files import ProgressReport, error_source, quoted, read_lines
from fairlead.traces.logs.job_collector import (
    HALF_SECOND,
    NO_USER,
    JobCollector,
    check_server_options,
    equal_servers,
)

COMMENT = ";"
UNKNOWN = -1
EXCERPT = "jobs that the header's MaxJobs counts and that are not in the log, which is an excerpt"
# Notes of columns that no reader uses.
UNUSED_COLUMNS = {
    "queue": "jobs with a queue (column 15), which is not used",
    "partition": "jobs with a partition (column 16), which is not used",
    "preceding_job": "jobs that wait for a preceding job (column 17), which is not used",
    "think_time": "jobs with a think time (column 18), which is not used",
}
_HEADER = re.compile(r";\s*(\w+)\s*:\s*(.*)")
# A number in the header may be grouped by commas; a unit and a comment may follow.
_HEADER_NUMBER = re.compile(
    r"(-?[0-9]{1,15}|[0-9]{1,3}(?:,[0-9]{3}){1,4})"
    r"(?:\s+(?:nodes?|processors?|procs?|cores?|cpus?|jobs?))?"
    r"(?:\s*\(.*|\s*[,;#]\s+[^0-9\s].*)?",
    re.IGNORECASE,
)
# The indices of columns of counts and identifiers; numbers in other columns may have a fraction.
WHOLE_COLUMNS = frozenset((0, 4, 7, 10, 11, 12, 13, 14, 15, 16))
# Whole numbers below this are exact as floats.
LARGEST_NUMBER = 2.0**53

KIB_PER_GIB = 2**20
# Rows of status 2 to 4 are parts of a job; a row of status 0 or 1 has its totals.
PARTS_OF_JOBS = frozenset({2, 3, 4})
COMPLETED = 1

NEVER_RAN = "jobs left out, as they never ran"
NO_SUBMISSION = "jobs left out, as their submission is not known"
PARTS = "rows left out, as they are parts of a job that another row sums up"
NO_PROCESSORS = "jobs left out, as their processors are not known"
ROUNDED_UP = "completed jobs with run time 0, taken as half a second"
USED_MEMORY = "jobs whose requested memory is not known; the memory that they used is taken instead"
NO_MEMORY = "jobs whose memory is not known, taken as none"
NO_START = "jobs whose start is not in the log"


def read_swf_workload(
    path: Path,
    *,
    servers: int | None = None,
    cores: int | None = None,
    memory: float | None = None,
    on_progress: ProgressReport | None = None,
) -> Workload:
    """Read a log as a workload, in O(rows), about 23 us each.

    - A job has its requested processors, else its allocated ones.
    - With `memory` it has its requested memory for each processor, else its used memory, else none.
    - Its duration is its run time, its limit the requested time (column 9), its start the end of
      its wait (column 3). Its servers are unknown.
    - Users are ``user-<id>`` by ascending id; times are seconds from the first submission.

    The cluster has `servers` servers of `cores` cores and `memory` GiB; by default one server with
    the processors of the header. Without `memory`, memory is not a resource.
    """
    header = read_header(path)
    cluster = _make_cluster(header, servers, cores, memory)
    collected = JobCollector()
    first, jobs = math.inf, 0
    # `row` is unbound until `read_swf` has yielded a row; its own errors already name the row.
    with error_source(str(path), lambda: f"row {row.row}"):
        for row in read_swf(path, progress=on_progress):
            jobs += row.status not in PARTS_OF_JOBS
            if row.submit == UNKNOWN:
                collected.notes[NO_SUBMISSION] += 1
                continue
            first = min(first, row.submit)
            _collect(row, collected, servers is not None, memory is not None)
    note_excerpt(header, jobs, collected.notes)
    return collected.workload(
        path,
        cluster,
        "SWF log",
        user_order=number_in_name,
        first=first,
        start_date=_start_date(header, first),
    )


def number_in_name(user: str) -> int:
    """Return the number in a name such as ``user-7``, to sort users; -1 if there is none."""
    number = user.removeprefix("user-")
    return int(number) if number.isdigit() else -1


def _make_cluster(
    header: SwfHeader,
    servers: int | None,
    cores: int | None,
    memory: float | None,
) -> Cluster:
    check_server_options(servers, cores, memory)
    per_server = {} if memory is None else {"memory": memory}
    if servers is not None and cores is not None:
        return equal_servers("server", servers, {"cpu": cores} | per_server)
    processors = header.number("MaxProcs") or header.number("MaxNodes")
    if not processors:
        fault = "its header names no MaxProcs or MaxNodes; give --servers and --cores"
        raise InputError(fault, "", header.source)
    return equal_servers("pool", 1, {"cpu": processors} | per_server)


def _collect(row: SwfRow, collected: JobCollector, on_servers: bool, with_memory: bool) -> None:
    """Add a job if it ran: a task for each processor if `on_servers`, else one task."""
    notes = collected.notes
    processors = row.cores_requested if row.cores_requested > 0 else row.cores_allocated
    rounded = row.run == 0 and row.status == COMPLETED
    never_ran = row.run <= 0 and not rounded
    in_parts = row.status in PARTS_OF_JOBS
    reasons = {PARTS: in_parts, NEVER_RAN: never_ran, NO_PROCESSORS: processors <= 0}
    if is_left_out(reasons, notes):
        return
    note_unused_columns(row, notes)
    notes[ROUNDED_UP] += rounded
    tasks, cores_of_task = (processors, 1) if on_servers else (1, processors)
    column = "8 (cores requested)" if row.cores_requested > 0 else "5 (cores allocated)"
    collected.check_task_count(tasks, f"column {column}")
    shape: tuple[float, ...] = (float(cores_of_task),)
    if with_memory:
        notes[USED_MEMORY] += row.memory_requested < 0 <= row.memory_used
        notes[NO_MEMORY] += row.memory_requested < 0 and row.memory_used < 0
        kib = row.memory_requested if row.memory_requested >= 0 else max(row.memory_used, 0.0)
        shape = (*shape, cores_of_task * kib / KIB_PER_GIB)
    collected.add_job(str(row.job), row.user_name, row.submit, gang=tasks > 1, limit=row.walltime)
    notes[NO_START] += row.wait < 0
    collected.add_tasks(
        shape,
        None,
        repeat(HALF_SECOND if rounded else row.run, tasks),
        start=row.submit + row.wait if row.wait >= 0 else nan,
    )


class SwfRow(NamedTuple):
    """One row of a log, -1 for unknown values.

    Times are seconds from the log's own origin. Cores are those of the whole job. Memory is in the
    unit of the log: KiB per core by the standard, other units in practice.
    """

    row: int  # of the file, from 1, including comments
    job: int
    submit: float
    wait: float
    run: float
    cores_allocated: int
    average_cpu: float
    memory_used: float
    cores_requested: int
    walltime: float  # the requested limit
    memory_requested: float
    status: int  # 1 for a completed job by the standard
    user: int
    group: int
    application: int
    queue: int
    partition: int
    preceding_job: int
    think_time: float
    extra: tuple[str, ...]  # columns after the eighteenth

    @property
    def user_name(self) -> str:
        """Name of the user by its number."""
        return f"user-{self.user}" if self.user >= 0 else "user-unknown"


FIELDS = tuple(name.replace("_", " ") for name in SwfRow._fields[1:-1])


def read_swf(
    path: Path, *, extra_columns: int = 0, progress: ProgressReport | None = None
) -> Iterator[SwfRow]:
    """Yield the jobs of a log; rows that are empty or start with ``;`` are skipped.

    A row has `extra_columns` after the 18 of the format. Raises InputError with file and row, also
    for another number of columns and for submissions that descend. Memory does not grow
    with the log.
    """
    source = str(path)
    empty, latest = True, -math.inf
    for row, line in read_lines(path, progress, comment=COMMENT):
        if not line or line.startswith(COMMENT):
            continue
        empty = False
        fields = line.split()
        if len(fields) != len(FIELDS) + extra_columns:
            expected = f"{len(FIELDS) + extra_columns} columns separated by blanks"
            raise InputError(f"not {expected} but {len(fields)}", f"row {row}", source)
        found = swf_row(row, fields, source)
        if found.submit != UNKNOWN:
            if found.submit < latest:
                fault = f"column 2 (submit): {found.submit:.15g} is before the row above"
                raise InputError(fault, f"row {row}", source)
            latest = found.submit
        yield found
    if empty:
        raise InputError("holds no job", "", source)


@dataclass(slots=True)
class SwfHeader:
    """The comments above the first job, such as ``; MaxProcs: 128``."""

    source: str
    # For each name of an entry: the row in the file and the value of each occurrence.
    entries: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """Return the whole number of an entry, or 0 if it is absent or unknown.

        Raises InputError for a value that is not clearly a whole number, or differing values.
        """
        found: dict[int, int] = {}  # number to row
        for row, value in self.entries.get(name, ()):
            number = _parse_header_number(value)
            if number is None:
                fault = f"{name}: {quoted(value)} is not clearly a whole number; write plain digits"
                raise InputError(fault, f"row {row}", self.source)
            found.setdefault(number, row)
        if len(found) > 1:
            first, other, *_ = found
            fault = f"{name}: is {other}, and {first} in row {found[first]}; keep one of them"
            raise InputError(fault, f"row {found[other]}", self.source)
        return next(iter(found), 0)


def _start_date(header: SwfHeader, first: float) -> float | None:
    """Return the date of the first submission, in seconds since 1970; None if unclear."""
    try:
        start = header.number("UnixStartTime")
    except InputError:
        return None
    return start + first if start else None


def read_header(path: Path) -> SwfHeader:
    """Read the header of a log."""
    header = SwfHeader(str(path))
    with closing(read_lines(path, comment=COMMENT)) as lines:
        for row, line in lines:
            match = _HEADER.match(line)
            if match:
                header.entries.setdefault(match[1], []).append((row, match[2]))
            elif line and not line.startswith(COMMENT):
                break
    return header


def _parse_header_number(value: str) -> int | None:
    """Return a whole number, 0 if the value has no digit, None if it is ambiguous.

    ``1.024`` may be a fraction, ``4k`` may be 4,000 or 4,096, ``1 024`` may be two numbers.
    """
    if not re.search(r"\d", value):
        return 0
    match = _HEADER_NUMBER.fullmatch(value.strip())
    return None if match is None else max(0, int(match[1].replace(",", "")))


def note_excerpt(header: SwfHeader, jobs: int, notes: Counter[str]) -> None:
    """Note how many of the jobs that the header counts are not among the `jobs` of the log."""
    notes[EXCERPT] += max(0, header.number("MaxJobs") - jobs)


def is_left_out(reasons: Mapping[str, bool], notes: Counter[str]) -> bool:
    """Return whether any of `reasons` applies to a job; count the job under the first of them."""
    reason = next((reason for reason, applies in reasons.items() if applies), "")
    notes[reason] += bool(reason)
    return bool(reason)


def note_unused_columns(row: SwfRow, notes: Counter[str]) -> None:
    """Count an unknown user, and the values of columns that no reader uses."""
    notes[NO_USER] += row.user < 0
    notes[UNUSED_COLUMNS["queue"]] += row.queue >= 0
    notes[UNUSED_COLUMNS["partition"]] += row.partition >= 0
    notes[UNUSED_COLUMNS["preceding_job"]] += row.preceding_job > 0
    notes[UNUSED_COLUMNS["think_time"]] += row.think_time > 0


def swf_row(row: int, fields: list[str], source: str) -> SwfRow:
    """Convert the fields of a row; raise InputError for a field that is not a usable number."""
    place = f"row {row}"
    values = [_parse_value(k, text, place, source) for k, text in enumerate(fields[: len(FIELDS)])]
    return SwfRow._make([row, *values, tuple(fields[len(FIELDS) :])])


def _parse_value(column: int, text: str, place: str, source: str) -> float:
    """Return the number in a field, an int in `WHOLE_COLUMNS`."""
    try:
        # Python also reads 1_000 and digits of other scripts as numbers.
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if -LARGEST_NUMBER < value < LARGEST_NUMBER:
        if column not in WHOLE_COLUMNS:
            return value
        if value.is_integer():
            return int(value)
        fault = "is not a whole number"
    else:
        fault = "is not a number" if math.isnan(value) else "is out of range"
    raise InputError(
        f"column {column + 1} ({FIELDS[column]}): {quoted(text)} {fault}", place, source
    )

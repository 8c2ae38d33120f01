"""The Standard Workload Format: one job per row, 18 numbers, blanks between them.

Feitelson's format of the Parallel Workloads Archive; -1 stands for "unknown". Some logs append
columns of their own, which are kept as text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from fairlead.errors import InputError
from fairlead.traces.lines import ProgressReport, read_lines, show

FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "cores allocated",
    "average CPU time",
    "used memory",
    "cores requested",
    "walltime requested",
    "memory requested",
    "status",
    "user",
    "group",
    "application",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
COMMENT = ";"
UNKNOWN = -1
EXCERPT = "jobs that the header's MaxJobs counts and the log lacks, as part of a larger log does"
# Columns that no reader uses, with what they hold; 0 of a preceding job is none.
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
# The columns that may have a fraction; all others are counts and identifiers.
FRACTIONAL = frozenset({1, 2, 3, 5, 6, 8, 9, 17})
# Whole numbers up to here are exact as floats.
LARGEST_NUMBER = 2.0**53


@dataclass(slots=True)
class SwfRow:
    """One row of a log in Standard Workload Format; -1 where the log does not know."""

    row: int  # of the file, from 1, comments counted
    job: int
    # Times in seconds, from the log's own origin; cores of the whole job; memory in the unit of the
    # log (KiB per core by the standard, other units in practice).
    submit: float
    wait: float
    run: float
    cores_allocated: int
    average_cpu: float
    memory_used: float
    cores_requested: int
    walltime: float  # the limit requested
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


def read_swf(
    path: Path, *, extra_columns: int = 0, progress: ProgressReport | None = None
) -> Iterator[SwfRow]:
    """Yield the jobs of a log in Standard Workload Format, compressed or plain.

    Parameters
    ----------
    path : Path
        The log. Rows that are empty or start with ``;`` are skipped; these may be in Latin-1.
    extra_columns : int
        Columns that this kind of log has after the standard 18.
    progress : callable, optional
        See `read_lines`.

    Raises
    ------
    InputError
        For an unreadable file, a wrong number of columns, a field that is not a number, or a log
        without any job. It names the file, the row and the column.

    Notes
    -----
    Memory O(1) in the length of the log.
    """
    source = str(path)
    empty = True
    for row, line in read_lines(path, progress, comment=COMMENT):
        if not line or line.startswith(COMMENT):
            continue
        empty = False
        fields = line.split()
        if len(fields) != len(FIELDS) + extra_columns:
            expected = f"{len(FIELDS) + extra_columns} columns separated by blanks"
            raise InputError(f"not {expected} but {len(fields)}", f"row {row}", source)
        yield _swf_row(row, fields, source)
    if empty:
        raise InputError("holds no job", "", source)


@dataclass(slots=True)
class SwfHeader:
    """The comments above the first job, ``; MaxProcs: 128`` for one."""

    source: str
    # By name: row of the file and value, as often as the header names it.
    entries: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """Return the whole number of an entry, or 0 if it is absent or unknown.

        Raises InputError for a value that is not clearly one whole number, and for two values.
        """
        found: dict[int, int] = {}  # number to row
        for row, value in self.entries.get(name, ()):
            number = _header_number(value)
            if number is None:
                fault = f"{name}: {show(value)} is not clearly a whole number; write plain digits"
                raise InputError(fault, f"row {row}", self.source)
            found.setdefault(number, row)
        if len(found) > 1:
            one, other, *_ = found
            fault = f"{name}: is {other}, and {one} in row {found[one]}; keep one of them"
            raise InputError(fault, f"row {found[other]}", self.source)
        return next(iter(found), 0)


def read_header(path: Path) -> SwfHeader:
    """Return what the comments above the first job say."""
    header = SwfHeader(str(path))
    with closing(read_lines(path, comment=COMMENT)) as lines:
        for row, line in lines:
            match = _HEADER.match(line)
            if match:
                header.entries.setdefault(match[1], []).append((row, match[2]))
            elif line and not line.startswith(COMMENT):
                break
    return header


def _header_number(value: str) -> int | None:
    """Return a whole number, 0 where the value holds no digit, None where it is not clear.

    ``1.024`` may be one and a bit, ``4k`` may be 4,000 or 4,096, ``1 024`` may be two numbers.
    """
    if not re.search(r"\d", value):
        return 0
    match = _HEADER_NUMBER.fullmatch(value.strip())
    return None if match is None else max(0, int(match[1].replace(",", "")))


def note_excerpt(header: SwfHeader, jobs: int, notes: Counter[str]) -> None:
    """Note that the header tells of more jobs than there are, as it does in part of a log."""
    notes[EXCERPT] += max(0, header.number("MaxJobs") - jobs)


def note_unused_columns(row: SwfRow, notes: Counter[str]) -> None:
    """Count the values of a row that no reader uses."""
    notes[UNUSED_COLUMNS["queue"]] += row.queue >= 0
    notes[UNUSED_COLUMNS["partition"]] += row.partition >= 0
    notes[UNUSED_COLUMNS["preceding_job"]] += row.preceding_job > 0
    notes[UNUSED_COLUMNS["think_time"]] += row.think_time > 0


def _swf_row(row: int, fields: list[str], source: str) -> SwfRow:
    try:
        values = [float(field) for field in fields[: len(FIELDS)]]
    except ValueError:
        values = []
    # Python alone reads 1_000 as a number, and digits of other scripts.
    content = "".join(fields[: len(FIELDS)])
    usable = "_" not in content and content.isascii()
    if not values or not usable or not all(map(_in_range, values)):
        raise _number_fault(row, fields, source)
    whole: list[int] = []
    for column, value in enumerate(values):
        if column not in FRACTIONAL and not value.is_integer():
            raise _fault(row, column, f"{fields[column]!r} is not a whole number", source)
        whole.append(int(value))
    return SwfRow(
        row=row,
        job=whole[0],
        submit=values[1],
        wait=values[2],
        run=values[3],
        cores_allocated=whole[4],
        average_cpu=values[5],
        memory_used=values[6],
        cores_requested=whole[7],
        walltime=values[8],
        memory_requested=values[9],
        status=whole[10],
        user=whole[11],
        group=whole[12],
        application=whole[13],
        queue=whole[14],
        partition=whole[15],
        preceding_job=whole[16],
        think_time=values[17],
        extra=tuple(fields[len(FIELDS) :]),
    )


def _number_fault(row: int, fields: list[str], source: str) -> InputError:
    """Find the first field that is not a number of usable size."""
    for column, text in enumerate(fields[: len(FIELDS)]):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isnan(value) or "_" in text or not text.isascii():
            return _fault(row, column, f"{show(text)} is not a number", source)
        if not _in_range(value):
            return _fault(row, column, f"{show(text)} is out of range", source)
    raise AssertionError("every field is a number in range")


def _in_range(value: float) -> bool:
    return -LARGEST_NUMBER < value < LARGEST_NUMBER


def _fault(row: int, column: int, fault: str, source: str) -> InputError:
    return InputError(f"column {column + 1} ({FIELDS[column]}): {fault}", f"row {row}", source)

"""The Standard Workload Format: one job per row, 18 numbers, blanks between them.

Feitelson's format of the Parallel Workloads Archive; -1 stands for "unknown". Some logs append
columns of their own, which are kept as text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
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
EXCERPT = "jobs that the header's MaxJobs counts and the log lacks, as part of a larger log does"
_HEADER = re.compile(r";\s*(\w+)\s*:\s*(.*)")
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
    """Yield the jobs of a log in Standard Workload Format, gzipped or plain.

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


def read_header(path: Path) -> dict[str, str]:
    """Return what the comments above the first job say, ``; MaxProcs: 128`` for one, by name."""
    header: dict[str, str] = {}
    with closing(read_lines(path, comment=COMMENT)) as lines:
        for _, line in lines:
            match = _HEADER.match(line)
            if match:
                header.setdefault(match[1], match[2])
            elif line and not line.startswith(COMMENT):
                break
    return header


def number_in_header(header: Mapping[str, str], name: str) -> int:
    """Return a whole number with which an entry begins, or 0 if it begins with none."""
    number = re.match(r"[0-9]{1,9}(?![0-9])", header.get(name, ""))
    return int(number[0]) if number else 0


def note_excerpt(header: Mapping[str, str], jobs: int, notes: Counter[str]) -> None:
    """Note that the header tells of more jobs than there are, as it does in part of a log."""
    notes[EXCERPT] += max(0, number_in_header(header, "MaxJobs") - jobs)


def _swf_row(row: int, fields: list[str], source: str) -> SwfRow:
    try:
        values = [float(field) for field in fields[: len(FIELDS)]]
    except ValueError:
        values = []
    # Python alone reads 1_000 as a number.
    if not values or "_" in "".join(fields[: len(FIELDS)]) or not all(map(_in_range, values)):
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
    for column, field in enumerate(fields[: len(FIELDS)]):
        try:
            value = float(field)
        except ValueError:
            value = math.nan
        if math.isnan(value) or "_" in field:
            return _fault(row, column, f"{show(field)} is not a number", source)
        if not _in_range(value):
            return _fault(row, column, f"{show(field)} is out of range", source)
    raise AssertionError("every field is a number in range")


def _in_range(value: float) -> bool:
    return -LARGEST_NUMBER < value < LARGEST_NUMBER


def _fault(row: int, column: int, fault: str, source: str) -> InputError:
    return InputError(f"column {column + 1} ({FIELDS[column]}): {fault}", f"row {row}", source)

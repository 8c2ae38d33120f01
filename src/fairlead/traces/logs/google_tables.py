"""Read the tables of Google's trace of 2011, by their published schema.

Clusterdata-2011-2, format version 2.1: each table is a folder of parts without headers, such as
``part-00000-of-00500.csv.gz``. Times are whole microseconds. The trace starts at 600 s; 0 means
before the trace, and 2^63 - 1 after its end. Amounts are shares of the largest machine. Source:
C. Reiss, J. Wilkes, J. L. Hellerstein, "Google cluster-usage traces: format + schema"; field names
are those of the trace's own ``schema.csv``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from fairlead.errors import InputError
from fairlead.traces._csv_tables import Block, TraceColumn, read_blocks
from fairlead.traces._stored_files import ProgressReport

PART = "part-*-of-*.csv*"
MICROSECONDS = 1_000_000
TRACE_START = 600  # seconds
AFTER_TRACE = 2**63 - 1

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE_PENDING, UPDATE_RUNNING = range(9)
ENDINGS = {EVICT: "evicted", FAIL: "failed", FINISH: "finished", KILL: "killed", LOST: "lost"}
MACHINE_ADD, MACHINE_REMOVE, MACHINE_UPDATE = range(3)
EQUAL, NOT_EQUAL, LESS, GREATER = range(4)

_TIME = TraceColumn("time", "whole", most=AFTER_TRACE)
JOB_EVENTS = (
    _TIME,
    TraceColumn("missing info", "whole", optional=True),
    TraceColumn("job ID", "whole", most=AFTER_TRACE),
    TraceColumn("event type", "whole", most=UPDATE_RUNNING),
    TraceColumn("user", optional=True),
    TraceColumn("scheduling class", "whole", optional=True),
    TraceColumn("job name", optional=True),
    TraceColumn("logical job name", optional=True),
)
TASK_EVENTS = (
    _TIME,
    TraceColumn("missing info", "whole", optional=True),
    TraceColumn("job ID", "whole", most=AFTER_TRACE),
    TraceColumn("task index", "whole", most=2**31 - 1),
    TraceColumn("machine ID", "whole", most=AFTER_TRACE, optional=True),
    TraceColumn("event type", "whole", most=UPDATE_RUNNING),
    TraceColumn("user", optional=True),
    TraceColumn("scheduling class", "whole", optional=True),
    TraceColumn("priority", "whole"),
    TraceColumn("CPU request", "real", optional=True),
    TraceColumn("memory request", "real", optional=True),
    TraceColumn("disk space request", "real", optional=True),
    TraceColumn("different machines restriction", optional=True),
)
MACHINE_EVENTS = (
    _TIME,
    TraceColumn("machine ID", "whole", most=AFTER_TRACE),
    TraceColumn("event type", "whole", most=MACHINE_UPDATE),
    TraceColumn("platform ID", optional=True),
    TraceColumn("CPUs", "real", optional=True),
    TraceColumn("memory", "real", optional=True),
)
MACHINE_ATTRIBUTES = (
    _TIME,
    TraceColumn("machine ID", "whole", most=AFTER_TRACE),
    TraceColumn("attribute name"),
    TraceColumn("attribute value", optional=True),
    TraceColumn("attribute deleted", "whole", most=1),
)
TASK_CONSTRAINTS = (
    _TIME,
    TraceColumn("job ID", "whole", most=AFTER_TRACE),
    TraceColumn("task index", "whole", most=2**31 - 1),
    TraceColumn("comparison operator", "whole", most=GREATER),
    TraceColumn("attribute name"),
    TraceColumn("attribute value", optional=True),
)


def parts_of(folder: Path, table: str) -> list[Path]:
    """Return a table's parts in order; none if it has no folder.

    Raises InputError for a part that is there both plain and compressed.
    """
    return each_once(sorted((folder / table).glob(PART)))


def each_once(parts: list[Path]) -> list[Path]:
    """Return the parts, which are sorted; InputError for a part that is plain and compressed."""
    for previous, part in pairwise(parts):
        if stem_of(previous) == stem_of(part):
            raise InputError(f"is there twice, also as {previous.name}", "", str(part))
    return parts


def stem_of(part: Path) -> str:
    """Return a file's name up to the first dot."""
    return part.name.partition(".")[0]


class Progress:
    """Reports the progress of several files as if they were one file."""

    def __init__(self, report: ProgressReport | None, files: Sequence[Path]) -> None:
        self._report = report
        self._before = 0
        self._total = sum(file.stat().st_size for file in files if file.exists())

    def report_bytes(self, done: int, size: int) -> None:
        """Report the bytes read of the current file; once all are read, the next file follows."""
        if self._report is not None:
            self._report(self._before + done, self._total)
        if done == size:
            self._before += size


def read_parts(
    parts: Sequence[Path], columns: Sequence[TraceColumn], progress: Progress
) -> Iterator[Block]:
    """Yield the blocks of a table; raise InputError for times that descend, also between parts."""
    latest = 0
    for part in parts:
        for block in read_blocks(part, columns, on_progress=progress.report_bytes):
            time = block.frame["time"]
            earlier = time.shift(1, fill_value=latest)
            block.refuse(time < earlier, "is before the row above", "time")
            latest = int(time[-1])
            yield block

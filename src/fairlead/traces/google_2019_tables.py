"""The published schema of Google's traces of 2019, and the rows of their tables.

Version 3 of the format. A cell has files such as ``instance_events-000000000000.json.gz``: JSON
lines as BigQuery exports them, with whole numbers in quotes, and absent fields left out. A query's
result may be CSV with a heading, where a field of a record is ``resource_request.cpus`` or
``resource_request_cpus``. Rows have no order. Source: J. Wilkes, "Google cluster-usage traces v3",
and ``clusterdata_trace_format_v3.proto`` in github.com/google/cluster-data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import isfinite
from pathlib import Path

from fairlead.errors import InputError
from fairlead.traces._csv_tables import TraceColumn, split_row
from fairlead.traces._job_collector import LARGEST_POOL
from fairlead.traces._stored_files import read_lines, show
from fairlead.traces.google_tables import AFTER_TRACE, Progress

Value = int | float | str | bool | None

COLLECTIONS, INSTANCES, MACHINES = "collection_events", "instance_events", "machine_events"
TABLES = (COLLECTIONS, INSTANCES, MACHINES)

SUBMIT, QUEUE, ENABLE, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST = range(9)
UPDATE_RUNNING = 10
ENDINGS = {EVICT: "evicted", FAIL: "failed", FINISH: "finished", KILL: "killed", LOST: "lost"}
ADD, REMOVE, UPDATE = 1, 2, 3

_TIME = TraceColumn("time", "whole", most=AFTER_TRACE)
_COLLECTION = TraceColumn("collection_id", "whole", most=AFTER_TRACE)
COLLECTION_COLUMNS = (
    _COLLECTION,
    TraceColumn("user", optional=True),
    TraceColumn("max_per_machine", "whole", least=-1, optional=True),
    TraceColumn("max_per_switch", "whole", least=-1, optional=True),
    TraceColumn("start_after_collection_ids", "flag", optional=True),
)
INSTANCE_COLUMNS = (
    _TIME,
    TraceColumn("type", "whole", most=UPDATE_RUNNING),
    _COLLECTION,
    TraceColumn("instance_index", "whole", most=2**31 - 1),
    TraceColumn("machine_id", "whole", least=-1, most=AFTER_TRACE, optional=True),
    TraceColumn("alloc_collection_id", "whole", least=-1, most=AFTER_TRACE, optional=True),
    TraceColumn("resource_request.cpus", "real", optional=True),
    TraceColumn("resource_request.memory", "real", optional=True),
    TraceColumn("constraint", "flag", optional=True),
)
MACHINE_COLUMNS = (
    _TIME,
    TraceColumn("machine_id", "whole", most=AFTER_TRACE),
    TraceColumn("type", "whole", least=ADD, most=UPDATE),
    TraceColumn("capacity.cpus", "real", optional=True),
    TraceColumn("capacity.memory", "real", optional=True),
)

_FILE = r"(-\d+)?\.(json|jsonl|ndjson|csv)(\.(gz|bz2|xz|zip))?"
_LONGEST_WHOLE = 20
_WHOLE = re.compile(r"(-?\d{1,19})(?:\.0+)?")
_REAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def is_google_2019(folder: Path) -> bool:
    """Return whether a folder holds tables of 2019: files named by table, in a folder each or not.

    A folder of the tables of 2011 has other files: ``part-00000-of-00500.csv.gz``.
    """
    return folder.is_dir() and any(_files_of(folder, table) for table in TABLES)


def parts_of(folder: Path, table: str) -> list[Path]:
    """Return a table's files by name; one that is there twice is refused."""
    parts = _files_of(folder, table)
    for one, part in pairwise(parts):
        if _stem(one) == _stem(part):
            raise InputError(f"is there twice, also as {one.name}", "", str(part))
    return parts


def _files_of(folder: Path, table: str) -> list[Path]:
    both = [*folder.glob(f"{table}*"), *(folder / table).glob(f"{table}*")]
    found = [path for path in both if re.fullmatch(table + _FILE, path.name) and path.is_file()]
    return sorted(found, key=lambda path: (_stem(path), path))


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def read_rows(
    parts: Sequence[Path], columns: Sequence[TraceColumn], progress: Progress
) -> Iterator[tuple[Value, ...]]:
    """Yield the values of `columns` of all rows, None where absent; O(rows), some 15 us each.

    A flag is whether a list has an entry. Raises InputError, which names file, row and column, for
    a file that is damaged or is neither JSON lines nor CSV, and a field that is absent, no number
    or out of range.
    """
    for part in parts:
        yield from _rows_of(part, columns, progress)


def _rows_of(
    path: Path, columns: Sequence[TraceColumn], progress: Progress
) -> Iterator[tuple[Value, ...]]:
    source, size = str(path), path.stat().st_size

    def report(done: int, of: int) -> None:
        # A file that is not at its end must not look like it: `Progress` goes on to the next.
        progress.report_bytes(max(0, min(done, of - 1)), of)

    fields: Callable[[str], list[object]] | None = None
    for number, line in read_lines(path, report):
        if not line:
            continue
        try:
            if fields is None:
                if not line.startswith("{"):
                    fields = _fields_of_csv(line, columns)
                    continue
                fields = _fields_of_json(columns)
            row = tuple(map(_value, fields(line), columns))
        except InputError as error:
            raise InputError(error.fault, f"row {number}", source) from None
        yield row
    progress.report_bytes(size, size)


def _fields_of_json(columns: Sequence[TraceColumn]) -> Callable[[str], list[object]]:
    """Return a function that picks the fields of a line."""
    paths = [column.name.partition(".") for column in columns]

    def fields(line: str) -> list[object]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"is not JSON: {show(line)}") from None
        if not isinstance(record, dict):
            raise InputError(f"is not a JSON record: {show(line)}")
        found: list[object] = []
        for name, _, inner in paths:
            value = record.get(name)
            if inner and value is not None:
                if not isinstance(value, dict):
                    raise InputError(f"column {name}: {show(value)} is not a record")
                value = value.get(inner)
            found.append(value)
        return found

    return fields


def _fields_of_csv(heading: str, columns: Sequence[TraceColumn]) -> Callable[[str], list[object]]:
    """Return a function that picks the fields of a row."""
    names = [name.strip().replace(".", "_") for name in split_row(heading, 0, "")]
    wanted = [column.name.replace(".", "_") for column in columns]
    for name, column in zip(wanted, columns, strict=True):
        if name not in names and not column.optional:
            raise InputError(f"has no column {column.name}, and is no JSON record")
    places = [names.index(name) if name in names else None for name in wanted]

    def fields(line: str) -> list[object]:
        values = split_row(line, 0, "")  # the caller names file and row of a fault
        if len(values) != len(names):
            raise InputError(f"has {len(values)} columns, where the heading has {len(names)}")
        return [None if place is None else values[place].strip() for place in places]

    return fields


def _value(given: object, column: TraceColumn) -> Value:
    if given is None or given == "":
        if not column.optional:
            raise InputError(f"column {column.name}: is not given")
        return None
    if column.kind == "flag":
        return given not in ([], "[]")
    if column.kind == "text":
        return str(given)
    number = _whole(given) if column.kind == "whole" else _real(given)
    if number is None:
        what = "a whole number" if column.kind == "whole" else "a number"
        raise InputError(f"column {column.name}: {show(given)} is not {what}")
    most = column.most if column.kind == "whole" else LARGEST_POOL
    if not column.least <= number <= most:
        fault = f"{show(given)} is not from {column.least} to {most}"
        raise InputError(f"column {column.name}: {fault}")
    return number


def _whole(given: object) -> int | None:
    if isinstance(given, str):
        if not given.isascii():
            return None
        if given.isdigit() and len(given) < _LONGEST_WHOLE:  # most fields of JSON
            return int(given)
        found = _WHOLE.fullmatch(given)
        return int(found[1]) if found else None
    if isinstance(given, float):
        return int(given) if given.is_integer() else None
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _real(given: object) -> float | None:
    if isinstance(given, str):
        return _finite(float(given)) if given.isascii() and _REAL.fullmatch(given) else None
    if isinstance(given, int | float) and not isinstance(given, bool):
        return _finite(given)
    return None


def _finite(number: float) -> float | None:
    try:
        return float(number) if isfinite(number) else None
    except OverflowError:  # a whole number of hundreds of digits
        return None

"""Read the rows of the tables of Google's traces of 2019, by their published schema.

Version 3 of the format. A cell has files such as ``instance_events-000000000000.json.gz``. They are
JSON lines as BigQuery exports them: whole numbers are in quotes, and empty fields are absent. Rows
have no order. Source: J. Wilkes, "Google cluster-usage traces v3", and
``clusterdata_trace_format_v3.proto`` in github.com/google/cluster-data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from fairlead.errors import InputError
from fairlead.traces._csv_tables import (
    ROW,
    TraceColumn,
    convert,
    numbered_lines,
    read_texts,
)
from fairlead.traces._stored_files import error_source, quoted
from fairlead.traces.logs.google_tables import AFTER_TRACE, Progress, each_once, stem_of
from fairlead.traces.logs.job_collector import LARGEST_GIVEN

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
    TraceColumn("resource_request.cpus", "real", most=LARGEST_GIVEN, optional=True),
    TraceColumn("resource_request.memory", "real", most=LARGEST_GIVEN, optional=True),
    TraceColumn("constraint", "flag", optional=True),
)
MACHINE_COLUMNS = (
    _TIME,
    TraceColumn("machine_id", "whole", most=AFTER_TRACE),
    TraceColumn("type", "whole", least=ADD, most=UPDATE),
    TraceColumn("capacity.cpus", "real", most=LARGEST_GIVEN, optional=True),
    TraceColumn("capacity.memory", "real", most=LARGEST_GIVEN, optional=True),
)

_FILE = r"(-\d+)?\.(json|jsonl|ndjson)(\.(gz|bz2|xz|zip))?"


def parts_of(folder: Path, table: str) -> list[Path]:
    """Return a table's files in order of their names.

    Raises InputError for a file that is there both plain and compressed.
    """
    return each_once(_files_of(folder, table))


def _files_of(folder: Path, table: str) -> list[Path]:
    both = [*folder.glob(f"{table}*"), *(folder / table).glob(f"{table}*")]
    found = [path for path in both if re.fullmatch(table + _FILE, path.name) and path.is_file()]
    return sorted(found, key=lambda path: (stem_of(path), path))


def read_rows(
    parts: Sequence[Path], columns: Sequence[TraceColumn], progress: Progress
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a table, a block at a time; O(rows).

    A column of kind ``flag`` is a list in the file, and true if the list has an entry. Raises
    InputError with file, row and column, for a file that is damaged or is not JSON lines, and for a
    field that is absent, not a number, or out of range.
    """
    for part in parts:
        source = str(part)
        for row, text in read_texts(part, progress.report_bytes):
            lines = numbered_lines(text, row, source)
            if len(lines):
                yield convert(_json_fields(lines, columns, source), columns, source).frame


def _json_fields(lines: pl.DataFrame, columns: Sequence[TraceColumn], source: str) -> pl.DataFrame:
    """Return the fields of JSON lines as text that `convert` reads; absent fields are empty."""
    paths = [column.name.partition(".") for column in columns]
    found: list[list[str]] = [[] for _ in columns]
    for row, line in lines.iter_rows():
        with error_source(source, f"row {row}"):
            record = _parse_record(line)
            for column, fields, (name, _, inner) in zip(columns, found, paths, strict=True):
                value = record.get(name)
                if inner and value is not None:
                    if not isinstance(value, dict):
                        raise InputError(f"{name}: {quoted(value)} is not a record")
                    value = value.get(inner)
                if column.kind == "flag":
                    value = "true" if value else "false"
                fields.append("" if value is None else str(value).strip())
    texts = {column.name: fields for column, fields in zip(columns, found, strict=True)}
    return pl.DataFrame(texts).with_columns(lines[ROW])


def _parse_record(line: str) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"is not JSON: {quoted(line)}") from None
    if not isinstance(record, dict):
        raise InputError(f"is not a JSON record: {quoted(line)}")
    return record

"""Read Google's traces of 2019: cells of Borg, with events of collections and machines.

1. A collection is a job, and its instances are tasks. Collections are of tasks or of alloc
   instances, which reserve amounts on a machine. Tasks that run inside an alloc instance are left
   out, as they take nothing more of the machine. There are no gangs.
2. A task may run everywhere: its constraints are ignored and counted.
3. Tasks that never ran, request nothing or took no time are left out, and also earlier attempts of
   tasks. Tasks that run at the start or end of the trace are cut there.
4. The servers are those of the machine events. A machine whose capacity changes is another server
   from then on.

A cell has files such as ``instance_events-000000000000.json.gz``, by version 3 of the published
schema. They are JSON lines as BigQuery exports them: whole numbers are in quotes, and empty fields
are absent. Rows have no order, so the events of a task may be in any file: read a whole cell, or
the result of a query for some collections. Source: J. Wilkes, "Google cluster-usage traces v3", and
``clusterdata_trace_format_v3.proto`` in github.com/google/cluster-data.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.traces._csv_tables import ROW, TraceColumn, convert, numbered_lines
from fairlead.traces._stored_files import ProgressReport, error_source, quoted, read_texts
from fairlead.traces.logs.google import TASK, tasks_that_ran, workload_of_tasks
from fairlead.traces.logs.google_tables import (
    AFTER_TRACE,
    MICROSECONDS,
    TRACE_START,
    GoogleMachines,
    Progress,
    each_once,
    group_machines,
    machine_history,
    stem_of,
)
from fairlead.traces.logs.job_collector import LARGEST_GIVEN, NO_USER, in_brackets

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

IN_ALLOC = "tasks left out, as they ran inside an alloc instance, which counts as a task"
CONSTRAINED = "tasks with constraints; the constraints are ignored"
NO_SERVER = "tasks whose machine is not known"
AFTER_END = "events of machines after the trace, left out"
SPREAD = "jobs with a limit of tasks on a machine or switch; the limit is ignored"
AFTER_OTHERS = "jobs that start after others; this order is ignored"


class Collections(NamedTuple):
    """Users and limits of collections, by the number of the collection."""

    users: dict[int, str]
    spread: set[int]  # collections with a limit of instances on a machine or switch
    after_others: set[int]  # collections that start after others


def read_google_2019(path: Path, *, on_progress: ProgressReport | None = None) -> Workload:
    """Read a cell of Google's traces of 2019 with recorded starts and servers. O(rows).

    `path` has the files of ``collection_events``, ``instance_events`` and ``machine_events``, or a
    folder for each of these tables.

    A job arrives with the first event of its tasks that ran. A task counts once, with the duration
    of its last attempt, from the time when it was scheduled until it ended for any reason. The task
    takes the last amounts that are not all 0. Amounts are shares of the largest machine; times are
    seconds from the start of the trace.
    """
    parts = {table: parts_of(path, table) for table in TABLES}
    for table, files in parts.items():
        if not files:
            raise InputError(f"has no file such as {table}-000000000000.json.gz", "", str(path))
    progress = Progress(on_progress, [part for files in parts.values() for part in files])
    notes: Counter[str] = Counter()
    machines = _read_machines(parts[MACHINES], notes, progress)
    collections = _read_collections(parts[COLLECTIONS], progress)
    tasks = _last_attempts(_read_events(parts[INSTANCES], progress), notes)
    if not len(tasks):
        raise InputError(f"holds no task that ran{in_brackets(notes)}", "", str(path))
    tasks = _with_users(_with_servers(tasks, machines), collections, notes)
    notes[NO_SERVER] += int((tasks["server"] < 0).sum())
    with error_source(str(path)):
        origin = f"Google's trace of 2019, {path.name}"
        return workload_of_tasks(tasks.with_columns(place=0), machines, origin, notes)


def _read_machines(
    parts: Sequence[Path], notes: Counter[str], progress: Progress
) -> GoogleMachines:
    """Return the machines of the events during the trace, grouped by capacity."""
    frames = list(read_rows(parts, MACHINE_COLUMNS, progress))
    rows = list[tuple[Any, ...]]()
    if frames:
        events = pl.concat(frames).sort("time", maintain_order=True)
        during = events.filter(pl.col("time") < AFTER_TRACE)
        notes[AFTER_END] += len(events) - len(during)
        kind = pl.col("type") - ADD  # the number of this event in the trace of 2011
        rows = during.select("time", "machine_id", kind, "capacity.cpus", "capacity.memory").rows()
    return group_machines(machine_history(rows, str(parts[0]), notes), {}, ())


def _read_collections(parts: Sequence[Path], progress: Progress) -> Collections:
    """Return the users of collections, and those that have limits or start after others."""
    found = Collections({}, set(), set())
    spread = pl.max_horizontal("max_per_machine", "max_per_switch") > 0
    for frame in read_rows(parts, COLLECTION_COLUMNS, progress):
        named = frame.drop_nulls("user").select("collection_id", "user")
        for collection, user in named.iter_rows():
            found.users.setdefault(collection, user)
        found.spread.update(frame.filter(spread)["collection_id"])
        after = frame.filter("start_after_collection_ids")
        found.after_others.update(after["collection_id"])
    return found


def _read_events(parts: Sequence[Path], progress: Progress) -> pl.DataFrame:
    """Return the events of instances in order of time; missing amounts are 0."""
    frames = [
        frame.select(
            "time",
            kind=pl.col("type").cast(pl.Int8),
            job="collection_id",
            index=pl.col("instance_index").cast(pl.Int32),
            machine=pl.col("machine_id").fill_null(0),
            alloc=pl.col("alloc_collection_id").fill_null(0),
            cpu=pl.col("resource_request.cpus").fill_null(0.0),
            memory=pl.col("resource_request.memory").fill_null(0.0),
            constrained="constraint",
        )
        for frame in read_rows(parts, INSTANCE_COLUMNS, progress)
    ]
    if not frames:
        raise InputError("holds no event", "", str(parts[0]))
    return pl.concat(frames).sort("time", maintain_order=True).with_row_index("order")


def _last_attempts(events: pl.DataFrame, notes: Counter[str]) -> pl.DataFrame:
    """Return the tasks that ran, with the times of their last attempt in microseconds."""
    time, kind = pl.col("time"), pl.col("kind")
    asks = pl.col("cpu") + pl.col("memory") > 0
    requests = events.group_by(TASK, maintain_order=True).agg(
        time.first().alias("first_event"),
        pl.col("cpu", "memory").filter(asks).last().fill_null(0.0),
        (pl.col("alloc") > 0).any().alias("inside"),
        pl.col("constrained").any(),
    )
    begins = (
        events.filter((kind == SCHEDULE) & (time < AFTER_TRACE))
        .group_by(TASK)
        .agg(begin=time.last(), machine=pl.col("machine").last(), attempts=pl.len())
    )
    # An end at the time of the last start belongs to the previous attempt, if there is one.
    after = time > pl.col("begin")
    at_once = (time == pl.col("begin")) & (pl.col("attempts") == 1)
    ends = events.filter(kind.is_in(list(ENDINGS))).join(begins, on=TASK).filter(after | at_once)
    inside = events["time"].filter(events["time"] < AFTER_TRACE)
    trace_end = int(inside[-1]) if len(inside) else 0
    outside_allocs = {IN_ALLOC: ~pl.col("inside")}
    tasks = tasks_that_ran(requests, begins, ends, trace_end, ENDINGS, notes, outside_allocs)
    notes[CONSTRAINED] += int(tasks["constrained"].sum())
    return tasks


def _with_servers(tasks: pl.DataFrame, machines: GoogleMachines) -> pl.DataFrame:
    """Add a column `server`: the server that was the task's machine at its start; -1 if unknown."""
    schema = {"since": pl.Float64, "machine": pl.Int64, "server": pl.Int32}
    joined = pl.DataFrame(machines.joined, schema=schema, orient="row")
    joined = joined.sort("since", maintain_order=True)
    seconds = (pl.col("start") / MICROSECONDS - TRACE_START).alias("seconds")
    found = tasks.with_columns(seconds).sort("seconds", maintain_order=True)
    found = found.join_asof(
        joined, left_on="seconds", right_on="since", by="machine", check_sortedness=False
    )
    return found.with_columns(pl.col("server").fill_null(-1))


def _with_users(tasks: pl.DataFrame, collections: Collections, notes: Counter[str]) -> pl.DataFrame:
    """Add a column `user`, null if unknown; count limits and unknown users of jobs in `notes`."""
    jobs = tasks["job"].unique().to_list()
    notes[SPREAD] += len(collections.spread.intersection(jobs))
    notes[AFTER_OTHERS] += len(collections.after_others.intersection(jobs))
    users = [collections.users.get(job) for job in jobs]
    notes[NO_USER] += users.count(None)
    known = pl.DataFrame({"job": jobs, "user": users}, schema_overrides={"user": pl.String})
    return tasks.join(known, on="job")


def parts_of(folder: Path, table: str) -> list[Path]:
    """Return a table's files in order of their names.

    Raises InputError for a file that is there both plain and compressed.
    """
    both = [*folder.glob(f"{table}*"), *(folder / table).glob(f"{table}*")]
    found = [path for path in both if re.fullmatch(table + _FILE, path.name) and path.is_file()]
    return each_once(sorted(found, key=lambda path: (stem_of(path), path)))


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
            lines = numbered_lines(text, row)
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

"""Read and write the project's own trace as a folder of CSV files, which can be edited by hand.

It has the same content as a Parquet trace; docs/traces.md shows the files.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fairlead.errors import InputError, ProblemError
from fairlead.formats.atomic_files import replaced_folder
from fairlead.formats.documents import LARGEST_FILE, parse_json
from fairlead.model.arguments import texts
from fairlead.model.cluster import Cluster
from fairlead.model.queues import Queues, read_limits, read_queues
from fairlead.model.quotas import read_quotas
from fairlead.model.workload import EVENT_NAMES, IndexArray, Workload
from fairlead.traces._csv_tables import Block, TraceColumn, first_true, read_blocks, read_table
from fairlead.traces._json_files import read_json
from fairlead.traces._stored_files import ProgressReport, error_source, stored_as
from fairlead.traces.parquet_trace import metadata_of

MARKER, VERSION_KEY = "trace.json", "trace"
SERVERS, USERS, JOBS = "servers.csv", "users.csv", "jobs.csv"
TASKS, EVENTS = "tasks.csv", "server_events.csv"
FORMAT_VERSION = 1
# A place is the groups on which a task may run: ``big|small``, or an empty field for all groups.
BETWEEN_GROUPS = "|"
NEVER = "never"  # the recorded start of a task that never started

USER_COLUMNS = (TraceColumn("user"), TraceColumn("weight", "real"))
# Present if users are in queues.
QUEUE_COLUMNS = (TraceColumn("queue", optional=True),)
JOB_COLUMNS = (
    TraceColumn("job"),
    TraceColumn("user"),
    TraceColumn("submit", "real"),
    TraceColumn("gang", "flag"),
    TraceColumn("cancel", "real", optional=True),
)
# Present if any job has a limit.
LIMIT_COLUMNS = (TraceColumn("limit", "real", optional=True),)
EVENT_COLUMNS = (TraceColumn("time", "real"), TraceColumn("event"), TraceColumn("server"))
# ``start`` is present if any start or server is known, ``server`` if any server is.
RECORDED_COLUMNS = (TraceColumn("start", optional=True), TraceColumn("server", optional=True))

# The name of a server: its group, and its number in the group.
_SERVER = "^(?<group>.*)-(?<number>[0-9]{1,10})$"
# The file of each kind of entry that an error of `Workload` may name.
_FILE_OF_ENTRY = {
    "groups": SERVERS,
    "users": USERS,
    "jobs": JOBS,
    "tasks": TASKS,
    "server events": EVENTS,
}


def write_folder(workload: Workload, path: Path) -> None:
    """Write a workload as a folder of CSV files, completely or not at all, in O(tasks).

    An existing trace is replaced. Raises InputError for any other folder that is not empty, for
    names that begin or end with a blank, and for names of groups with a ``|``.
    """
    cluster = workload.cluster
    _check_names(workload, str(path))
    with replaced_folder(path, MARKER) as draft:
        for name, frame in (
            (SERVERS, _servers_frame(cluster)),
            (USERS, _users_frame(workload)),
            (JOBS, _jobs_frame(workload)),
            (TASKS, _tasks_frame(workload)),
            (EVENTS, _events_frame(workload)),
        ):
            frame.write_csv(draft / name)
        marker = {
            VERSION_KEY: FORMAT_VERSION,
            "resources": dict(zip(cluster.resources, cluster.units, strict=True)),
            **metadata_of(workload),
        }
        (draft / MARKER).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")


def _check_names(workload: Workload, source: str) -> None:
    for names in (workload.cluster.groups, workload.users, workload.job_names.tolist()):
        for name in names:
            if name != name.strip():
                fault = "begins or ends with a blank, which CSV would lose"
                raise InputError(f"the name {name!r} {fault}", "", source)
    for name in workload.cluster.groups:
        if BETWEEN_GROUPS in name:
            raise InputError(
                f"group {name!r}: its name must not contain {BETWEEN_GROUPS!r}", "", source
            )


def _servers_frame(cluster: Cluster) -> pl.DataFrame:
    amounts = {name: cluster.capacity[:, r] for r, name in enumerate(cluster.resources)}
    labels = [json.dumps(dict(of_group)) if of_group else None for of_group in cluster.labels]
    return pl.DataFrame(
        {"group": cluster.groups, "count": cluster.count, **amounts, "labels": labels},
        schema_overrides={"labels": pl.String},
    )


def _users_frame(workload: Workload) -> pl.DataFrame:
    frame = pl.DataFrame({"user": workload.users, "weight": workload.weight})
    if workload.queues is None:
        return frame
    queue = pl.Series("queue", workload.queues.user_queue(), dtype=pl.String)
    return frame.with_columns(queue)


def _jobs_frame(workload: Workload) -> pl.DataFrame:
    """Return a row for each job; times that are infinite are null."""
    frame = pl.DataFrame(
        {
            "job": workload.job_names,
            "user": np.array(workload.users, dtype=object)[workload.job_user],
            "submit": workload.job_submit,
            "gang": workload.job_gang,
            "cancel": workload.job_cancel,
            "limit": workload.job_limit,
        },
        schema_overrides={"user": pl.String},
    )
    times = pl.col("cancel", "limit")
    frame = frame.with_columns(pl.when(times.is_finite()).then(times))  # null instead of infinity
    return frame if frame["limit"].is_not_null().any() else frame.drop("limit")


def _tasks_frame(workload: Workload) -> pl.DataFrame:
    """Return a row for each task, with starts and servers if any is known."""
    places = [
        None if place.all() else BETWEEN_GROUPS.join(np.array(workload.cluster.groups)[place])
        for place in workload.places
    ]
    set_of_task = np.repeat(np.arange(workload.n_sets), workload.set_tasks)
    shapes = workload.shapes[workload.set_shape[set_of_task]]
    amounts = {name: shapes[:, r] for r, name in enumerate(workload.cluster.resources)}
    frame = pl.DataFrame(
        {
            "job": pl.Series(workload.job_names)[workload.set_job[set_of_task]],
            "place": pl.Series(places, dtype=pl.String)[workload.set_place[set_of_task]],
            **amounts,
            "duration": workload.task_duration,
        }
    )
    start, server = workload.task_start, workload.task_server
    if workload.has_starts or (server >= 0).any():
        # An unknown start (NaN) becomes null, and an infinite one `NEVER`.
        text = pl.Series(start).cast(pl.String)
        text = text.zip_with(pl.Series(np.isfinite(start)), pl.Series([None], dtype=pl.String))
        text = text.zip_with(pl.Series(~np.isinf(start)), pl.Series([NEVER]))
        frame = frame.with_columns(text.alias("start"))
    if (server >= 0).any():
        names = pl.Series(_server_names(workload, server))
        names = names.zip_with(pl.Series(server >= 0), pl.Series([None], dtype=pl.String))
        frame = frame.with_columns(names.alias("server"))
    return frame


def _events_frame(workload: Workload) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "time": workload.server_time,
            "event": pl.Series(EVENT_NAMES)[workload.server_event.astype(np.int64)],
            "server": _server_names(workload, workload.server),
        }
    )


def _server_names(workload: Workload, server: IndexArray) -> pl.Series:
    """Return the names of servers, such as ``big-0``; negative numbers get meaningless names."""
    first = workload.first_server
    group = np.maximum(np.searchsorted(first, server, side="right") - 1, 0)
    frame = pl.DataFrame(
        {
            "group": pl.Series(workload.cluster.groups)[group],
            "number": server.astype(np.int64) - first[group],
        }
    )
    return frame.select(pl.format("{}-{}", "group", "number")).to_series()


def read_folder(path: Path, *, on_progress: ProgressReport | None = None) -> Workload:
    """Read a trace from a folder of CSV files, plain or compressed, in O(jobs + tasks).

    Raises InputError with file and row for

    - a file that is missing, or is there both plain and compressed;
    - a wrong header, a malformed row or an unknown name;
    - tasks that are not in the order of their jobs.
    """
    marker = _read_marker(stored_as(path, MARKER))
    resources, devices, queues = (marker.pop(key) for key in ("resources", "devices", "queues"))
    cluster = _read_servers(stored_as(path, SERVERS), resources, devices)
    users = _check_unique(
        read_table(stored_as(path, USERS), USER_COLUMNS, may_follow=QUEUE_COLUMNS), "user"
    )
    names = users.frame["user"].to_list()
    jobs = _read_jobs(stored_as(path, JOBS), users.frame["user"])
    tasks = _read_tasks(stored_as(path, TASKS), cluster, jobs["job_names"], on_progress)
    events = stored_as(path, EVENTS)
    try:
        return Workload.from_arrays(
            cluster,
            names,
            weight=users.frame["weight"].to_numpy(),
            **jobs,
            **tasks,
            **(_read_events(events, cluster) if events.exists() else {}),
            queues=_make_queues(queues, users.frame["queue"].to_list(), names, path),
            **marker,
        )
    except ProblemError as error:
        raise _with_row(error, path) from None


def _read_marker(path: Path) -> dict[str, Any]:
    """Check and return the values of `MARKER`; raise InputError for an invalid one."""
    found = read_json(path, limit=LARGEST_FILE)
    with error_source(str(path)):
        if not isinstance(found, dict) or VERSION_KEY not in found:
            raise InputError(f"has no key {VERSION_KEY!r}")
        version = found[VERSION_KEY]
        if version != FORMAT_VERSION:
            fault = f"is a trace of version {version!r}; only version {FORMAT_VERSION} can be read"
            raise InputError(fault, VERSION_KEY)
        resources, notes = found.get("resources"), found.get("notes", {})
        if not resources or not _is_mapping_to(str, resources):
            raise InputError("must name each resource with its unit", "resources")
        if not _is_mapping_to(int, notes):
            raise InputError("must map names to whole numbers", "notes")
        if not isinstance(found.get("queues", []), list):
            raise InputError("must be a list", "queues")
        return {
            "resources": resources,
            "origin": str(found.get("origin", "")),
            "start_date": found.get("start_date"),
            "recorded_until": found.get("recorded_until"),
            "notes": notes,
            "devices": texts(found.get("devices", []), "devices"),
            "queues": found.get("queues", []),
            "limits": read_limits(found.get("limits", {})),
            "quotas": read_quotas(found.get("quotas", {})),
        }


def _make_queues(
    rows: list[Any], user_queue: list[str | None], users: list[str], path: Path
) -> Queues | None:
    if not rows and not any(user_queue):
        return None
    with error_source(str(stored_as(path, MARKER))):
        return read_queues(rows, user_queue, users)


def _is_mapping_to(kind: type, found: object) -> bool:
    return isinstance(found, dict) and all(type(value) is kind for value in found.values())


def _read_servers(path: Path, units: dict[str, str], devices: tuple[str, ...]) -> Cluster:
    """Read the groups of servers; `units` has the unit of each resource."""
    amounts = [TraceColumn(name, "real") for name in units]
    labels = TraceColumn("labels", optional=True)
    columns = (TraceColumn("group"), TraceColumn("count", "whole", least=1), *amounts, labels)
    block = _check_unique(read_table(path, columns), "group", "group of servers")
    frame = block.frame
    return Cluster(
        groups=tuple(frame["group"]),
        resources=tuple(units),
        capacity=frame.select(list(units)).to_numpy().astype(float),
        count=frame["count"].to_numpy(),
        units=tuple(units.values()),
        labels=tuple(_parse_labels(block, row) for row in range(len(frame))),
        devices=devices,
    )


def _parse_labels(block: Block, row: int) -> Any:
    text = block.frame["labels"][row]
    try:
        labels = parse_json(text) if text else {}
    except InputError:
        labels = None
    if not _is_mapping_to(str, labels):
        raise block.error(row, "is not a JSON object with text values and distinct keys", "labels")
    return labels


def _check_unique(block: Block, column: str, noun: str = "") -> Block:
    """Return the table; raise InputError if it has no rows, or a name twice in a column.

    Errors call a row by `noun`, by default the name of the column.
    """
    names = block.frame[column]
    if not len(names):
        raise InputError(f"holds no {noun or column}", "", block.source)
    block.refuse(~names.is_first_distinct(), f"is a repeated {column}", column)
    return block


def _read_jobs(path: Path, users: pl.Series) -> dict[str, Any]:
    """Return the arguments of `Workload.from_arrays` for jobs."""
    block = _check_unique(read_table(path, JOB_COLUMNS, may_follow=LIMIT_COLUMNS), "job")
    frame = block.frame
    user = _indices_of(frame["user"], users)
    block.refuse(user.is_null(), f"is not a user of {USERS}", "user")
    submit = frame["submit"]
    block.refuse((submit.diff() < 0).fill_null(False), "is before the row above", "submit")
    early = first_true((frame["cancel"] < submit).fill_null(False))
    if early is not None:
        raise block.error(early, f"is before the submission at {submit[early]:.15g}", "cancel")
    return {
        "job_names": frame["job"].to_list(),
        "job_user": user.to_numpy(),
        "job_submit": submit.to_numpy(),
        "job_gang": frame["gang"].to_numpy(),
        "job_cancel": frame["cancel"].fill_null(np.inf).to_numpy(),
        "job_limit": frame["limit"].cast(pl.Float64).fill_null(np.inf).to_numpy(),
    }


def _indices_of(names: pl.Series, known: pl.Series) -> pl.Series:
    """Return the index of each name among the known ones; null for unknown names."""
    numbers = pl.int_range(len(known), eager=True)
    return names.replace_strict(known, numbers, default=None, return_dtype=pl.Int64)


def _read_tasks(
    path: Path, cluster: Cluster, jobs: list[str], on_progress: ProgressReport | None
) -> dict[str, Any]:
    """Return the arguments of `Workload.from_arrays` for sets and tasks.

    Consecutive tasks of a job with equal shape and place become a set.
    """
    numbers = [TraceColumn(name, "real") for name in (*cluster.resources, "duration")]
    columns = (TraceColumn("job"), TraceColumn("place", optional=True), *numbers)
    names = pl.Series(jobs)
    # The index of each shape and of each place, in order of first use.
    shapes: dict[Any, int] = {}
    places: dict[Any, int] = {}
    last = -1  # the job of the last task of the previous block
    parts: list[pl.DataFrame] = []
    for block in read_blocks(
        path, columns, header=True, may_follow=RECORDED_COLUMNS, on_progress=on_progress
    ):
        frame = block.frame
        job = _indices_of(frame["job"], names)
        _check_order(block, job, last, jobs)
        last = int(job[-1])
        block.refuse(frame["duration"] == 0, "is not positive", "duration")
        shape = _number_rows(frame.select(cluster.resources), shapes)
        total_demand = frame.select(pl.sum_horizontal(cluster.resources)).to_series()
        block.refuse(total_demand == 0, "takes nothing of any resource", "job")
        place = _number_rows(frame.select("place"), places)
        _check_places(block, frame["place"], cluster)
        start, server = _read_recorded_starts(block, cluster)
        columns_of_part = {"job": job, "shape": shape, "place": place, "start": start}
        parts.append(
            pl.DataFrame({**columns_of_part, "server": server, "duration": frame["duration"]})
        )
    if last + 1 < len(jobs):
        raise InputError(f"has no task of job {jobs[last + 1]!r}", "", str(path))
    frame = pl.concat(parts)
    keys = frame.select("job", "shape", "place").to_numpy()
    first = np.flatnonzero(np.r_[True, (keys[1:] != keys[:-1]).any(axis=1)])
    return {
        "set_job": keys[first, 0],
        "set_shape": keys[first, 1],
        "set_place": keys[first, 2],
        "set_tasks": np.diff(np.r_[first, len(keys)]),
        "shapes": np.array(list(shapes), dtype=float),
        "places": [_parse_place(key[0], cluster.groups) for key in places],
        "task_duration": frame["duration"].to_numpy(),
        "task_start": frame["start"].to_numpy(),
        "task_server": frame["server"].to_numpy(),
    }


def _check_order(block: Block, job: pl.Series, last: int, jobs: list[str]) -> None:
    """Raise InputError for a task whose job is neither that of the row above nor the next job."""
    step = job - job.shift(1, fill_value=last)
    wrong = first_true(job.is_null() | ~step.is_in([0, 1]))
    if wrong is None:
        return
    next_job = (last if wrong == 0 else int(job[wrong - 1])) + 1
    expected = f"; {jobs[next_job]!r} comes next" if next_job < len(jobs) else ""
    raise block.error(wrong, f"is not in the order of {JOBS}{expected}", "job")


def _number_rows(keys: pl.DataFrame, known: dict[Any, int]) -> pl.Series:
    """Return the index of each row in `known`, to which new rows are added."""
    for key in keys.unique(maintain_order=True).iter_rows():
        known.setdefault(key, len(known))
    table = pl.DataFrame(list(known), schema=keys.schema, orient="row")
    table = table.with_columns(number=pl.int_range(len(known)))
    joined = keys.join(table, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")
    return joined["number"]


def _check_places(block: Block, place: pl.Series, cluster: Cluster) -> None:
    known = [
        key
        for key in place.unique().drop_nulls()
        if set(key.split(BETWEEN_GROUPS)) <= set(cluster.groups)
    ]
    wrong = place.is_not_null() & ~place.is_in(known)
    block.refuse(wrong, f"names a group that is not in {SERVERS}", "place")


def _parse_place(text: str | None, groups: tuple[str, ...]) -> list[bool]:
    """Return whether a place, such as ``a|b``, allows each group; an empty one allows all."""
    names = groups if text is None else text.split(BETWEEN_GROUPS)
    return [group in names for group in groups]


def _read_recorded_starts(block: Block, cluster: Cluster) -> tuple[pl.Series, pl.Series]:
    """Return the start of each task (NaN if unknown, inf for `NEVER`) and its server (or -1)."""
    frame = block.frame
    start = pl.repeat(np.nan, len(frame), eager=True)
    server = pl.repeat(-1, len(frame), eager=True)
    if "start" in frame.columns:
        text = frame["start"]
        is_start = text.is_not_null() & (text != NEVER).fill_null(False)
        number = text.cast(pl.Float64, strict=False)
        block.refuse(is_start & ~number.is_finite().fill_null(False), "is not a number", "start")
        block.refuse((is_start & (number < 0)).fill_null(False), "is less than 0", "start")
        start = frame.select(
            pl.when(pl.col("start") == NEVER)
            .then(np.inf)
            .when(is_start)
            .then(number)
            .otherwise(np.nan)
        ).to_series()
    if "server" in frame.columns:
        server = _read_server_numbers(block, cluster).fill_null(-1)
    return start, server


def _read_server_numbers(block: Block, cluster: Cluster) -> pl.Series:
    """Return the numbers of the servers in the column ``server``; null for an empty field.

    Numbers are computed from the names instead of looked up, as there may be ten million servers.
    """
    names = block.frame["server"]
    parts = names.str.extract_groups(_SERVER).struct
    group = _indices_of(parts["group"], pl.Series(cluster.groups))
    number = parts["number"].cast(pl.Int64)
    count = pl.Series(cluster.count).cast(pl.Int64)
    first = count.cum_sum() - count
    wrong = names.is_not_null() & (number < count.gather(group)).fill_null(False).not_()
    block.refuse(wrong, f"is not a server of {SERVERS}, such as {cluster.groups[0]}-0", "server")
    return first.gather(group) + number


def _read_events(path: Path, cluster: Cluster) -> dict[str, Any]:
    block = read_table(path, EVENT_COLUMNS)
    if not len(block.frame):
        return {}
    server = _read_server_numbers(block, cluster)
    event = _indices_of(block.frame["event"], pl.Series(EVENT_NAMES))
    block.refuse(event.is_null(), f"is none of {', '.join(EVENT_NAMES)}", "event")
    return {
        "server_time": block.frame["time"].to_numpy(),
        "server_event": event.to_numpy(),
        "server": server.to_numpy(),
    }


def _with_row(error: ProblemError, path: Path) -> InputError:
    """Return the error for an entry that `Workload` refused, with the file and row of the entry."""
    match = re.fullmatch(r"([a-z ]+)\[([0-9]+)\](?:\.(\w+))?", error.place)
    if match is None or match[1] not in _FILE_OF_ENTRY:
        return InputError(error.fault, error.place, str(path))
    fault = f"{match[3]}: {error.fault}" if match[3] else error.fault
    file = stored_as(path, _FILE_OF_ENTRY[match[1]])
    # Entries count from 0, and rows from 1 with the header.
    return InputError(fault, f"row {int(match[2]) + 2}", str(file))

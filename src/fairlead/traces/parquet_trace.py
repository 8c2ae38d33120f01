"""Read and write the project's own trace: one Parquet file with a whole workload.

A row is a set of a job's tasks with equal demands and eligible servers, and lists of their
durations. Cluster, users, sets of eligible groups and events of servers are JSON in the file's
metadata, under `METADATA_KEY`. docs/traces.md describes the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fairlead.errors import InputError
from fairlead.formats.parquet_file import (
    ParquetKind,
    check_columns,
    read_parquet_file,
    refuse_rows,
    write_parquet_file,
)
from fairlead.model.arguments import texts
from fairlead.model.cluster import Cluster
from fairlead.model.quantity import show
from fairlead.model.queues import read_limits, read_queues
from fairlead.model.quotas import read_quotas
from fairlead.model.workload import EVENT_NAMES, Workload
from fairlead.model.workload_checks import MOST_SERVERS
from fairlead.traces._stored_files import ProgressReport, error_source

FORMAT_VERSION = 1
METADATA_KEY = "fairlead_trace"
DEMAND = "demand."  # prefix of the columns of amounts
# Columns that are present if any value is known.
LIMIT, STARTS, SERVERS = "limit", "starts", "servers"
_KIND = ParquetKind("trace", METADATA_KEY, FORMAT_VERSION)


def write_parquet(workload: Workload, path: Path) -> None:
    """Write a workload as one Parquet file, completely or not at all.

    Raises InputError when the file cannot be written. Cost O(sets + tasks): a million tasks in
    50,000 jobs take half a second.
    """
    write_parquet_file(_make_frame(workload), _make_header(workload), _KIND, path)


def read_parquet(path: Path, *, on_progress: ProgressReport | None = None) -> Workload:
    """Read the workload that `write_parquet` wrote; all arrays are equal. O(sets + tasks).

    Raises InputError with the file and the row or entry, for a file that is damaged, is not a
    trace, is of another version, has other columns or has meaningless values.
    """
    source = str(path)
    content = read_parquet_file(path, _KIND)
    try:
        with error_source(source):
            workload = _make_workload(content.frame, content.header)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        fault = f"the metadata is not that of a trace: {type(error).__name__} {error}"
        raise InputError(fault, METADATA_KEY, source) from None
    if on_progress is not None:
        on_progress(content.n_bytes, content.n_bytes)
    return workload


def _make_header(workload: Workload) -> dict[str, Any]:
    """Return the values for the metadata: all that is not in the rows, except empty values."""
    cluster, queues = workload.cluster, workload.queues
    optional = {
        "start_date": workload.start_date,
        "recorded_until": workload.recorded_until,
        "devices": list(cluster.devices) or None,
        "queues": None if queues is None else queues.rows(),
        "limits": workload.limits or None,
        "quotas": workload.quotas or None,
        "user_queue": None if queues is None else queues.user_queue(),
    }
    return {
        "origin": workload.origin,
        "notes": dict(workload.notes),
        **{name: value for name, value in optional.items() if value is not None},
        "resources": list(cluster.resources),
        "units": list(cluster.units),
        "groups": group_rows(cluster),
        "users": [
            {"name": name, "weight": weight}
            for name, weight in zip(workload.users, workload.weight.tolist(), strict=True)
        ],
        "places": [np.flatnonzero(place).tolist() for place in workload.places],
        "server_events": {
            "time": workload.server_time.tolist(),
            "event": [EVENT_NAMES[event] for event in workload.server_event],
            "server": workload.server.tolist(),
        },
    }


def group_rows(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the name, count, capacity (in order of resources) and labels of each group."""
    count, capacity = cluster.count.tolist(), cluster.capacity.tolist()
    rows = zip(cluster.groups, count, capacity, map(dict, cluster.labels), strict=True)
    return [dict(zip(("name", "count", "capacity", "labels"), row, strict=True)) for row in rows]


def _make_frame(workload: Workload) -> pl.DataFrame:
    """Return a row for each set; columns that have no known value are left out."""
    job = workload.set_job
    demands = workload.shapes[workload.set_shape]
    owner = np.repeat(np.arange(workload.n_sets, dtype=np.int32), workload.set_tasks)
    of_tasks = {
        "set": owner,
        "durations": workload.task_duration,
        STARTS: pl.Series(workload.task_start).fill_nan(None),
        SERVERS: pl.Series(workload.task_server).replace(-1, None),
    }
    by_set = pl.DataFrame(of_tasks).group_by("set", maintain_order=True).agg(pl.all())
    users = pl.Series(list(workload.users))
    frame = pl.DataFrame(
        {
            "job": pl.Series(workload.job_names.tolist(), dtype=pl.String).gather(job),
            "user": users.gather(workload.job_user[job]),
            "submit": workload.job_submit[job],
            "gang": workload.job_gang[job],
            "cancel": pl.Series(workload.job_cancel[job]).replace(np.inf, None),
            LIMIT: pl.Series(workload.job_limit[job]).replace(np.inf, None),
            **{
                f"{DEMAND}{resource}": demands[:, r]
                for r, resource in enumerate(workload.cluster.resources)
            },
            "place": workload.set_place,
            **{name: by_set[name] for name in ("durations", STARTS, SERVERS)},
        }
    )
    known = {
        LIMIT: np.isfinite(workload.job_limit).any(),
        STARTS: workload.has_starts,
        SERVERS: (workload.task_server >= 0).any(),
    }
    return frame.drop([name for name, is_known in known.items() if not is_known])


def _make_workload(frame: pl.DataFrame, header: Mapping[str, Any]) -> Workload:
    """Check rows and metadata, and make a workload of them."""
    resources = tuple(header["resources"])
    _check_columns(frame, resources)
    cluster = Cluster(
        groups=tuple(group["name"] for group in header["groups"]),
        resources=resources,
        capacity=np.array([group["capacity"] for group in header["groups"]], dtype=np.float64),
        count=np.array(_read_counts(header["groups"]), dtype=np.int64),
        units=tuple(header["units"]),
        labels=tuple(group["labels"] for group in header["groups"]),
        devices=texts(header.get("devices", []), "devices"),
    )
    places = np.zeros((len(header["places"]), len(cluster.groups)), dtype=bool)
    for row, groups in enumerate(header["places"]):
        if any(type(g) is not int or not 0 <= g < len(cluster.groups) for g in groups):
            raise InputError("must be numbers of groups", f"places[{row}]")
        places[row, groups] = True
    users = [user["name"] for user in header["users"]]
    is_first = _is_first_of_job(frame)
    jobs = frame.filter(is_first)
    events = header["server_events"]
    return Workload.from_arrays(
        cluster,
        users,
        weight=[user["weight"] for user in header["users"]],
        job_names=np.array(jobs["job"].to_list(), dtype=np.str_),
        job_user=_user_numbers(jobs["user"].to_list(), users),
        job_submit=jobs["submit"].to_numpy(),
        job_gang=jobs["gang"].to_numpy(),
        job_cancel=jobs["cancel"].fill_null(np.inf).to_numpy(),
        job_limit=jobs[LIMIT].fill_null(np.inf).to_numpy() if LIMIT in jobs.columns else None,
        set_job=np.cumsum(is_first.to_numpy()) - 1,
        set_tasks=frame["durations"].list.len().to_numpy(),
        shapes=frame.select([f"{DEMAND}{resource}" for resource in resources]).to_numpy(),
        places=places,
        set_place=frame["place"].to_numpy(),
        task_duration=frame["durations"].explode().to_numpy(),
        task_start=_task_values(frame, STARTS, np.nan),
        task_server=_task_values(frame, SERVERS, -1),
        server_time=events["time"],
        server_event=[EVENT_NAMES.index(event) for event in events["event"]],
        server=events["server"],
        queues=read_queues(header["queues"], header["user_queue"], users)
        if "queues" in header
        else None,
        limits=read_limits(header.get("limits", {})),
        quotas=read_quotas(header.get("quotas", {})),
        origin=header["origin"],
        start_date=header.get("start_date"),
        recorded_until=header.get("recorded_until"),
        notes=header["notes"],
    )


def _user_numbers(names: list[str], users: list[str]) -> list[int]:
    """Return the index of each job's user; raise InputError for an unknown user."""
    number = {user: n for n, user in enumerate(users)}
    for job, name in enumerate(names):
        if name not in number:
            raise InputError(f"unknown user {name!r}", f"jobs[{job}].user")
    return [number[name] for name in names]


def _read_counts(groups: list[Mapping[str, Any]]) -> list[int]:
    for row, group in enumerate(groups):
        count = group["count"]
        if type(count) is not int or not 1 <= count <= MOST_SERVERS:
            fault = f"must be a whole number from 1 to {MOST_SERVERS:,}, not {show(count)}"
            raise InputError(fault, f"groups[{row}].count")
    return [group["count"] for group in groups]


def _task_values(frame: pl.DataFrame, column: str, unknown: float) -> Any:
    """Return (T,) the values in a column of lists; None if the column is absent."""
    if column not in frame.columns:
        return None
    wrong = frame[column].list.len() != frame["durations"].list.len()
    refuse_rows(wrong, f"{column}: not as many as durations")
    return frame[column].explode().fill_null(unknown).to_numpy()


def _check_columns(frame: pl.DataFrame, resources: tuple[str, ...]) -> None:
    """Raise InputError for wrong columns, for no rows, and for an unknown duration."""
    types: dict[str, Any] = {"job": pl.String, "user": pl.String, "submit": pl.Float64}
    types |= {"gang": pl.Boolean, "cancel": pl.Float64}
    types |= {f"{DEMAND}{resource}": pl.Float64 for resource in resources}
    types |= {"place": pl.Int32, "durations": pl.List(pl.Float64)}
    optional = {LIMIT: pl.Float64, STARTS: pl.List(pl.Float64), SERVERS: pl.List(pl.Int32)}
    types |= {name: kind for name, kind in optional.items() if name in frame.columns}
    check_columns(frame, types, dict.fromkeys(("cancel", LIMIT), pl.lit(True)))
    if not len(frame):
        raise InputError("holds no job")
    has_null = frame["durations"].list.eval(pl.element().is_null()).list.any()
    refuse_rows(has_null, "durations: one is empty")


def _is_first_of_job(frame: pl.DataFrame) -> pl.Series:
    """Return whether each row is the first of its job.

    Raises InputError if the rows of a job differ in a column that describes the job.
    """
    is_first = (frame["job"] != frame["job"].shift(1)).fill_null(True)
    of_job = ("user", "submit", "gang", "cancel", LIMIT)
    for column in [name for name in of_job if name in frame.columns]:
        same = frame[column].eq_missing(frame[column].shift(1))
        refuse_rows(~is_first & ~same, f"{column}: differs within a job")
    return is_first

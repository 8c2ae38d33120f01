"""Read and write a run log as one Parquet file, which other programs can also read.

A row is a start of a task, in the order of the decisions, with names as well as numbers. The policy
and the unplaceable sets of tasks are JSON in the file's metadata, under `METADATA_KEY`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fairlead.errors import InputError
from fairlead.formats.parquet_file import (
    ParquetKind,
    check_columns,
    read_parquet_file,
    read_parquet_header,
    refuse_rows,
    write_parquet_file,
)
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload

FORMAT_VERSION = 1
METADATA_KEY = "fairlead_run_log"
_KIND = ParquetKind("run log", METADATA_KEY, FORMAT_VERSION)
_COLUMNS: dict[str, Any] = {
    "user": pl.String,
    "job": pl.String,
    "set": pl.Int32,
    "task": pl.Int32,
    "server": pl.String,
    "submit": pl.Float64,
    "wait": pl.Float64,
    "start": pl.Float64,
    "end": pl.Float64,
    "lost": pl.Boolean,
    "server_number": pl.Int32,
}


def write_run_log(workload: Workload, log: RunLog, path: Path, *, fingerprint: str = "") -> None:
    """Write a run log as one Parquet file, completely or not at all.

    The columns are

    - ``user``, ``job``: names;
    - ``set``, ``task``: numbers in the workload;
    - ``server``: its group and its number in the group, such as ``big-0``; null if unknown;
    - ``submit`` of the job, ``wait`` from submit to start, ``start``, ``end``: seconds;
    - ``lost``: whether the task was lost with its server;
    - ``server_number``: counted through all groups; -1 if unknown.

    `fingerprint` identifies the run. Raises InputError when the file cannot be written.
    O(starts + sets + jobs + servers); a million starts take a second.
    """
    header = {
        "policy": log.policy,
        "fingerprint": fingerprint,
        "tasks": workload.n_tasks,
        "sets": workload.n_sets,
        "servers": workload.n_servers,
        "unplaceable_sets": np.flatnonzero(log.set_unplaceable).tolist(),
    }
    write_parquet_file(_make_frame(workload, log), header, _KIND, path)


def read_run_log(path: Path, workload: Workload | None = None) -> RunLog:
    """Read a run log that `write_run_log` wrote, with equal arrays.

    Parameters
    ----------
    workload : Workload, optional
        The replayed workload; if given, the log of another workload is refused.

    Raises
    ------
    InputError
        With the file and the row or entry, for a file that

        - is not a Parquet file, is damaged, is not a run log or is of another version;
        - has other columns or meaningless values;
        - is of another workload.

    Notes
    -----
    Cost O(starts + sets); a million starts take 0.3 s.
    """
    source = str(path)
    content = read_parquet_file(path, _KIND)
    try:
        sizes = _read_sizes(content.header)
        log = _make_run_log(content.frame, content.header, sizes)
        if workload is not None:
            for name, size in sizes.items():
                expected = getattr(workload, f"n_{name}")
                if size != expected:
                    fault = f"is of another workload: it has {size} {name}, not {expected}"
                    raise InputError(fault)
            _check_same_workload(content.frame, _make_frame(workload, log))
    except InputError as error:
        raise error.within(source) from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        fault = f"the metadata is not that of a run log: {type(error).__name__} {error}"
        raise InputError(fault, METADATA_KEY, source) from None
    return log


def read_fingerprint(path: Path) -> str:
    """Return the fingerprint of a run log, without reading its rows; empty if it has none."""
    return str(read_parquet_header(path, _KIND).get("fingerprint", ""))


def _make_frame(workload: Workload, log: RunLog) -> pl.DataFrame:
    """Return the rows of a log, with the names that the workload has for its numbers."""
    set_of_task = np.repeat(np.arange(workload.n_sets, dtype=np.int32), workload.set_tasks)
    set_of_start = set_of_task[log.task]
    job = workload.set_job[set_of_start]
    submit = workload.job_submit[job]
    # Names repeat many times. Gathering them by number from a short list is ten times as fast as
    # writing them from an array of text.
    users = _gather(list(workload.users), workload.job_user[job])
    jobs = _gather(workload.job_names.tolist(), job)
    unknown = workload.n_servers
    names = [*server_names(workload), None]
    servers = _gather(names, np.where(log.server < 0, unknown, log.server))
    return pl.DataFrame(
        {
            "user": users,
            "job": jobs,
            "set": set_of_start,
            "task": log.task,
            "server": servers,
            "submit": submit,
            "wait": log.start - submit,
            "start": log.start,
            "end": log.end,
            "lost": log.lost,
            "server_number": log.server,
        },
        schema=_COLUMNS,
    )


def _gather(names: Sequence[str | None], index: NDArray[Any]) -> pl.Series:
    return pl.Series(names, dtype=pl.String).gather(index)


def server_names(workload: Workload) -> list[str]:
    """Return the name of each server: its group and its number there, such as ``big-0``."""
    cluster = workload.cluster
    return [
        f"{group}-{k}"
        for group, count in zip(cluster.groups, cluster.count.tolist(), strict=True)
        for k in range(count)
    ]


def _read_sizes(header: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of tasks, sets and servers of the workload."""
    sizes = {name: header[name] for name in ("tasks", "sets", "servers")}
    for name, size in sizes.items():
        if type(size) is not int or not 0 <= size < 2**31:
            raise InputError(f"must be a whole number, not {size!r}", f"{METADATA_KEY}.{name}")
    return sizes


def _make_run_log(frame: pl.DataFrame, header: Mapping[str, Any], sizes: dict[str, int]) -> RunLog:
    """Check a table and its header, and make a run log of them; `sizes` is from `_read_sizes`."""
    # Servers of some recorded tasks are unknown.
    check_columns(frame, _COLUMNS, {"server": pl.col("server_number") < 0})
    policy, sets = header["policy"], header["unplaceable_sets"]
    if not isinstance(policy, str):
        raise InputError(f"must be a name, not {policy!r}", f"{METADATA_KEY}.policy")
    unplaceable = np.zeros(sizes["sets"], dtype=bool)
    numbers = isinstance(sets, list) and all(type(k) is int for k in sets)
    if not numbers or not all(0 <= k < len(unplaceable) for k in sets):
        fault = f"must be numbers from 0 to {len(unplaceable) - 1}"
        raise InputError(fault, f"{METADATA_KEY}.unplaceable_sets")
    unplaceable[sets] = True
    log = RunLog(
        policy=policy,
        task=frame["task"].to_numpy(),
        server=frame["server_number"].to_numpy(),
        start=frame["start"].to_numpy(),
        end=frame["end"].to_numpy(),
        lost=frame["lost"].to_numpy(),
        set_unplaceable=unplaceable,
    )
    _check_rows(frame, sizes, -1 if log.is_recorded else 0)
    return log


def _check_rows(frame: pl.DataFrame, sizes: dict[str, int], least_server: int) -> None:
    """Raise InputError for the first number out of range, and for a task that ends twice."""
    task, start, end = pl.col("task"), pl.col("start"), pl.col("end")
    last_task, last_server = sizes["tasks"] - 1, sizes["servers"] - 1
    for column, usable, fault in (
        ("task", task.is_between(0, last_task), f"must be from 0 to {last_task}, not"),
        (
            "server_number",
            pl.col("server_number").is_between(least_server, last_server),
            f"must be from {least_server} to {last_server}, not",
        ),
        ("start", start.is_finite() & (start >= 0), "must be a number of seconds from 0, not"),
        ("end", end.is_finite() & (end >= start), "must be a time at or after the start, not"),
    ):
        refuse_rows(~frame.select(usable).to_series(), f"{column}: {fault}", frame[column])
    done = frame.with_row_index("row").filter(~pl.col("lost"))
    again = done.filter(~done["task"].is_first_distinct())
    if len(again):
        row = again.row(0, named=True)
        raise InputError(f"task: ends a second time: {row['task']}", f"row {row['row'] + 1}")


def _check_same_workload(frame: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Raise InputError for the first row whose names or numbers are not the expected ones."""
    for column in ("user", "job", "set", "server", "submit"):
        differs = frame[column].ne_missing(expected[column])
        refuse_rows(differs, f"{column}: is of another workload:", frame[column])

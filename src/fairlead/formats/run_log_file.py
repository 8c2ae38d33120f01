"""Read and write a run log as one Parquet file, which other programs can also read.

Each start of a task is a row, in the order of the decisions, with names as well as numbers. The
policy and the unplaceable sets of tasks are JSON in the file's metadata, under `METADATA_KEY`.
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
    - ``lost``: whether the run was lost with its server, or stopped;
    - ``server_number``: counted through all groups; -1 if unknown.

    `fingerprint` identifies the run. Raises InputError when the file cannot be written.
    O(starts + sets + jobs + servers); a million starts take a second.
    """
    header = {
        "policy": log.policy,
        "fingerprint": fingerprint,
        "sets": workload.n_sets,
        "unplaceable_sets": np.flatnonzero(log.set_unplaceable).tolist(),
    }
    write_parquet_file(_make_frame(workload, log), header, _KIND, path)


def read_run_log(path: Path) -> RunLog:
    """Read a run log that `write_run_log` wrote, with equal arrays.

    Compare the fingerprint first: numbers are not checked against a workload. Raises InputError for
    a file that is damaged, is not a run log, is of another version or has other columns.
    O(starts + sets); a million starts take 0.3 s.
    """
    source = str(path)
    content = read_parquet_file(path, _KIND)
    try:
        return _make_run_log(content.frame, content.header)
    except InputError as error:
        raise error.within(source) from None
    except (LookupError, TypeError, ValueError) as error:
        fault = f"the metadata is not that of a run log: {type(error).__name__} {error}"
        raise InputError(fault, METADATA_KEY, source) from None


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


def _make_run_log(frame: pl.DataFrame, header: Mapping[str, Any]) -> RunLog:
    # Servers of some recorded tasks are unknown.
    check_columns(frame, _COLUMNS, {"server": pl.col("server_number") < 0})
    policy, n_sets, sets = header["policy"], header["sets"], header["unplaceable_sets"]
    are_numbers = type(n_sets) is int and all(type(k) is int and 0 <= k < n_sets for k in sets)
    if not (isinstance(policy, str) and are_numbers and 0 <= n_sets < 2**31):
        raise InputError("the metadata is not that of a run log", METADATA_KEY)
    unplaceable = np.zeros(n_sets, dtype=bool)
    unplaceable[sets] = True
    return RunLog(
        policy=policy,
        task=frame["task"].to_numpy(),
        server=frame["server_number"].to_numpy(),
        start=frame["start"].to_numpy(),
        end=frame["end"].to_numpy(),
        lost=frame["lost"].to_numpy(),
        set_unplaceable=unplaceable,
    )

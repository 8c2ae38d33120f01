"""Read SenseTime's Helios traces of 2020: jobs of four Slurm clusters with GPUs.

Source: github.com/S-Lab-System-Group/HeliosData. Each cluster is a folder with ``cluster_log.csv``,
a row for each job, and ``cluster_gpu_number.csv``, the GPUs of each virtual cluster by day.

- **Tasks and gangs.** A row is a job: a gang of as many tasks as it had nodes. Its cores and GPUs
  are divided among the tasks in whole numbers, larger shares first. Jobs without GPUs count.
- **Placement.** A task may run on all servers. Each virtual cluster had servers of its own, but
  servers moved between virtual clusters daily, and the log names no server of a job.
- **Left out.** Jobs that never ran, had not ended, end before they start, or request nothing.
- **Servers.** Options give equal servers, as the trace lists neither cores nor servers. A server
  has 8 GPUs, as in all four clusters, or as many as the largest task if that has more. The number
  of servers on a day is the column ``total`` of ``cluster_gpu_number.csv`` divided by 8.

A job has one run, from ``start_time`` to ``end_time``. The columns ``duration`` and ``queue`` are
differences of these times, and are not read. Times are by the cluster's clock.
"""

from __future__ import annotations

from collections import Counter
from itertools import repeat
from pathlib import Path

import polars as pl

from fairlead.errors import InputError
from fairlead.model.names import check_name
from fairlead.model.workload import Workload
from fairlead.traces._csv_tables import ROW, Block, TraceColumn, keep_usable, read_blocks
from fairlead.traces._stored_files import ProgressReport, error_source, only_file
from fairlead.traces.logs.job_collector import (
    EARLY_START,
    HALF_SECOND,
    LARGEST_GIVEN,
    NO_USER,
    ROUNDED_UP,
    JobCollector,
    check_server_options,
    check_user_from,
    divide_amounts,
    equal_servers,
)

JOB_LOGS = "cluster_log*.csv*"
TIMES = ("submit_time", "start_time", "end_time")
COLUMNS = (
    TraceColumn("job_id"),
    TraceColumn("user", optional=True),
    TraceColumn("vc", optional=True),
    TraceColumn("gpu_num", "whole", most=LARGEST_GIVEN),
    TraceColumn("cpu_num", "whole", most=LARGEST_GIVEN),
    TraceColumn("node_num", "whole", most=LARGEST_GIVEN),
    TraceColumn("state"),
    *(TraceColumn(name, optional=True) for name in TIMES),
)
USERS = ("user", "vc")
ABSENT = ("none", "unknown", "nat", "null")
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
GPUS_PER_SERVER = 8

NEVER_RAN = "jobs left out, as they never ran"
STILL_RAN = "jobs left out, as they had not ended"
BACKWARDS = "jobs left out, as they end before they start"
NO_DEMAND = "jobs left out, as they ask for nothing"
NO_NODES = "jobs of 0 nodes, taken as one task"
FEWER_TASKS = "jobs with fewer cores and fewer GPUs than nodes, taken as fewer tasks"


def read_helios(
    path: Path,
    *,
    servers: int | None = None,
    cores: int | None = None,
    user_from: str | None = None,
    on_progress: ProgressReport | None = None,
) -> Workload:
    """Read the folder or log of a Helios cluster, with recorded starts. O(tasks).

    A server has `GPUS_PER_SERVER` GPUs, or as many as the largest task if that has more. Users are
    those of the column `user_from`: ``user`` (default), or ``vc`` for virtual clusters.
    """
    check_server_options(servers, cores)
    log = only_file(path, JOB_LOGS, "name one of them") if path.is_dir() else path
    if servers is None or cores is None:
        raise InputError("names no servers; give --servers and --cores", "", str(log))
    check_user_from(user_from, USERS)
    collected = JobCollector()
    gpus = float(GPUS_PER_SERVER)
    for block in read_blocks(log, COLUMNS, header=True, on_progress=on_progress):
        gpus = max(gpus, _collect(block, user_from or "user", collected))
    cluster = equal_servers("server", servers, {"cpu": cores, "gpu": gpus})
    return collected.workload(log, cluster, "Helios log")


def _collect(block: Block, user_column: str, collected: JobCollector) -> float:
    """Collect the jobs of a block, and return the GPUs of its largest task."""
    frame = block.frame.with_columns([_parse_times(block, name) for name in TIMES])
    state = pl.col("state").str.to_uppercase()
    usable = {
        NEVER_RAN: pl.col("start_time").is_not_null(),
        STILL_RAN: ~state.is_in(["RUNNING", "SUSPENDED", "PENDING"])
        & pl.col("end_time").is_not_null(),
        BACKWARDS: pl.col("end_time") >= pl.col("start_time"),
        NO_DEMAND: pl.col("gpu_num") + pl.col("cpu_num") > 0,
    }
    kept = keep_usable(frame, collected.notes, usable)
    largest = 0.0
    for row in kept.iter_rows(named=True):
        with error_source(block.source, f"row {row[ROW]}"):
            submit, start, user = row["submit_time"], row["start_time"], row[user_column]
            if submit is None:
                raise InputError("submit_time: is not known")
            tasks = _count_tasks(row["cpu_num"], row["gpu_num"], row["node_num"], collected.notes)
            collected.check_task_count(tasks, "node_num")
            check_name(row["job_id"], "job_id")
            check_name(user or "", user_column)
            collected.notes[NO_USER] += user is None
            collected.notes[EARLY_START] += start < submit
            collected.notes[ROUNDED_UP] += row["end_time"] == start
            collected.add_job(
                row["job_id"], user or "unknown", float(min(submit, start)), gang=tasks > 1
            )
        seconds = float(row["end_time"] - start) or HALF_SECOND
        amounts = {"cpu": row["cpu_num"], "gpu": row["gpu_num"]}
        for shape, count in divide_amounts(amounts, tasks):
            collected.add_tasks(shape, None, repeat(seconds, count), start=float(start))
            largest = max(largest, shape[1])
    return largest


def _parse_times(block: Block, name: str) -> pl.Series:
    """Return a column of times as seconds since 1970; absent times are null."""
    texts = block.frame[name]
    is_present = texts.is_not_null() & ~texts.str.to_lowercase().is_in(ABSENT).fill_null(False)
    times = texts.str.to_datetime(TIME_FORMAT, strict=False)
    block.refuse(is_present & times.is_null(), "is not a time such as 2020-06-09 18:41:01", name)
    return times.dt.epoch("s").alias(name)


def _count_tasks(cores: int, gpus: int, nodes: int, notes: Counter[str]) -> int:
    """Return the number of tasks of a job: one per node, but no more than its cores or its GPUs.

    The larger of these two numbers is the bound, so that each task takes something.
    """
    notes[NO_NODES] += nodes == 0
    notes[FEWER_TASKS] += nodes > max(cores, gpus)
    return min(max(nodes, 1), max(cores, gpus))

"""Read Alibaba's PAI trace of 2020: machine learning jobs on GPUs of several types.

Source: github.com/alibaba/clusterdata, cluster-trace-gpu-v2020, and Q. Weng et al., "MLaaS in the
Wild", NSDI 2022. The folder has four tables without headings: jobs, their tasks (roles such as
``ps`` and ``worker``), the instances of the tasks, and the machines.

1. An instance becomes a task, with the planned amounts of its PAI task. All instances of a job are
   one gang if they all ran at some common time. The trace does not mark gangs, but instances that
   never all ran together cannot have been a gang.
2. An instance may run on machines of the ``gpu_type`` of its PAI task, or everywhere if the task
   names no type. This is the assigned type; tables that are not read state the requested type.
3. Instances that never started, had not ended, or whose task or job has no row are left out, and
   also earlier runs of a worker. Failed instances count, as they held their amounts.
4. The servers are the machines of ``pai_machine_spec.csv``, present for the whole time.

A job is submitted at its ``start_time``, which the publishers define as its submission; its
instances should start later; where one started before, that start is the submission. An unknown
time is empty or 0.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster, with_devices
from fairlead.model.workload import Workload
from fairlead.traces._csv_tables import ROW, TraceColumn, keep_usable, read_blocks
from fairlead.traces._stored_files import ProgressReport, error_source, only_file
from fairlead.traces.logs.google_tables import Progress
from fairlead.traces.logs.job_collector import (
    HALF_SECOND,
    LARGEST_GIVEN,
    NO_USER,
    in_brackets,
    without_zeros,
)
from fairlead.traces.logs.openb import RESOURCES, Machine, add_machine, group_machines

JOB_TABLE, TASK_TABLE = "pai_job_table.csv", "pai_task_table.csv"
INSTANCE_TABLE, MACHINE_TABLE = "pai_instance_table.csv", "pai_machine_spec.csv"

JOB_COLUMNS = (
    TraceColumn("job_name"),
    TraceColumn("inst_id", optional=True),
    TraceColumn("user", optional=True),
    TraceColumn("status", optional=True),
    TraceColumn("start_time", "real", optional=True),
    TraceColumn("end_time", "real", optional=True),
)
TASK_COLUMNS = (
    TraceColumn("job_name"),
    TraceColumn("task_name", optional=True),
    TraceColumn("inst_num", "real", optional=True),
    TraceColumn("status", optional=True),
    TraceColumn("start_time", "real", optional=True),
    TraceColumn("end_time", "real", optional=True),
    TraceColumn("plan_cpu", "real", most=LARGEST_GIVEN, optional=True),
    TraceColumn("plan_mem", "real", most=LARGEST_GIVEN, optional=True),
    TraceColumn("plan_gpu", "real", most=LARGEST_GIVEN, optional=True),
    TraceColumn("gpu_type", optional=True),
)
INSTANCE_COLUMNS = (
    TraceColumn("job_name"),
    TraceColumn("task_name", optional=True),
    TraceColumn("inst_name", optional=True),
    TraceColumn("worker_name", optional=True),
    TraceColumn("inst_id", optional=True),
    TraceColumn("status", optional=True),
    TraceColumn("start_time", "real", optional=True),
    TraceColumn("end_time", "real", optional=True),
    TraceColumn("machine", optional=True),
)
MACHINE_COLUMNS = (
    TraceColumn("machine"),
    TraceColumn("gpu_type"),
    TraceColumn("cap_cpu", "real", most=LARGEST_GIVEN),
    TraceColumn("cap_mem", "real", most=LARGEST_GIVEN),
    TraceColumn("cap_gpu", "real", most=LARGEST_GIVEN),
)
PERCENT = 100
NO_GPU = "CPU"  # the type of machines without GPUs

NEVER_RAN = "instances left out, as they never started"
NOT_ENDED = "instances left out, as they had not ended"
ENDED_BEFORE_START = "instances left out, as they end before they start"
NO_TASK = "instances left out, as no row describes their task"
NO_JOB = "instances left out, as no row describes their job"
NO_INSTANCE = "jobs left out, as none of their instances is usable"
NO_DEMAND = "instances left out, as their task plans nothing"
EARLIER_RUNS = "earlier runs of workers, left out; only the last run counts"
JOBS_AGAIN = "repeated rows of a job, left out"
TASKS_AGAIN = "repeated rows of a task, left out"
ROUNDED_UP = "instances that ended in the second of their start, taken as half a second"
FAILED = "instances that failed; their duration counts"
UNKNOWN_TYPE = "instances of a GPU type that no machine has; they may run everywhere"
NO_SERVER = "instances whose machine is not known"
NOT_TOGETHER = "jobs whose instances never all ran at the same time; they are not a gang"
NO_SUBMISSION = "jobs whose submission is not known, taken as their first start"
LATE_SUBMISSION = "jobs submitted after their first start; the start is taken as the submission"


def read_pai(
    path: Path, *, machines: Path | None = None, on_progress: ProgressReport | None = None
) -> Workload:
    """Read a folder of PAI tables as a workload with recorded starts and servers. O(rows).

    `machines` is the table of machines if it is not in the folder. Raises InputError with file and
    row for tables that are missing or malformed, or if no instance ran.
    """
    names = (JOB_TABLE, TASK_TABLE, INSTANCE_TABLE)
    job_table, task_table, instance_table = tables = [_find_table(path, name) for name in names]
    spec = machines or _find_table(path, MACHINE_TABLE)
    progress = Progress(on_progress, tables)
    notes: Counter[str] = Counter()
    cluster, servers = _read_machines(spec)
    jobs = _read_jobs(job_table, notes, progress)
    tasks = _read_tasks(task_table, jobs, notes, progress)
    places, tasks = _find_places(tasks, [label.get("gpu", NO_GPU) for label in cluster.labels])
    instances = _read_instances(instance_table, tasks, servers, notes, progress)
    if not len(instances):
        fault = f"holds no instance that ran{in_brackets(notes)}"
        raise InputError(fault, "", str(instance_table))
    _note_instances(instances, notes)
    with error_source(str(path)):
        found = _make_workload(instances, jobs, cluster, places, notes, path.name)
        return replace(found, cluster=with_devices(found.cluster, found.shapes, ("gpu",)))


def _find_table(folder: Path, name: str) -> Path:
    archive = name.replace(".csv", ".tar.gz")
    return only_file(folder, f"{name}*", f"the trace needs one; unpack {archive} if it is there")


def _read_machines(path: Path) -> tuple[Cluster, pl.DataFrame]:
    """Read the machines; return their groups, and a table of `machine` and `server`."""
    machines: dict[str, Machine] = {}
    for block in read_blocks(path, MACHINE_COLUMNS):
        for row, name, kind, cpu, memory, gpu in block.frame.select(
            ROW, *(column.name for column in MACHINE_COLUMNS)
        ).iter_rows():
            model = "" if kind == NO_GPU else kind
            with error_source(block.source, f"row {row}"):
                add_machine(machines, name, Machine(cpu, memory, gpu, model))
    with error_source(str(path)):
        cluster, numbers = group_machines(machines)
    return cluster, pl.DataFrame({"machine": list(numbers), "server": list(numbers.values())})


def _read_jobs(path: Path, notes: Counter[str], progress: Progress) -> pl.DataFrame:
    """Return a row for each job: its number `job`, name, user and submission (null if unknown)."""
    known = pl.when(pl.col("start_time") > 0).then("start_time").alias("submit")
    rows = [
        block.frame.select("job_name", "user", known)
        for block in read_blocks(path, JOB_COLUMNS, on_progress=progress.report_bytes)
    ]
    if not rows:
        raise InputError("holds no job", "", str(path))
    every = pl.concat(rows)
    jobs = every.unique("job_name", keep="first", maintain_order=True)
    notes[JOBS_AGAIN] += len(every) - len(jobs)
    return jobs.with_row_index("job")


def _read_tasks(
    path: Path, jobs: pl.DataFrame, notes: Counter[str], progress: Progress
) -> pl.DataFrame:
    """Return a row for each PAI task: its number `task`, names, job, amounts and GPU type."""
    numbers = jobs.select("job_name", "job")
    rows: list[pl.DataFrame] = []
    for block in read_blocks(path, TASK_COLUMNS, on_progress=progress.report_bytes):
        rows.append(
            block.frame.select(
                "job_name",
                "task_name",
                "gpu_type",
                cpu=pl.col("plan_cpu").fill_null(0.0) / PERCENT,
                memory=pl.col("plan_mem").fill_null(0.0),
                gpu=pl.col("plan_gpu").fill_null(0.0) / PERCENT,
            ).join(numbers, on="job_name", how="left", maintain_order="left")
        )
    if not rows:
        raise InputError("holds no task", "", str(path))
    every = pl.concat(rows)
    tasks = every.unique(["job_name", "task_name"], keep="first", maintain_order=True)
    notes[TASKS_AGAIN] += len(every) - len(tasks)
    return tasks.with_row_index("task")


def _find_places(tasks: pl.DataFrame, types: list[str]) -> tuple[list[list[bool]], pl.DataFrame]:
    """Return the distinct places, and the tasks with the number of their place, `place`.

    A place says for each group whether tasks may run there.

    The first place has all groups. `types` has the GPU type of each group.
    """
    places = [[True] * len(types)]
    number: dict[str, int] = {}
    for kind in tasks["gpu_type"].drop_nulls().unique(maintain_order=True):
        if kind in types:
            number[kind] = len(places)
            places.append([kind == of_group for of_group in types])
    known = pl.DataFrame(
        {"gpu_type": list(number), "place": list(number.values())},
        schema={"gpu_type": pl.String, "place": pl.Int32},
    )
    placed = tasks.join(known, on="gpu_type", how="left", maintain_order="left")
    return places, placed.with_columns(
        pl.col("place").fill_null(0),
        unknown_type=pl.col("gpu_type").is_not_null() & pl.col("place").is_null(),
    ).drop("gpu_type")


def _read_instances(
    path: Path,
    tasks: pl.DataFrame,
    servers: pl.DataFrame,
    notes: Counter[str],
    progress: Progress,
) -> pl.DataFrame:
    """Read the instances that ran and ended, in order of the table; count the others."""
    # Hashes suffice to distinguish the workers of a task; their names have 60 characters.
    worker = pl.when(pl.col("worker_name").is_not_null()).then(pl.col("worker_name").hash())
    usable = {
        NEVER_RAN: pl.col("start_time") > 0,
        NOT_ENDED: pl.col("end_time") > 0,
        ENDED_BEFORE_START: pl.col("end_time") >= pl.col("start_time"),
        NO_TASK: pl.col("task").is_not_null(),
        NO_JOB: pl.col("job").is_not_null(),
        NO_DEMAND: pl.col("cpu") + pl.col("memory") + pl.col("gpu") > 0,
    }
    rows: list[pl.DataFrame] = []
    for block in read_blocks(path, INSTANCE_COLUMNS, on_progress=progress.report_bytes):
        frame = block.frame.join(
            tasks, on=["job_name", "task_name"], how="left", nulls_equal=True, maintain_order="left"
        ).join(servers, on="machine", how="left", maintain_order="left")
        frame = keep_usable(frame, notes, usable)
        rows.append(
            frame.select(
                ROW, "job", "task", "cpu", "memory", "gpu", "place", "unknown_type",
                worker.alias("worker"),
                pl.col("start_time").alias("start"),
                pl.col("end_time").alias("end"),
                pl.col("server").cast(pl.Int32).fill_null(-1),
                (pl.col("status") == "Failed").fill_null(False).alias("failed"),
            )
        )  # fmt: skip
    if not rows:
        raise InputError("holds no instance", "", str(path))
    every = pl.concat(rows)
    named = every.filter(pl.col("worker").is_not_null()).sort("start", ROW)
    last = named.unique(["task", "worker"], keep="last", maintain_order=True)
    notes[EARLIER_RUNS] += len(named) - len(last)
    return pl.concat([last, every.filter(pl.col("worker").is_null())]).sort(ROW)


def _note_instances(instances: pl.DataFrame, notes: Counter[str]) -> None:
    notes[ROUNDED_UP] += int((instances["start"] == instances["end"]).sum())
    notes[FAILED] += int(instances["failed"].sum())
    notes[UNKNOWN_TYPE] += int(instances["unknown_type"].sum())
    notes[NO_SERVER] += int((instances["server"] < 0).sum())


def _jobs_that_ran(
    instances: pl.DataFrame, jobs: pl.DataFrame, notes: Counter[str]
) -> pl.DataFrame:
    """Return the jobs with usable instances, and whether each is a `gang`.

    They are sorted by submission, and then in order of the table.
    """
    ran = instances.group_by("job").agg(
        pl.len().alias("tasks"),
        pl.col("start").min().alias("first"),
        (pl.col("start").max() < pl.col("end").min()).alias("together"),
    )
    found = jobs.join(ran, on="job", how="inner")
    notes[NO_INSTANCE] += len(jobs) - len(found)
    several, together = found["tasks"] > 1, found["together"]
    notes[NOT_TOGETHER] += int((several & ~together).sum())
    notes[NO_SUBMISSION] += found["submit"].null_count()
    notes[LATE_SUBMISSION] += int((found["submit"] > found["first"]).sum())
    notes[NO_USER] += found["user"].null_count()
    return found.with_columns(
        pl.min_horizontal("submit", "first").alias("submit"),
        pl.col("user").fill_null("unknown"),
        (several & together).alias("gang"),
    ).sort("submit", "job")


def _make_workload(
    instances: pl.DataFrame,
    jobs: pl.DataFrame,
    cluster: Cluster,
    places: list[list[bool]],
    notes: Counter[str],
    name: str,
) -> Workload:
    """Make a workload of usable instances, whose tasks are in order of jobs and of PAI tasks."""
    end, rounded_up = pl.col("end"), pl.col("start") + HALF_SECOND
    instances = instances.with_columns(
        end=pl.when(end > pl.col("start")).then(end).otherwise(rounded_up)
    )
    jobs = _jobs_that_ran(instances, jobs, notes).with_row_index("position")
    tasks = instances.join(jobs.select("job", "position"), on="job", how="inner")
    tasks = tasks.sort("position", "task", ROW)
    is_first_of_set = (tasks["task"] != tasks["task"].shift(1)).fill_null(True)
    sets = tasks.filter(is_first_of_set)
    first = float(jobs["submit"][0])
    first_of_sets = np.flatnonzero(is_first_of_set.to_numpy())
    users = jobs["user"].unique(maintain_order=True).to_list()
    number = {user: n for n, user in enumerate(users)}
    return Workload.from_arrays(
        cluster,
        users,
        job_names=jobs["job_name"].to_numpy().astype(np.str_),
        job_user=[number[user] for user in jobs["user"].to_list()],
        job_submit=jobs["submit"].to_numpy() - first,
        job_gang=jobs["gang"].to_numpy(),
        set_job=sets["position"].to_numpy(),
        set_tasks=np.diff(first_of_sets, append=len(tasks)),
        shapes=sets.select(RESOURCES).to_numpy(),
        places=places,
        set_place=sets["place"].to_numpy(),
        task_duration=(tasks["end"] - tasks["start"]).to_numpy(),
        task_start=tasks["start"].to_numpy() - first,
        task_server=tasks["server"].to_numpy(),
        origin=f"PAI tables {name}, time from second {first:.15g} of their clock",
        notes=without_zeros(notes),
    )

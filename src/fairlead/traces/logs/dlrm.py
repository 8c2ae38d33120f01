"""Read Alibaba's trace of 2025: instances that serve recommendation models (DLRM).

Source: github.com/alibaba/clusterdata, cluster-trace-gpu-v2025, a table of instances. An instance
is a job of one task; its user is its application (``app_name``). It takes the cores, memory and
GPUs that it requests.

The trace names no nodes. A table like openb's table of nodes (Alibaba's trace of 2023) must be
given. An instance of role HN (heterogeneous GPU node) may run on nodes with GPUs. An instance of
role CN (CPU node) may run on nodes without GPUs, or on all nodes if each has GPUs.

An instance arrives at its creation and runs from its scheduling to its deletion. The table leaves
times before or after the trace empty. Such instances are counted, and cut at the start of the
trace, second 0, or at its end, the latest time of the table. Instances that were never scheduled,
end before they start or request nothing are left out. Requests of disk and network cards are
ignored; limits of instances per node are counted and not used.
"""

from __future__ import annotations

from math import nan
from pathlib import Path

import polars as pl

from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.traces._csv_tables import ROW, Block, TraceColumn, keep_usable, read_blocks
from fairlead.traces._stored_files import ProgressReport, error_source
from fairlead.traces.logs.job_collector import HALF_SECOND, JobCollector, Place
from fairlead.traces.logs.openb import cluster_of_nodes

COLUMNS = (
    TraceColumn("instance_sn"),
    TraceColumn("role"),
    TraceColumn("app_name"),
    TraceColumn("cpu_request", "real"),
    TraceColumn("gpu_request", "whole"),
    TraceColumn("memory_request", "real"),
    TraceColumn("max_instance_per_node", "whole", least=-1),
    TraceColumn("creation_time", "real", optional=True),
    TraceColumn("scheduled_time", "real", optional=True),
    TraceColumn("deletion_time", "real", optional=True),
)
TIMES = ("creation_time", "scheduled_time", "deletion_time")
USED = (ROW, "instance_sn", "role", "app_name", "cpu_request", "memory_request", "gpu_request")
CPU_ROLE, GPU_ROLE = "CN", "HN"

CREATED_BEFORE = "instances created before the trace; they arrive at its start"
DELETED_AFTER = "instances not deleted in the trace; they end with the trace"
NEVER_SCHEDULED = "instances left out, as they were never scheduled"
NO_LIFE = "instances left out, as they end before they start"
NO_DEMAND = "instances left out, as they ask for nothing"
NO_START = "instances scheduled before they were created, whose start is taken as unknown"
ROUNDED_UP = "instances that ended in the second of their start, taken as half a second"
DENSITY = "instances of an application with a limit per node, which is not used"


def read_dlrm(
    path: Path, *, machines: Path | None = None, on_progress: ProgressReport | None = None
) -> Workload:
    """Read a table of instances with recorded starts, O(instances + nodes).

    `machines`, a table of nodes like openb's, is required.
    """
    if machines is None:
        fault = "names no nodes; give --machines FILE with a table like openb's of nodes"
        raise InputError(fault, "", str(path))
    cluster = cluster_of_nodes(machines)
    with_gpus = [bool(gpus) for gpus in cluster.capacity[:, cluster.resources.index("gpu")]]
    places = {
        GPU_ROLE: tuple(with_gpus),
        CPU_ROLE: (True,) * len(with_gpus) if all(with_gpus) else tuple(not g for g in with_gpus),
    }
    collected, frames = JobCollector(), list[pl.DataFrame]()
    for block in read_blocks(path, COLUMNS, header=True, on_progress=on_progress):
        _check_roles(block, any(with_gpus), machines)
        frames.append(block.frame.select(*USED, "max_instance_per_node", *TIMES))
    if frames:
        _collect(pl.concat(frames), str(path), places, collected)
    return collected.workload(path, cluster, "DLRM instances")


def _check_roles(block: Block, has_gpus: bool, machines: Path) -> None:
    """Raise InputError for an unknown role, or one whose instances no node could run."""
    role = block.frame["role"]
    known = role.is_in([CPU_ROLE, GPU_ROLE])
    block.refuse(~known, f"is neither {CPU_ROLE} nor {GPU_ROLE}", "role")
    on_cpu = (role == CPU_ROLE) & (block.frame["gpu_request"] > 0)
    block.refuse(on_cpu, f"asks for GPUs, and its role is {CPU_ROLE}", "instance_sn")
    if not has_gpus:
        fault = f"needs a node with GPUs, and {machines.name} has none"
        block.refuse(role == GPU_ROLE, fault, "instance_sn")


def _collect(
    frame: pl.DataFrame, source: str, places: dict[str, Place], collected: JobCollector
) -> None:
    """Add the instances that ran as jobs; `places` has the allowed groups of each role."""
    created, scheduled, deleted = (frame[name] for name in TIMES)
    last = frame.select(pl.max_horizontal(*TIMES).max()).item()
    if last is None:
        raise InputError("names no time, so the length of the trace is not known", "", source)
    frame = frame.with_columns(
        before=created.is_null(),
        after=deleted.is_null(),
        submit=created.fill_null(0.0),
        # An instance without a time of creation or scheduling was scheduled before the trace.
        start=pl.when(created.is_null()).then(scheduled.fill_null(0.0)).otherwise(scheduled),
        end=deleted.fill_null(last),
    )
    notes = collected.notes
    usable = {
        NEVER_SCHEDULED: pl.col("start").is_not_null(),
        NO_LIFE: pl.col("end") >= pl.col("start"),
        NO_DEMAND: pl.sum_horizontal("cpu_request", "memory_request", "gpu_request") > 0,
    }
    frame = keep_usable(frame, notes, usable)
    notes[CREATED_BEFORE] += int(frame["before"].sum())
    notes[DELETED_AFTER] += int(frame["after"].sum())
    notes[NO_START] += int((frame["start"] < frame["submit"]).sum())
    notes[ROUNDED_UP] += int((frame["start"] == frame["end"]).sum())
    notes[DENSITY] += int((frame["max_instance_per_node"] > 0).sum())
    for row in frame.iter_rows(named=True):
        start = row["start"]
        with error_source(source, f"row {row[ROW]}"):
            collected.add_job(row["instance_sn"], row["app_name"], row["submit"])
        collected.add_tasks(
            (row["cpu_request"], row["memory_request"], float(row["gpu_request"])),
            places[row["role"]],
            (row["end"] - start or HALF_SECOND,),
            start=start if start >= row["submit"] else nan,
        )

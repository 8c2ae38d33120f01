"""Read Alibaba's traces of pods on nodes with GPUs: openb of 2023, and DLRM of 2025.

Source: github.com/alibaba/clusterdata, cluster-trace-gpu-v2023 and cluster-trace-gpu-v2025.

**openb** has one table of nodes with GPUs of several models, and one of pods that request them. In
some of the published tables, some pods may use only certain GPU models (``gpu_spec``).

**DLRM** is a table of pods, there called instances, that serve recommendation models. A pod is a
job of one task; its user is its application (``app_name``). It takes the cores, memory and GPUs
that it requests. The trace names no nodes, so a table like openb's table of nodes must be given. A
pod of role HN (heterogeneous GPU node) may run on nodes with GPUs. A pod of role CN (CPU node) may
run on nodes without GPUs, or on all nodes if each has GPUs. A pod arrives at its creation and runs
from its scheduling to its deletion. The table leaves times before or after the trace empty. Such
pods are counted, and cut at the start of the trace, second 0, or at its end, the latest time of the
table. Pods that were never scheduled, end before they start or request nothing are left out.
Requests of disk and network cards are ignored; limits of pods per node are counted and not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from fairlead.traces._csv_tables import ROW, Block, TraceColumn, keep_usable, read_blocks
from fairlead.traces._stored_files import ProgressReport, error_source, only_file
from fairlead.traces.logs.job_collector import HALF_SECOND, JobCollector, Place, group_equal

POD_TABLES, NODE_TABLES = "*pod_list*.csv*", "*node_list*.csv*"

NODE_COLUMNS = (
    TraceColumn("sn"),
    TraceColumn("cpu_milli", "whole"),
    TraceColumn("memory_mib", "whole"),
    TraceColumn("gpu", "whole"),
    TraceColumn("model", optional=True),
)
POD_COLUMNS = (
    TraceColumn("name"),
    TraceColumn("cpu_milli", "whole"),
    TraceColumn("memory_mib", "whole"),
    TraceColumn("num_gpu", "whole"),
    TraceColumn("gpu_milli", "whole"),
    TraceColumn("gpu_spec", optional=True),
    TraceColumn("qos"),
    TraceColumn("creation_time", "whole"),
    TraceColumn("deletion_time", "whole"),
    TraceColumn("scheduled_time", "real", optional=True),
)
RESOURCES = ("cpu", "memory", "gpu")
UNITS = ("cores", "GiB", "GPUs")

NEVER_SCHEDULED = "pods left out, as they were never scheduled"
ENDED_BEFORE_START = "pods left out, as they end before they start"
NO_DEMAND = "pods left out, as they ask for nothing"
UNKNOWN_MODEL = "pods left out, as no node has a GPU model that they accept"
NO_START = "pods scheduled before they were created, whose start is taken as unknown"
NO_MEMORY = "pods that ask for no memory"
SHARED_GPU = "pods that ask for part of a GPU"

INSTANCE_COLUMNS = (
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
INSTANCE_FIELDS = (
    ROW,
    "instance_sn",
    "role",
    "app_name",
    "cpu_request",
    "memory_request",
    "gpu_request",
)
CPU_ROLE, GPU_ROLE = "CN", "HN"

CREATED_BEFORE = "pods created before the trace; they arrive at its start"
DELETED_AFTER = "pods not deleted in the trace; they end with the trace"
ROUNDED_UP = "pods that ended in the second of their start, taken as half a second"
DENSITY = "pods of an application with a limit per node, which is not used"


def read_openb(
    path: Path, *, machines: Path | None = None, on_progress: ProgressReport | None = None
) -> Workload:
    """Read a table of pods, or the folder of one, in O(pods + nodes), 12 us a pod.

    - The table of nodes is `machines`, or the only one in the folder.
    - A pod is a job of one task. Its user is its quality of service, as the trace names no users.
    - A pod arrives at its creation and runs from its scheduled time to its deletion. Times are
      seconds from the first creation.
    - GPUs are devices: a pod takes whole GPUs, or ``gpu_milli / 1000`` of one.
    - ``gpu_spec`` restricts a pod to nodes of the listed models. The node on which it ran is
      unknown.
    - Nodes with equal cores, memory, GPUs and GPU model are a group.
    """
    folder = path if path.is_dir() else path.parent
    pods = path if path.is_file() else only_file(folder, POD_TABLES, "name one of them")
    cluster = cluster_of_nodes(
        machines or only_file(folder, NODE_TABLES, "name one with --machines")
    )
    models = [label.get("gpu", "") for label in cluster.labels]
    collected = JobCollector()
    for block in read_blocks(pods, POD_COLUMNS, header=True, on_progress=on_progress):
        _collect(block, models, collected)
    return collected.workload(pods, cluster, "openb pods")


def cluster_of_nodes(nodes: Path) -> Cluster:
    """Read a table of nodes; equal nodes are a group. Groups are in order of their first nodes."""
    machines: dict[str, Machine] = {}
    for block in read_blocks(nodes, NODE_COLUMNS, header=True):
        frame = block.frame
        gpus, models = frame["gpu"] > 0, frame["model"].is_not_null()
        block.refuse(gpus != models, "has GPUs without a model, or a model without GPUs", "sn")
        for row, name, cpu, memory, gpu, model in frame.select(
            ROW, *(column.name for column in NODE_COLUMNS)
        ).iter_rows():
            with error_source(block.source, f"row {row}"):
                add_machine(machines, name, Machine(cpu / 1000, memory / 1024, gpu, model or ""))
    with error_source(str(nodes)):
        cluster, _ = group_machines(machines)
    return replace(cluster, devices=("gpu",))


class Machine(NamedTuple):
    """The capacity of a machine."""

    cpu: float  # cores
    memory: float  # GiB
    gpu: float  # number of GPUs
    model: str  # of the GPUs; empty without any


def add_machine(machines: dict[str, Machine], name: str, machine: Machine) -> None:
    """Add a machine by its name; InputError for a repeated name, or neither CPU nor memory."""
    if name in machines:
        raise InputError(f"duplicate machine {name!r}")
    if machine.cpu + machine.memory <= 0:
        raise InputError(f"{name!r} has no CPU and no memory")
    machines[name] = machine


def group_machines(machines: Mapping[str, Machine]) -> tuple[Cluster, dict[str, int]]:
    """Group equal machines; also return the server of each name.

    Groups are in order of their first machines. Raises InputError if there is no machine.
    """
    if not machines:
        raise InputError("holds no machine")
    groups, numbers = group_equal(machines)
    cluster = Cluster(
        # For example 2xT4-96c-384g.
        groups=tuple(
            f"{f'{gpu:g}x{model}' if model else 'cpu'}-{cpu:g}c-{memory:g}g"
            for cpu, memory, gpu, model in groups
        ),
        resources=RESOURCES,
        capacity=np.array([machine[:3] for machine in groups], dtype=np.float64),
        count=np.array([len(names) for names in groups.values()]),
        units=UNITS,
        labels=tuple({"gpu": machine.model} if machine.model else {} for machine in groups),
    )
    return cluster, numbers


def _collect(block: Block, models: list[str], collected: JobCollector) -> None:
    """Add the pods of a block; `models` has the GPU model of each group of nodes."""
    frame, notes = block.frame, collected.notes
    gpus, milli = frame["num_gpu"], frame["gpu_milli"]
    shared = (gpus == 1) & (milli < 1000)
    block.refuse(shared & (milli == 0), "asks for a GPU and takes nothing of it", "name")
    block.refuse(milli > 1000, "is more than one GPU", "gpu_milli")
    block.refuse((gpus == 0) & (milli > 0), "is part of a GPU, and num_gpu is 0", "gpu_milli")
    parts = (gpus > 1) & (milli != 1000)
    block.refuse(parts, "is not 1000, and num_gpu is more than 1", "gpu_milli")
    usable = {
        NEVER_SCHEDULED: pl.col("scheduled_time").is_not_null(),
        ENDED_BEFORE_START: pl.col("deletion_time") > pl.col("scheduled_time"),
        NO_DEMAND: pl.sum_horizontal("cpu_milli", "memory_mib", "num_gpu") > 0,
    }
    frame = keep_usable(frame.with_columns(part=shared), notes, usable)
    places: dict[str | None, Place | None] = {None: (True,) * len(models)}
    with error_source(block.source, lambda: f"row {row[ROW]}"):
        for row in frame.iter_rows(named=True):
            spec = row["gpu_spec"]
            if spec not in places:
                accepted = set(spec.split("|"))
                place = tuple(model in accepted for model in models)
                places[spec] = place if any(place) else None
            allowed = places[spec]
            if allowed is None:
                notes[UNKNOWN_MODEL] += 1
                continue
            notes[NO_MEMORY] += row["memory_mib"] == 0
            notes[SHARED_GPU] += row["part"]
            gpu = row["gpu_milli"] / 1000 if row["part"] else float(row["num_gpu"])
            is_start_known = row["scheduled_time"] >= row["creation_time"]
            notes[NO_START] += not is_start_known
            collected.add_job(row["name"], row["qos"], row["creation_time"])
            collected.add_tasks(
                (row["cpu_milli"] / 1000, row["memory_mib"] / 1024, gpu),
                allowed,
                (row["deletion_time"] - row["scheduled_time"],),
                start=row["scheduled_time"] if is_start_known else nan,
            )


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
    for block in read_blocks(path, INSTANCE_COLUMNS, header=True, on_progress=on_progress):
        _check_roles(block, any(with_gpus), machines)
        frames.append(block.frame.select(*INSTANCE_FIELDS, "max_instance_per_node", *TIMES))
    if frames:
        _collect_instances(pl.concat(frames), str(path), places, collected)
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


def _collect_instances(
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
        ENDED_BEFORE_START: pl.col("end") >= pl.col("start"),
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

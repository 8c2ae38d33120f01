"""Alibaba's trace of 2025: each field of a few instances written by hand, each note and fault."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from fairlead.model.workload import Workload
from fairlead.traces.logs import dlrm
from fairlead.traces.logs.dlrm import read_dlrm
from fairlead.traces.logs.job_collector import OUT_OF_ORDER
from faults import fault_of, spoil

HEADER = (
    "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,"
    "memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,"
    "scheduled_time,deletion_time"
)
ROWS = """\
i0,HN,app_0,12,12,1,1,25,25,120.0,120.0,680.0,800.0,8,,,
i1,CN,app_1,64,64,0,0,1,1,320.5,320.5,255.0,300.0,-1,,,70.0
i2,CN,app_1,64,64,0,0,1,1,320.0,320.0,255.0,300.0,-1,,5.0,65.0
i3,HN,app_0,8,8,2,2,25,25,40.0,40.0,85.0,100.0,4,20.0,24.0,100.0
i4,CN,app_2,2,2,0,0,1,1,4.0,4.0,255.0,300.0,-1,10.0,10.0,10.0
i5,CN,app_2,2,2,0,0,1,1,4.0,4.0,255.0,300.0,-1,40.0,38.0,60.0
i6,CN,app_2,0,0,0,0,1,1,0.0,0.0,255.0,300.0,-1,50.0,,
i7,CN,app_2,2,2,0,0,1,1,4.0,4.0,255.0,300.0,-1,50.0,60.0,55.0
i8,CN,app_2,0,0,0,0,1,1,0.0,0.0,255.0,300.0,-1,50.0,50.0,55.0
i9,CN,app_2,2,2,0,0,1,1,4.0,4.0,255.0,300.0,-1,90.0,99.5,
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,96000,524288,0,\nn1,64000,262144,2,T4\n"
NODES += "n2,96000,524288,0,\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    found = tmp_path / "instances.csv"
    found.write_text(f"{HEADER}\n{ROWS}")
    (tmp_path / "nodes.csv").write_text(NODES)
    return found


def read(table: Path) -> Workload:
    return read_dlrm(table, machines=table.parent / "nodes.csv")


def test_each_instance_is_what_its_row_says(table: Path) -> None:
    workload = read(table)
    cluster = workload.cluster
    assert cluster.resources == ("cpu", "memory", "gpu")
    assert cluster.capacity.tolist() == [[96, 512, 0], [64, 256, 2]]
    assert cluster.count.tolist() == [2, 1]
    assert workload.job_names.tolist() == ["i0", "i1", "i2", "i4", "i3", "i5", "i9"]
    assert workload.users == ("app_0", "app_1", "app_2")
    assert workload.job_user.tolist() == [0, 1, 1, 2, 0, 2, 2]
    assert workload.job_submit.tolist() == [0, 0, 0, 10, 20, 40, 90]
    assert not workload.job_gang.any()
    assert workload.set_tasks.tolist() == [1] * 7
    assert workload.shapes[workload.set_shape].tolist() == [
        [12, 120, 1], [64, 320.5, 0], [64, 320, 0], [2, 4, 0], [8, 40, 2], [2, 4, 0], [2, 4, 0],
    ]  # fmt: skip
    on_cpu, on_gpu = [True, False], [False, True]
    places = workload.places[workload.set_place].tolist()
    assert places == [on_gpu, on_cpu, on_cpu, on_cpu, on_gpu, on_cpu, on_cpu]
    assert workload.task_duration.tolist() == [100, 70, 60, 0.5, 76, 22, 0.5]
    starts = [0, 0, 5, 10, 24, np.nan, 99.5]
    np.testing.assert_array_equal(workload.task_start, starts)
    assert (workload.task_server == -1).all()
    assert workload.origin == "DLRM instances instances.csv"
    assert workload.notes == {
        dlrm.CREATED_BEFORE: 3, dlrm.DELETED_AFTER: 2, dlrm.NEVER_SCHEDULED: 1, dlrm.NO_LIFE: 1,
        dlrm.NO_DEMAND: 1, dlrm.NO_START: 1, dlrm.ROUNDED_UP: 1, dlrm.DENSITY: 2, OUT_OF_ORDER: 1,
    }  # fmt: skip


def test_times_count_from_the_first_creation(table: Path) -> None:
    rows = ROWS.splitlines()
    table.write_bytes(gzip.compress("\n".join([HEADER, rows[3], rows[9]]).encode()))
    workload = read(table)
    assert workload.job_submit.tolist() == [0, 70]
    assert workload.task_start.tolist() == [4, 79.5]
    assert workload.task_duration.tolist() == [76, 0.5]
    assert workload.origin.endswith("time from second 20 of its clock")


def test_nodes_are_needed(table: Path) -> None:
    assert "names no nodes; give --machines FILE" in fault_of(read_dlrm, table)
    nodes, (header, without, with_gpus, _) = table.parent / "nodes.csv", NODES.splitlines()
    nodes.write_text(f"{header}\n{with_gpus}\n")
    assert read(table).places.all()
    nodes.write_text(f"{header}\n{without}\n")
    assert fault_of(read, table) == (
        f"{table}: row 2: instance_sn: 'i0' needs a node with GPUs, and nodes.csv has none"
    )


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("role,", "", "row 1: the header lacks role: 'instance_sn,app_name"),
        ("i3,HN", "i0,HN", "row 5: duplicate job 'i0'"),
        ("i3,HN", "i3,GN", "row 5: role: 'GN' is neither CN nor HN"),
        ("i3,HN", "i3,CN", "row 5: instance_sn: 'i3' asks for GPUs, and its role is CN"),
        ("2,2,25,25,40", "1.5,2,25,25,40", "row 5: gpu_request: '1.5' is not a whole number"),
    ],
)
def test_a_fault_names_its_row(table: Path, old: str, new: str, fault: str) -> None:
    spoil(table, old, new)
    assert fault_of(read, table).startswith(f"{table}: {fault}")


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (ROWS.splitlines()[0], "names no time, so the length of the trace is not known"),
        (ROWS.splitlines()[6], f"holds no job that ever ran ({dlrm.NEVER_SCHEDULED}: 1)"),
    ],
)
def test_a_table_without_a_run_is_refused(table: Path, rows: str, fault: str) -> None:
    table.write_text(f"{HEADER}\n{rows}")
    assert fault_of(read, table) == f"{table}: {fault}"

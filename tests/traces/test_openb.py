"""Alibaba's nodes and pods of openb, and its instances of DLRM: fields, notes, and faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairlead.model.workload import Workload
from fairlead.traces import _stored_files
from fairlead.traces.logs import openb
from fairlead.traces.logs.job_collector import OUT_OF_ORDER
from fairlead.traces.logs.openb import read_dlrm, read_openb
from faults import fault_of, spoil

NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,32000,262144,0,
n1,96000,393216,8,G2
n2,32000,262144,0,
n3,8000,61440,2,P100
"""
HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
)
GOOD = "p0,12000,16384,1,1000,,LS,Running,5,100,10\n"


def read(folder: Path, *rows: str, nodes: str = NODES, header: str = HEADER) -> Workload:
    (folder / "nodes.csv").write_text(nodes)
    (folder / "pods.csv").write_text(header + "".join(rows))
    return read_openb(folder / "pods.csv", machines=folder / "nodes.csv")


def test_amounts_and_place_of_a_pod(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        "late,1000,1024,0,0,,BE,Running,50,90,60\n",
        "whole,2000,2048,2,1000,G2|P100,LS,Failed,5,100,10\n",
        "part,1500,512,1,460,P100,BE,Succeeded,7,20,7.5\n",
        "early,1000,1024,0,0,,BE,Running,51,90,10\n",  # scheduled before its creation
        "at once,1000,1024,0,0,,BE,Running,60,90,60\n",
    )
    cluster = workload.cluster
    assert cluster.resources == ("cpu", "memory", "gpu")
    assert cluster.capacity.tolist() == [[32, 256, 0], [96, 384, 8], [8, 60, 2]]
    assert cluster.count.tolist() == [2, 1, 1]
    assert [dict(labels) for labels in cluster.labels] == [{}, {"gpu": "G2"}, {"gpu": "P100"}]
    assert len(set(cluster.groups)) == 3
    assert workload.job_names.tolist() == ["whole", "part", "late", "early", "at once"]
    assert workload.users == ("BE", "LS")
    assert workload.job_user.tolist() == [1, 0, 0, 0, 0]
    assert workload.job_submit.tolist() == [0, 2, 45, 46, 55]
    assert workload.task_duration.tolist() == [90, 12.5, 30, 80, 30]
    np.testing.assert_array_equal(workload.task_start, [5, 2.5, 55, np.nan, 55])
    assert workload.task_server.tolist() == [-1] * 5
    shapes = workload.shapes[workload.set_shape].tolist()
    assert shapes == [[2, 2, 2], [1.5, 0.5, 0.46], *[[1, 1, 0]] * 3]
    places = [[False, True, True], [False, False, True], *[[True, True, True]] * 3]
    assert workload.places[workload.set_place].tolist() == places
    assert workload.notes == {openb.SHARED_GPU: 1, OUT_OF_ORDER: 2, openb.NO_START: 1}


def test_left_out_records_are_counted(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        GOOD,
        "p1,1000,1024,0,0,,BE,Pending,50,90,\n",
        "p2,1000,1024,0,0,,BE,Running,50,60,60\n",
        "p3,0,0,0,0,,BE,Running,50,90,60\n",
        "p4,1000,1024,1,1000,V100,BE,Running,50,90,60\n",
        "p5,1000,0,0,0,,BE,Running,50,90,60\n",
    )
    assert workload.job_names.tolist() == ["p0", "p5"]
    assert workload.notes == {
        openb.NEVER_SCHEDULED: 1, openb.ENDED_BEFORE_START: 1,
        openb.NO_DEMAND: 1, openb.UNKNOWN_MODEL: 1,
        openb.NO_MEMORY: 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((GOOD, GOOD), "row 3: duplicate job 'p0'"),
        ((GOOD, GOOD.replace("1000,,", "1001,,")), "row 3: gpu_milli: '1001' is more than one GPU"),
        ((GOOD, GOOD.replace(",1,1000", ",0,500")), "row 3: gpu_milli: '500' is part of a GPU"),
        ((GOOD, GOOD.replace(",1,1000", ",2,500")), "row 3: gpu_milli: '500' is not 1000"),
        ((GOOD, GOOD.replace("1000,,", "0,,")), "row 3: name: 'p0' asks for a GPU and takes not"),
        ((), "holds no job that ever ran"),
    ],
)
def test_unusable_pods(tmp_path: Path, rows: tuple[str, ...], message: str) -> None:
    assert fault_of(read, tmp_path, *rows).startswith(f"{tmp_path / 'pods.csv'}: {message}")


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (NODES + "n0,1,1,0,\n", "row 6: duplicate machine 'n0'"),
        (NODES + "n4,1,1,2,\n", "row 6: sn: 'n4' has GPUs without a model"),
        (NODES + "n4,0,0,0,\n", "row 6: 'n4' has no CPU and no memory"),
        (NODES.split("\n", 1)[0], "holds no machine"),
    ],
)
def test_unusable_nodes(tmp_path: Path, nodes: str, message: str) -> None:
    fault = fault_of(read, tmp_path, GOOD, nodes=nodes)
    assert fault.startswith(f"{tmp_path / 'nodes.csv'}: {message}")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("p9,", "p\0,", "not text: it holds a zero byte"),
        ("p9,", "p\udcff,", "not text in UTF-8"),
        ("p9,", "p\r9,", "holds a carriage return"),
        ("p9,", '"p9,', "is not CSV: unexpected end of data"),
        ("p9,", ",", "name: is empty"),
        (",16384,", ",,", "memory_mib: is empty"),
        ("12000", "9" * 30, "cpu_milli: '9999"),
        ("Running,5", "Running,-", "creation_time: '-' is not a whole number"),
    ],
)
def test_rows_are_numbered_through_all_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, fault: str
) -> None:
    rows = [GOOD.replace("p0", f"p{k}") for k in range(10)]
    assert old in rows[9]
    (tmp_path / "nodes.csv").write_text(NODES)
    pods = tmp_path / "pods.csv"
    text = "".join((HEADER, *rows[:9], "\n", rows[9].replace(old, new)))
    pods.write_bytes(text.encode("utf-8", "surrogateescape"))
    for size in (7, len(HEADER), 200, 2**20):
        monkeypatch.setattr(_stored_files, "BYTES_PER_BLOCK", size)
        found = fault_of(read_openb, pods, machines=tmp_path / "nodes.csv")
        assert found.startswith(f"{pods}: row 12: {fault}")


def test_a_header_names_each_column_once(tmp_path: Path) -> None:
    fault = fault_of(read, tmp_path, GOOD, header=HEADER.replace("qos", "QoS"))
    assert "pods.csv: row 1: the header lacks qos: 'name,cpu_milli," in fault
    fault = fault_of(read, tmp_path, GOOD, header=HEADER.replace("pod_phase", "qos"))
    assert "row 1: the header repeats a name" in fault


DLRM_HEADER = (
    "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,"
    "memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,"
    "scheduled_time,deletion_time"
)
INSTANCES = """\
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
DLRM_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,96000,524288,0,\nn1,64000,262144,2,T4\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    found = tmp_path / "instances.csv"
    found.write_text(f"{DLRM_HEADER}\n{INSTANCES}")
    (tmp_path / "nodes.csv").write_text(DLRM_NODES)
    return found


def read_instances(table: Path) -> Workload:
    return read_dlrm(table, machines=table.parent / "nodes.csv")


def test_each_instance_is_what_its_row_says(table: Path) -> None:
    workload = read_instances(table)
    assert workload.job_names.tolist() == ["i0", "i1", "i2", "i4", "i3", "i5", "i9"]
    assert workload.users == ("app_0", "app_1", "app_2")
    assert workload.job_user.tolist() == [0, 1, 1, 2, 0, 2, 2]
    assert workload.job_submit.tolist() == [0, 0, 0, 10, 20, 40, 90]
    assert not workload.job_gang.any()
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
    assert workload.notes == {
        openb.CREATED_BEFORE: 3, openb.DELETED_AFTER: 2, openb.NEVER_SCHEDULED: 1,
        openb.ENDED_BEFORE_START: 1,
        openb.NO_DEMAND: 1, openb.NO_START: 1, openb.ROUNDED_UP: 1, openb.DENSITY: 2,
        OUT_OF_ORDER: 1,
    }  # fmt: skip


def test_nodes_are_needed(table: Path) -> None:
    assert "names no nodes; give --machines FILE" in fault_of(read_dlrm, table)
    nodes, (header, without, with_gpus) = table.parent / "nodes.csv", DLRM_NODES.splitlines()
    nodes.write_text(f"{header}\n{with_gpus}\n")
    assert read_instances(table).places.all()
    nodes.write_text(f"{header}\n{without}\n")
    fault = fault_of(read_instances, table)
    assert "row 2: instance_sn: 'i0' needs a node with GPUs, and nodes.csv has none" in fault


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("i3,HN", "i0,HN", "row 5: duplicate job 'i0'"),
        ("i3,HN", "i3,GN", "row 5: role: 'GN' is neither CN nor HN"),
        ("i3,HN", "i3,CN", "row 5: instance_sn: 'i3' asks for GPUs, and its role is CN"),
    ],
)
def test_a_fault_names_its_row(table: Path, old: str, new: str, fault: str) -> None:
    spoil(table, old, new)
    assert fault_of(read_instances, table).startswith(f"{table}: {fault}")


def test_an_instance_without_times_has_no_trace(table: Path) -> None:
    table.write_text(f"{DLRM_HEADER}\n{INSTANCES.splitlines()[0]}")
    fault = fault_of(read_instances, table)
    assert fault == f"{table}: names no time, so the length of the trace is not known"

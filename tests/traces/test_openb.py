"""Openb nodes and pods: requests, places and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairlead.model.workload import Workload
from fairlead.traces import _csv_tables
from fairlead.traces.logs import openb
from fairlead.traces.logs.job_collector import OUT_OF_ORDER
from fairlead.traces.logs.openb import read_openb
from fairlead.traces.readers import read_workload
from faults import fault_of

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


def test_nodes_alike_are_a_group(tmp_path: Path) -> None:
    cluster = read(tmp_path, GOOD).cluster
    assert cluster.resources == ("cpu", "memory", "gpu")
    assert cluster.capacity.tolist() == [[32, 256, 0], [96, 384, 8], [8, 60, 2]]
    assert cluster.count.tolist() == [2, 1, 1]
    assert [dict(labels) for labels in cluster.labels] == [{}, {"gpu": "G2"}, {"gpu": "P100"}]
    assert len(set(cluster.groups)) == 3


def test_amounts_and_place_of_a_pod(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        "late,1000,1024,0,0,,BE,Running,50,90,60\n",
        "whole,2000,2048,2,1000,G2|P100,LS,Failed,5,100,10\n",
        "part,1500,512,1,460,P100,BE,Succeeded,7,20,7.5\n",
    )
    assert workload.job_names.tolist() == ["whole", "part", "late"]
    assert workload.users == ("BE", "LS")
    assert workload.job_user.tolist() == [1, 0, 0]
    assert workload.job_submit.tolist() == [0, 2, 45]
    assert workload.task_duration.tolist() == [90, 12.5, 30]
    assert workload.task_start.tolist() == [5, 2.5, 55]
    assert workload.task_server.tolist() == [-1] * 3
    assert workload.shapes[workload.set_shape].tolist() == [[2, 2, 2], [1.5, 0.5, 0.46], [1, 1, 0]]
    assert workload.places[workload.set_place].tolist() == [
        [False, True, True],
        [False, False, True],
        [True, True, True],
    ]
    assert workload.notes == {openb.SHARED_GPU: 1, OUT_OF_ORDER: 2}


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
        openb.NEVER_SCHEDULED: 1, openb.NO_LIFE: 1, openb.NO_DEMAND: 1, openb.UNKNOWN_MODEL: 1,
        openb.NO_MEMORY: 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((GOOD, GOOD), "row 3: duplicate job 'p0'"),
        ((GOOD, GOOD.replace("12000", "9" * 30)), "row 3: cpu_milli: '9999"),
        ((GOOD, GOOD.replace("1000,,", "1001,,")), "row 3: gpu_milli: '1001' is more than one GPU"),
        ((GOOD, GOOD.replace(",1,1000", ",0,500")), "row 3: gpu_milli: '500' is part of a GPU"),
        ((GOOD, GOOD.replace(",1,1000", ",2,500")), "row 3: gpu_milli: '500' is not 1000"),
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
    assert fault_of(read, tmp_path, GOOD, nodes=nodes).startswith(
        f"{tmp_path / 'nodes.csv'}: {message}"
    )


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("p9,", "p\0,", "not text: it holds a zero byte"),
        ("p9,", "p\udcff,", "not text in UTF-8"),
        ("p9,", "p\r9,", "holds a carriage return"),
        ("p9,", '"p9,', "is not CSV: unexpected end of data"),
        ("p9,", ",", "name: is empty"),
        (",16384,", ",,", "memory_mib: is empty"),
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
    monkeypatch.setattr(_csv_tables, "BYTES_PER_READ", 7)
    for size in (len(HEADER), 200, 2**20):
        monkeypatch.setattr(_csv_tables, "BYTES_PER_BLOCK", size)
        found = fault_of(read_openb, pods, machines=tmp_path / "nodes.csv")
        assert found.startswith(f"{pods}: row 12: {fault}")


def test_a_pod_scheduled_before_its_creation_has_no_start(tmp_path: Path) -> None:
    early = GOOD.replace("p0", "p1").replace(",5,100,10", ",50,100,10")
    at_once = GOOD.replace("p0", "p2").replace(",5,100,10", ",60,100,60")
    workload = read(tmp_path, GOOD, early, at_once)
    np.testing.assert_array_equal(workload.task_start, [5, np.nan, 55])
    assert workload.notes[openb.NO_START] == 1


def test_a_header_that_differs_is_still_that_of_pods(tmp_path: Path) -> None:
    (tmp_path / "openb_node_list.csv").write_text(NODES)
    pods = tmp_path / "openb_pod_list.csv"
    pods.write_text(HEADER.replace("qos", "QoS") + GOOD)
    fault = f"{pods}: row 1: the header lacks qos: 'name,cpu_milli,"
    assert fault_of(read_workload, pods).startswith(fault)
    pods.write_text(HEADER.replace("pod_phase", "qos") + GOOD)
    assert "row 1: the header repeats a name" in fault_of(read_workload, pods)

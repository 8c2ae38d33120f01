"""Helios traces: each field of a few rows written by hand, each note, and each fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.model.workload import Workload
from fairlead.traces.logs import helios
from fairlead.traces.logs.helios import read_helios
from faults import fault_of, spoil

HEADING = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
)


def row(job: int, asked: str, state: str, *times: str, user: str = "u1", vc: str = "vc1") -> str:
    """Return a row; times are those of 2020-06-09."""
    full = ",".join(time and f"2020-06-09 {time}" for time in times)
    return f"{job},{user},{vc},{asked},{state},{full},0,0"


ROWS = [
    row(1, "1,2,1", "COMPLETED", "18:00:00", "18:01:00", "18:03:00"),
    row(2, "16,10,2", "FAILED", "18:00:10", "18:02:00", "18:12:00", user="u2", vc="vc2"),
    row(3, "5,7,3", "CANCELLED", "18:00:20", "18:00:20", "18:00:50"),
    row(4, "0,4,1", "TIMEOUT", "18:00:30", "18:01:30", "18:01:30", user=""),
    row(5, "1,1,1", "CANCELLED", "18:00:40", "", "18:01:00"),
    row(6, "1,1,1", "RUNNING", "18:00:50", "18:01:00", "18:02:00"),
    row(7, "1,1,1", "COMPLETED", "18:01:00", "18:02:00", ""),
    row(8, "1,1,1", "COMPLETED", "18:01:10", "18:02:00", "18:01:59"),
    row(9, "0,0,1", "COMPLETED", "18:01:20", "18:02:00", "18:03:00"),
    row(10, "2,1,4", "NODE_FAIL", "18:01:30", "18:01:20", "18:01:40"),
    row(11, "1,1,0", "COMPLETED", "18:01:40", "18:02:00", "18:03:00"),
]


TIMES = ("18:00:00", "18:01:00", "18:02:00")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "cluster_log.csv"
    path.write_text("\n".join((HEADING, *ROWS, "")))
    return path


def read(path: Path, **options: Any) -> Workload:
    return read_helios(path, **{"servers": 3, "cores": 48, **options})


def read_rows(log: Path, *rows: str) -> Workload:
    log.write_text("\n".join((HEADING, *rows, "")))
    return read(log)


def test_a_job_is_a_gang_of_its_nodes(log: Path) -> None:
    workload = read(log)
    assert workload.job_names.tolist() == ["1", "2", "3", "4", "10", "11"]
    assert workload.users == ("u1", "u2", "unknown")
    assert workload.job_user.tolist() == [0, 1, 0, 2, 0, 0]
    assert workload.job_submit.tolist() == [0, 10, 20, 30, 80, 100]
    assert workload.job_gang.tolist() == [False, True, True, False, True, False]
    assert workload.set_job.tolist() == [0, 1, 2, 2, 2, 3, 4, 4, 5]
    assert workload.set_tasks.tolist() == [1, 2, 1, 1, 1, 1, 1, 1, 1]
    assert workload.shapes[workload.set_shape].tolist() == [
        [2, 1], [5, 8], [3, 2], [2, 2], [2, 1], [4, 0], [1, 1], [0, 1], [1, 1],
    ]  # fmt: skip
    assert workload.task_start.tolist() == [60, 120, 120, 20, 20, 20, 90, 80, 80, 120]
    assert workload.task_duration.tolist() == [120, 600, 600, 30, 30, 30, 0.5, 20, 20, 60]
    assert (workload.task_server == -1).all()
    assert workload.places.all()
    assert workload.origin == "Helios log cluster_log.csv"
    assert workload.start_date == 1591725600
    cluster = workload.cluster
    assert (cluster.resources, cluster.units) == (("cpu", "gpu"), ("cores", "GPUs"))
    assert cluster.capacity.tolist() == [[48, 8]]
    assert cluster.count.tolist() == [3]
    of_virtual_clusters = read(log, user_from="vc")
    assert of_virtual_clusters.users == ("vc1", "vc2")
    assert of_virtual_clusters.job_user.tolist() == [0, 1, 0, 0, 0, 0]
    assert "must be one of user, vc, not 'queue'" in fault_of(read, log, user_from="queue")
    assert workload.notes == {
        helios.NEVER_RAN: 1, helios.STILL_RAN: 2, helios.BACKWARDS: 1, helios.NO_DEMAND: 1,
        helios.ROUNDED_UP: 1, helios.EARLY_START: 1, helios.NO_USER: 1, helios.FEWER_TASKS: 1,
        helios.NO_NODES: 1,
    }  # fmt: skip


def test_a_server_has_eight_gpus_or_those_of_the_largest_task(log: Path) -> None:
    asked = ("20,2,2", "33,2,3", "8,2,1")
    rows = (row(k, gpus, "FAILED", *TIMES) for k, gpus in enumerate(asked))
    assert read_rows(log, *rows).cluster.capacity.tolist() == [[48, 11]]


def test_each_task_takes_something(log: Path) -> None:
    """A job with fewer cores and GPUs than nodes has fewer tasks."""
    asked = {"3,1,3": 3, "1,3,3": 3, "1,2,3": 2, "2,1,3": 2, "0,1,9": 1}
    workload = read_rows(log, *(row(k, text, "FAILED", *TIMES) for k, text in enumerate(asked)))
    tasks = np.bincount(workload.set_job, workload.set_tasks)
    assert tasks.tolist() == list(asked.values())
    assert workload.notes[helios.FEWER_TASKS] == 3


def test_a_table_may_have_absent_times_and_other_columns(log: Path) -> None:
    """The folder of a cluster stands for its only table."""
    one = row(1, "1,1,1", "CANCELLED", *TIMES).replace(",vc1,", ',vc1,"a, b",')
    rows = [one.replace("2020-06-09 18:01:00", absent) for absent in ("None", "Unknown", "NaT", "")]
    rows.append(one)
    log.write_text("\n".join((HEADING.replace("vc,", "vc,jobname,"), *rows)))
    workload = read(log.parent)
    assert workload.n_jobs == 1
    assert workload.notes == {helios.NEVER_RAN: 4}
    assert "names no servers; give --serv" in fault_of(read, log, servers=None, cores=None)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("2,u2", "1,u2", "row 3: duplicate job '1'"),
        ("2,u2", "\x1b2,u2", "row 3: must not have control characters"),
        ("16,10,2", "16,10,9999999999", "row 3: node_num: '9999999999' is more than 1000000000"),
        ("16,10,2", "16,60000000,60000000", "row 3: node_num: 60,000,000 make more than 50,000,"),
        ("2020-06-09 18:02:00", "09.06.20", "row 3: start_time: '09.06.20' is not a ti"),
        ("2020-06-09 18:00:10", "", "row 3: submit_time: is not known"),
    ],
)
def test_a_fault_names_its_row(log: Path, old: str, new: str, fault: str) -> None:
    spoil(log, old, new)
    assert fault_of(read, log).startswith(f"{log}: {fault}")

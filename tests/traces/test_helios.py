"""Helios traces: each field of a few rows written by hand, each note, and each fault."""

from __future__ import annotations

import gzip
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
    assert workload.notes == {
        helios.NEVER_RAN: 1, helios.STILL_RAN: 2, helios.BACKWARDS: 1, helios.NO_DEMAND: 1,
        helios.ROUNDED_UP: 1, helios.EARLY_START: 1, helios.NO_USER: 1, helios.FEWER_TASKS: 1,
        helios.NO_NODES: 1,
    }  # fmt: skip


def test_servers_are_given_and_have_eight_gpus(log: Path) -> None:
    cluster = read(log).cluster
    assert cluster.resources == ("cpu", "gpu")
    assert cluster.units == ("cores", "GPUs")
    assert cluster.capacity.tolist() == [[48, 8]]
    assert cluster.count.tolist() == [3]
    times = ("18:00:00", "18:01:00", "18:02:00")
    larger = read_rows(
        log, row(1, "20,2,2", "FAILED", *times), row(2, "33,2,3", "FAILED", *times),
        row(3, "8,2,1", "FAILED", *times),
    )  # fmt: skip
    assert larger.cluster.capacity.tolist() == [[48, 11]]


def test_each_task_takes_something(log: Path) -> None:
    """A job with fewer cores and GPUs than nodes has fewer tasks."""
    asked = {"3,1,3": 3, "1,3,3": 3, "1,2,3": 2, "2,1,3": 2, "0,1,9": 1}
    times = ("18:00:00", "18:01:00", "18:03:00")
    workload = read_rows(
        log, *(row(k, amounts, "COMPLETED", *times) for k, amounts in enumerate(asked))
    )
    tasks = np.bincount(workload.set_job, workload.set_tasks)
    assert tasks.tolist() == list(asked.values())
    assert workload.notes[helios.FEWER_TASKS] == 3


def test_an_absent_time_has_several_forms(log: Path) -> None:
    times = "2020-06-09 18:00:00,{},2020-06-09 18:01:00"
    rows = [
        f"{k},u1,vc1,1,1,1,CANCELLED,{times.format(absent)},0,0"
        for k, absent in enumerate(("None", "Unknown", "NaT", ""), 2)
    ]
    workload = read_rows(log, *rows, ROWS[0])
    assert workload.job_names.tolist() == ["1"]
    assert workload.notes == {helios.NEVER_RAN: 4}


def test_users_may_be_virtual_clusters(log: Path) -> None:
    workload = read(log, user_from="vc")
    assert workload.users == ("vc1", "vc2")
    assert workload.job_user.tolist() == [0, 1, 0, 0, 0, 0]
    assert "must be one of user, vc, not 'queue'" in fault_of(read, log, user_from="queue")


def test_the_heading_may_have_more_columns(log: Path) -> None:
    heading = HEADING.replace("vc,", "vc,jobname,")
    log.write_text("\n".join((heading, *(r.replace(",vc1,", ',vc1,"a, b",') for r in ROWS[:1]))))
    assert read(log).job_names.tolist() == ["1"]


def test_the_folder_of_a_cluster_may_be_named(log: Path) -> None:
    reports: list[tuple[int, int]] = []
    assert read(log.parent, on_progress=lambda *report: reports.append(report)).n_jobs == 6
    assert reports[-1] == (log.stat().st_size, log.stat().st_size)
    packed = log.with_name("cluster_log.csv.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert "has 2 files cluster_log*.csv*" in fault_of(read, log.parent)
    log.unlink()
    assert read(log.parent).n_jobs == 6
    packed.unlink()
    assert "has 0 files cluster_log*.csv*; name one of them" in fault_of(read, log.parent)


def test_servers_must_be_given(log: Path) -> None:
    assert "names no servers; give --serv" in fault_of(read, log, servers=None, cores=None)
    assert "--cores: needs --servers as well" in fault_of(read, log, servers=None)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("job_id,", "id,", "row 1: the header lacks job_id: 'id,user,"),
        ("2,u2", "1,u2", "row 3: duplicate job '1'"),
        ("2,u2", "\x1b2,u2", "row 3: must not have control characters"),
        ("16,10,2", "many,10,2", "row 3: gpu_num: 'many' is not a whole number"),
        ("16,10,2", "16,-1,2", "row 3: cpu_num: '-1' is less than 0"),
        ("16,10,2", "16,10,9999999999", "row 3: node_num: '9999999999' is more than 1000000000"),
        ("16,10,2", "16,60000000,60000000", "row 3: node_num: 60,000,000 make more than 50,000,"),
        ("2020-06-09 18:02:00", "09.06.20", "row 3: start_time: '09.06.20' is not a ti"),
        ("2020-06-09 18:00:10", "", "row 3: submit_time: is not known"),
    ],
)
def test_a_fault_names_its_row(log: Path, old: str, new: str, fault: str) -> None:
    spoil(log, old, new)
    assert fault_of(read, log).startswith(f"{log}: {fault}")

"""Philly's traces: each field of a few jobs written by hand, each note, and each fault."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.model.workload import Workload
from fairlead.traces.logs import philly
from fairlead.traces.logs.philly import read_philly
from faults import fault_of, spoil

MACHINES = """\
machineId, number of GPUs, single GPU mem
m1,8, 24GB
m2,2, 12GB
m3,8, 24GB
m4,2, 12GB
"""


def attempt(start: str | None, end: str | None, **servers: int) -> dict[str, Any]:
    """Return a run on so many GPUs of each server; times are those of 2017-10-07."""
    detail = [{"ip": name, "gpus": [f"gpu{k}" for k in range(n)]} for name, n in servers.items()]
    times = (time and f"2017-10-07 {time}" for time in (start, end))
    return {**dict(zip(("start_time", "end_time"), times, strict=True)), "detail": detail}


def job(name: str, submitted: str, *attempts: dict[str, Any], **other: Any) -> dict[str, Any]:
    times = {"submitted_time": f"2017-10-07 {submitted}", "attempts": list(attempts)}
    return {"status": "Pass", "vc": "vc1", "jobid": name, "user": "ana", **times, **other}


JOBS = [
    job("a1", "10:00:00", attempt("10:01:00", "10:03:00", m1=1)),
    job(
        "a2",
        "10:00:10",
        attempt("10:02:00", "10:05:00", m1=2),
        attempt("10:06:00", "10:16:00", m3=8, m1=4, m5=8),
        user="bo",
        vc="vc2",
        status="Failed",
    ),
    job("a3", "10:00:20", attempt("10:07:00", "10:07:00", m4=4), user=None, status="Killed"),
    job("a4", "10:00:30"),
    job("a5", "10:00:40", attempt("10:08:00", None, m1=1)),
    job("a6", "10:00:50", attempt(None, "10:09:00", m1=1)),
    job("a7", "10:01:00", attempt("10:10:00", "10:09:59", m1=1)),
    job("a8", "10:01:10", attempt("10:10:00", "10:11:00"), attempt("10:12:00", "10:13:00", m1=0)),
    job("a9", "10:01:30", attempt("10:01:20", "10:02:20", m2=2)),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cluster_machine_list").write_text(MACHINES)
    (tmp_path / "cluster_job_log").write_text(json.dumps(JOBS, indent=4))
    return tmp_path


def read_jobs(folder: Path, *jobs: dict[str, Any], **options: Any) -> Workload:
    (folder / "cluster_job_log").write_text(json.dumps(jobs))
    return read_philly(folder, **options)


def test_a_job_is_its_last_attempt(folder: Path) -> None:
    workload = read_philly(folder)
    assert workload.job_names.tolist() == ["a1", "a2", "a3", "a9"]
    assert workload.users == ("ana", "bo", "unknown")
    assert workload.job_user.tolist() == [0, 1, 2, 0]
    assert workload.job_submit.tolist() == [0, 10, 20, 80]
    assert workload.job_gang.tolist() == [False, True, False, False]
    assert workload.set_job.tolist() == [0, 1, 1, 2, 3]
    assert workload.set_tasks.tolist() == [1, 2, 1, 1, 1]
    assert workload.shapes[workload.set_shape].tolist() == [[1], [8], [4], [4], [2]]
    assert workload.task_start.tolist() == [60, 360, 360, 360, 420, 80]
    assert workload.task_duration.tolist() == [120, 600, 600, 600, 0.5, 60]
    assert workload.task_server.tolist() == [0, 1, 4, 0, 3, 2]
    assert workload.places.all()
    cluster = workload.cluster
    assert (cluster.resources, cluster.units) == (("gpu",), ("GPUs",))
    assert cluster.groups == ("8x24GB", "2x12GB", "4xunknown", "8xunknown")
    assert cluster.capacity.tolist() == [[8], [2], [4], [8]]
    assert cluster.count.tolist() == [2, 1, 1, 1]  # m1 and m3, m2, m4, m5
    labels = [labels.get("gpu_memory") for labels in cluster.labels]
    assert labels == ["24GB", "12GB", None, None]
    assert workload.notes == {
        philly.NEVER_RAN: 1, philly.STILL_RAN: 1, philly.NO_START: 1, philly.BACKWARDS: 1,
        philly.NO_GPU: 1, philly.EARLIER_ATTEMPTS: 1, philly.ROUNDED_UP: 1, philly.EARLY_START: 1,
        philly.NO_USER: 1, philly.MORE_GPUS: 1, philly.NOT_LISTED: 1,
    }  # fmt: skip


def test_attempts_left_out_show_the_gpus_of_servers(folder: Path) -> None:
    """Different attempts may use different GPUs of a server."""
    first, still_running = attempt("10:00:00", "10:01:00", m2=1), attempt("10:00:00", None, m2=3)
    first["detail"][0]["gpus"] = ["gpu7"]
    kept = job("a1", "10:00:00", first, attempt("10:02:00", "10:03:00", m1=1))
    workload = read_jobs(folder, kept, job("a2", "10:00:00", still_running))
    assert workload.job_names.tolist() == ["a1"]
    assert dict(zip(workload.cluster.groups, workload.cluster.capacity[:, 0], strict=True)) == {
        "8x24GB": 8, "2x12GB": 2, "4xunknown": 4,
    }  # fmt: skip


def test_a_server_named_twice_is_one_task(folder: Path) -> None:
    run = attempt("10:00:00", "10:01:00", m1=2)
    run["detail"].append({"ip": "m1", "gpus": ["gpu1", "gpu5"]})
    workload = read_jobs(folder, job("a1", "10:00:00", run))
    assert workload.shapes[workload.set_shape].tolist() == [[3]]
    assert workload.set_tasks.tolist() == [1]
    assert not workload.job_gang[0]


def test_users_may_be_virtual_clusters(folder: Path) -> None:
    workload = read_philly(folder, user_from="vc")
    assert workload.users == ("vc1", "vc2")
    assert workload.job_user.tolist() == [0, 1, 0, 0]
    assert "must be one of user, vc" in fault_of(read_philly, folder, user_from="status")


def test_an_absent_time_has_several_forms(folder: Path) -> None:
    ended = job("a1", "10:00:00", attempt("10:00:00", "10:01:00", m1=1))
    running = [job(f"b{k}", "10:00:00", attempt("10:00:00", None, m1=1)) for k in range(3)]
    for one, absent in zip(running, ("", "None", None), strict=True):
        one["attempts"][0]["end_time"] = absent
    assert read_jobs(folder, ended, *running).notes == {philly.STILL_RAN: 3}


def test_files_may_be_elsewhere_and_compressed(folder: Path) -> None:
    log, other = folder / "cluster_job_log", folder / "other.csv"
    packed = folder / "cluster_job_log.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + log.read_bytes()))
    assert "has 2 files cluster_job_log*" in fault_of(read_philly, folder)
    log.unlink()
    reports: list[tuple[int, int]] = []
    assert read_philly(folder, on_progress=lambda *report: reports.append(report)).n_jobs == 4
    assert reports == [(packed.stat().st_size,) * 2]
    assert read_philly(packed).n_jobs == 4
    (folder / "cluster_machine_list").rename(other)
    assert read_philly(folder, machines=other).n_servers == 5
    fault = fault_of(read_philly, folder)
    assert "has 0 files cluster_machine_list*; name one with --machines" in fault


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"jobid": "a1"', '"id": "a1"', "jobs[0]: the key 'jobid' is missing"),
        ('"a1"', '""', "jobs[0] (''): jobid: is empty"),
        ('"a1"', r'"a\u001b1"', "jobs[0] ('a\\x1b1'): must not have control"),
        ('"a2"', '"a1"', "jobs[1] ('a1'): duplicate job 'a1'"),
        ("2017-10-07 10:01:00", "soon", "jobs[0] ('a1'): start_time: 'soon' is not a time"),
        ("10:03:00", "10:03:00+02:00", "jobs[0] ('a1'): end_time: '2017-10-07 10:03:00+02:00' is"),
        ("2017-10-07 10:00:00", "None", "jobs[0] ('a1'): submitted_time: is not known"),
        ('"m3"', '""', "jobs[1] ('a2'): attempts[1]: an ip is empty"),
        ('"attempts": []', '"attempts": {}', "jobs[3].attempts: must be a list"),
        ('"vc": "vc1"', '"vc" "vc1"', "line 4, column 14: is not JSON: expecting ':' delimiter"),
    ],
)
def test_a_fault_names_its_job(folder: Path, old: str, new: str, fault: str) -> None:
    log = folder / "cluster_job_log"
    spoil(log, old, new)
    found = fault_of(read_philly, folder)
    assert found.startswith(f"{log}: ")
    assert fault in found


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (MACHINES.splitlines()[0], "lists no server"),
        ("m1,8,24GB\n", "row 1: the header lacks machineId, number of GPUs, single GPU mem: 'm1"),
        (f"{MACHINES}m5,8\n", "row 6: 2 columns separated by commas, not 3"),
        (f"{MACHINES}m1,8,24GB\n", "row 6: duplicate server 'm1'"),
        (f"{MACHINES}m5,0,24GB\n", "row 6: number of GPUs: '0' is less than 1"),
        (f"{MACHINES}m5,8,24\x07GB\n", "row 6: must not have control characters"),
        (f"{MACHINES}m5,9999999,24GB\n", "row 6: number of GPUs: '9999999' is more than 1000000"),
    ],
)
def test_unusable_servers_are_refused(folder: Path, text: str, fault: str) -> None:
    table = folder / "cluster_machine_list"
    table.write_text(text)
    assert fault_of(read_philly, folder).startswith(f"{table}: {fault}")

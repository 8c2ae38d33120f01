"""Batsim's workloads, read as a trace: each field of a few jobs written by hand, and each fault."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairlead.traces.logs import batsim
from fairlead.traces.logs.batsim import read_batsim
from fairlead.traces.logs.job_collector import OUT_OF_ORDER
from faults import fault_of, spoil

PROFILES = {
    "short": {"type": "delay", "delay": 20.25},
    "long": {"type": "DelayProfile", "delay": 100},
    "twice": {"type": "composed", "repeat": 2, "seq": ["short", "long"]},
    "compute": {"type": "parallel_homogeneous", "cpu": 10e6, "com": 1e6},
}
JOBS = [
    {"id": "a", "subtime": 10, "walltime": 30, "res": 1, "profile": "short", "user_id": 7},
    {"id": 2, "subtime": 11.5, "res": 3, "profile": "long", "user": "bo"},
    {"id": "c", "subtime": 12, "walltime": 60.5, "res": 2, "profile": "long", "user_id": 7},
    {"id": "d", "subtime": 13, "walltime": -1, "res": 1, "profile": "long"},
    {"id": "e", "subtime": 13, "res": 1, "profile": "short", "dependencies": ["d"]},
    {"id": "f", "subtime": 14, "res": 4, "profile": "compute"},
    {"id": "g", "subtime": 15, "res": 4, "profile": "twice"},
    {"id": "h", "subtime": 16, "res": 0, "profile": "short"},
    {"id": "i", "subtime": 12.5, "res": 1, "profile": "short"},
]
TEXT = json.dumps({"nb_res": 4, "jobs": JOBS, "profiles": PROFILES}, indent=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "workload.json"
    found.write_text(TEXT)
    return found


def test_each_job_is_what_its_object_says(path: Path) -> None:
    workload = read_batsim(path)
    cluster = workload.cluster
    assert (cluster.groups, cluster.resources, cluster.units) == (("host",), ("cpu",), ("cores",))
    assert cluster.capacity.tolist() == [[1]]
    assert cluster.count.tolist() == [4]
    assert workload.job_names.tolist() == ["a", "2", "c", "i", "d", "e"]
    assert workload.users == ("7", "bo", "unknown")
    assert workload.job_user.tolist() == [0, 1, 0, 2, 2, 2]
    assert workload.job_submit.tolist() == [0, 1.5, 2, 2.5, 3, 3]
    assert workload.job_limit.tolist() == [30, np.inf, 60.5, np.inf, np.inf, np.inf]
    assert workload.job_gang.tolist() == [False, True, True, False, False, False]
    assert workload.set_tasks.tolist() == [1, 3, 2, 1, 1, 1]
    assert workload.shapes[workload.set_shape].tolist() == [[1]] * 6
    assert workload.places[workload.set_place].tolist() == [[True]] * 6
    durations = [20.25, 100, 100, 100, 60.5, 60.5, 20.25, 100, 20.25]
    assert workload.task_duration.tolist() == durations
    assert np.isnan(workload.task_start).all()
    assert (workload.task_server == -1).all()
    assert workload.origin == "Batsim workload workload.json, time from second 10 of its clock"
    assert workload.notes == {
        batsim.NEEDS_PLATFORM: 2, batsim.NO_HOST: 1, batsim.STOPPED: 1, batsim.NO_USER: 3,
        batsim.DEPENDENCIES: 1, OUT_OF_ORDER: 1,
    }  # fmt: skip


def test_servers_may_be_given_instead(path: Path) -> None:
    path.write_text(TEXT.replace('"nb_res": 4,', ""))
    workload = read_batsim(path, servers=3, cores=16)
    assert workload.cluster.capacity.tolist() == [[16]]
    assert workload.cluster.count.tolist() == [3]
    assert workload.set_tasks.tolist() == [1, 3, 2, 1, 1, 1]
    assert "has no 'nb_res'" in fault_of(read_batsim, path)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"nb_res": 4', '"nb_res": 0', "nb_res: must be at least 1, not 0"),
        ('"nb_res": 4', '"nb_res": 1000000000', "nb_res: must be at most 10,000,000"),
        ('"jobs":', '"tasks":', "the key 'jobs' is missing"),
        ('"id": "a"', '"name": "a"', "jobs[0]: the key 'id' is missing"),
        ('"id": "c"', '"id": "\\u0001"', "jobs[2].id: must not have control characters"),
        ('"user": "bo"', '"user": "\\u0001"', "jobs[1].user: must not have control characters"),
        ('"id": "c"', '"id": "a"', "jobs[2].id: duplicate job 'a'"),
        ('"subtime": 10', '"subtime": "10"', "jobs[0].subtime: must be a number, not '10'"),
        ('"walltime": 30', '"walltime": 0', "jobs[0].walltime: must be a positive number"),
        ('"res": 3', '"res": 60000000', "jobs[1].res: 60,000,000 make more than"),
        ('"profile": "long"', '"profile": "x"', "jobs[1].profile: there is no profile 'x'"),
        ('"delay": 100', '"delay": 0', "profiles.long.delay: must be more than 0, not 0"),
        ('"type": "delay"', '"type": 3.5', "profiles.short.type: must be text, not 3.5"),
    ],
)  # fmt: skip
def test_a_fault_names_its_place(path: Path, old: str, new: str, fault: str) -> None:
    spoil(path, old, new)
    assert fault_of(read_batsim, path).startswith(f"{path}: {fault}")

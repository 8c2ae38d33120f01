"""Batsim's workloads, read as a trace: each field of a few jobs written by hand, and each fault."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from fairlead.model.workload import Workload
from fairlead.traces.logs import batsim
from fairlead.traces.logs.batsim import is_batsim, read_batsim
from fairlead.traces.logs.job_collector import OUT_OF_ORDER
from faults import fault_of, fault_within

PROFILES = {
    "short": {"type": "delay", "delay": 20.25},
    "long": {"type": "DelayProfile", "delay": 100},
    "twice": {"type": "composed", "repeat": 2, "seq": ["short", "long"]},
    "nested": {"type": "SequentialCompositionProfile", "seq": ["twice", "short"]},
    "early": {"type": "composed", "nb": 3, "seq": ["long"]},
    "compute": {"type": "parallel_homogeneous", "cpu": 10e6, "com": 1e6},
    "mixed": {"type": "sequential_composition", "repeat": 2, "seq": ["short", "compute"]},
}
JOBS = [
    {"id": "a", "subtime": 10, "walltime": 30, "res": 1, "profile": "short", "user_id": 7},
    {"id": 2, "subtime": 11.5, "res": 3, "profile": "long", "user": "bo"},
    {"id": "c", "subtime": 12, "walltime": 60.5, "res": 2, "profile": "long", "user_id": 7},
    {"id": "d", "subtime": 13, "walltime": -1, "res": 1, "profile": "twice"},
    {"id": "e", "subtime": 13, "res": 1, "profile": "nested", "dependencies": ["d"]},
    {"id": "f", "subtime": 14, "res": 4, "profile": "compute"},
    {"id": "g", "subtime": 15, "res": 4, "profile": "mixed"},
    {"id": "h", "subtime": 16, "res": 0, "profile": "short"},
    {"id": "i", "subtime": 12.5, "res": 1, "profile": "early"},
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
    assert cluster.groups == ("host",)
    assert cluster.resources == ("cpu",)
    assert cluster.units == ("cores",)
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
    durations = [20.25, 100, 100, 100, 60.5, 60.5, 300, 240.5, 260.75]
    assert workload.task_duration.tolist() == durations
    assert np.isnan(workload.task_start).all()
    assert (workload.task_server == -1).all()
    assert workload.origin == "Batsim workload workload.json, time from second 10 of its clock"


def test_what_is_left_out_or_changed_is_counted(path: Path) -> None:
    assert read_batsim(path).notes == {
        batsim.NEEDS_PLATFORM: 2,
        batsim.NO_HOST: 1,
        batsim.STOPPED: 1,
        batsim.NO_USER: 3,
        batsim.DEPENDENCIES: 1,
        OUT_OF_ORDER: 1,
    }


def test_servers_may_be_given_instead(path: Path) -> None:
    path.write_text(TEXT.replace('"nb_res": 4,', ""))
    workload = read_batsim(path, servers=3, cores=16)
    assert workload.cluster.capacity.tolist() == [[16]]
    assert workload.cluster.count.tolist() == [3]
    assert workload.set_tasks.tolist() == [1, 3, 2, 1, 1, 1]
    assert "has no 'nb_res'" in fault_of(read_batsim, path)
    assert "--servers: needs --cores as well" in fault_of(read_batsim, path, servers=3)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (TEXT, True), ('{"date": "x", "profiles": {}}', True),
        ('{"task": "jobs"}', False), ('["jobs", {"jobs": 1}]', False), ("; MaxProcs: 4", False),
    ],
)  # fmt: skip
def test_workloads_are_recognised(tmp_path: Path, text: str, answer: bool) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    assert is_batsim(path) is answer


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"nb_res": 4', '"nb_res": 0', "nb_res: must be a whole number from 1, not '0'"),
        ('"nb_res": 4', '"nb_res": 1e9', "nb_res: must be at most 10,000,000"),
        ('"jobs":', '"tasks":', "has no 'jobs'"),
        ('"id": "a"', '"name": "a"', "jobs[0]: has no 'id'"),
        ('"id": "a"', '"id": ""', "jobs[0].id: must be a text that is not empty"),
        ('"id": "c"', '"id": "a"', "jobs[2].id: duplicate job 'a'"),
        ('"subtime": 10', '"subtime": "10"', "jobs[0].subtime: must be a number, not '10'"),
        ('"walltime": 30', '"walltime": 0', "jobs[0].walltime: must be a positive number"),
        ('"res": 3', '"res": 2.5', "jobs[1].res: must be a whole number from 0, not '2.5'"),
        ('"subtime": 10', '"subtime": NaN', "jobs[0].subtime: must be a number, not 'nan'"),
        ('"res": 3', '"res": true', "jobs[1].res: must be a number, not 'True'"),
        ('"res": 3', '"res": 60000000', "jobs[1].res: 60,000,000 make more than"),
        ('"profile": "long"', '"profile": "x"', "jobs[1].profile: there is no profile 'x'"),
        ('"delay": 100', '"delay": 0', "profiles.long.delay: must be a positive number"),
        ('"delay": 100', '"lasts": 100', "profiles.long: has no 'delay'"),
        ('"repeat": 2', '"repeat": 0', "profiles.twice.repeat: must be a whole number from 1"),
    ],
)  # fmt: skip
def test_a_fault_names_its_place(path: Path, old: str, new: str, fault: str) -> None:
    assert old in TEXT
    path.write_text(TEXT.replace(old, new, 1))
    assert fault_of(read_batsim, path).startswith(f"{path}: {fault}")


def sequence_of(path: Path, profiles: dict[str, object]) -> Workload:
    job = {"id": "a", "subtime": 0, "res": 1, "profile": "s"}
    path.write_text(json.dumps({"nb_res": 1, "jobs": [job], "profiles": profiles}))
    return read_batsim(path)


@pytest.mark.parametrize(
    ("seq", "fault"),
    [
        (["t"], "profiles.t.seq[0]: the sequence 's' contains itself"),
        (["x"], "profiles.s.seq[0]: there is no profile 'x'"),
        ([], "profiles.s.seq: is empty"),
        ("t", "profiles.s.seq: must be an array"),
        (["huge", "huge"], "profiles.s: its delays and repeats give no finite duration"),
    ],
)
def test_an_unusable_sequence_is_refused(path: Path, seq: object, fault: str) -> None:
    profiles = {
        "s": {"type": "composed", "seq": seq},
        "t": {"type": "composed", "seq": ["s"]},
        "huge": {"type": "delay", "delay": 1e308},
    }
    assert fault_of(sequence_of, path, profiles).startswith(f"{path}: {fault}")


def test_sequences_are_nested_to_a_depth(path: Path) -> None:
    def chain(length: int) -> dict[str, object]:
        names = ["s", *(f"s{k}" for k in range(1, length)), "end"]
        found: dict[str, object] = {"end": {"type": "delay", "delay": 2}}
        for name, below in pairwise(names):
            found[name] = {"type": "composed", "seq": [below, below]}
        return found

    # Each level doubles the duration; each profile is computed once.
    assert sequence_of(path, chain(49)).task_duration.tolist() == [2.0**50]
    assert "nested more than 50 deep" in fault_of(sequence_of, path, chain(50))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'{"jobs": "\xff"}', "is not JSON in UTF-8"),
        (b'{"nb_res": 1, "profiles": {"p": 1, "p": 2}}', "profiles.p"),
        (gzip.compress(TEXT.encode())[:-20], "ends before its data does"),
    ],
)
def test_an_unusable_file_is_refused(path: Path, content: bytes, fault: str) -> None:
    path.write_bytes(content)
    assert fault in fault_within(path, read_batsim, path)

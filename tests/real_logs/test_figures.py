"""Figures of the real logs, counted from their text or published with them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fairlead.cli.main import run
from fairlead.traces.logs import openb
from fairlead.traces.logs.metacentrum import (
    NEVER_RAN,
    WHOLE_NODES,
    ConvertedLog,
    machine_file_beside,
    problem_from_jobs,
    read_jobs,
    read_metacentrum,
)
from fairlead.traces.logs.metacentrum_machines import read_machines
from fairlead.traces.readers import read_workload


@pytest.fixture(scope="module")
def converted(metacentrum_log: Path) -> ConvertedLog:
    machines = read_machines(machine_file_beside(metacentrum_log))
    return problem_from_jobs(read_jobs(metacentrum_log), machines)


def test_machines_of_metacentrum(converted: ConvertedLog) -> None:
    cluster = converted.problem.cluster
    assert cluster.groups == ("zewura", "zegox")
    assert cluster.count.tolist() == [20, 48]
    assert cluster.capacity.tolist() == [[80, 529426432 / 2**20], [12, 94035968 / 2**20]]


def test_users_and_jobs_of_metacentrum(converted: ConvertedLog) -> None:
    assert converted.problem.n_users == 75
    assert (converted.jobs, converted.dropped) == (17898, 2)
    assert Counter(converted.restricted.values()) == {("zewura",): 7, ("zegox",): 2}
    assert converted.restricted["user-62"] == ("zewura",)
    assert converted.restricted["user-625"] == ("zegox",)
    assert len(converted.larger_than_a_server) == 17
    assert set(converted.larger_than_a_server.values()) == {("zegox",)}


def test_demands_of_metacentrum(converted: ConvertedLog) -> None:
    names = converted.problem.users.names
    demand = dict(zip(names, converted.problem.demand.tolist(), strict=True))
    assert demand["user-62"] == [64, 64]
    assert demand["user-803"] == [1, 150]
    assert demand["user-954"] == [80, 400 / 1024]
    assert demand["user-1037"] == [2, 500]
    cores, memory = converted.problem.demand.T
    assert (cores.min(), np.median(cores), cores.max()) == (1, 8, 80)
    assert (memory.min(), np.median(memory), memory.max()) == (300 / 1024, 12, 500)


def test_metacentrum_as_a_trace(
    metacentrum_log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = read_metacentrum(metacentrum_log)
    assert (workload.notes[NEVER_RAN], workload.notes[WHOLE_NODES]) == (2, 231)
    assert workload.span == pytest.approx(7686036, rel=1e-3)
    assert run(["trace", "convert", str(metacentrum_log), "-o", str(tmp_path / "x.parquet")]) == 0
    said = capsys.readouterr().out.splitlines()[0]
    assert said == "68 servers, 75 users, 17,898 jobs, 19,194 tasks"


def test_openb(openb_folder: Path) -> None:
    workload, _ = read_workload(openb_folder)
    assert workload.n_servers == 1523
    assert workload.n_jobs == 7255
    assert workload.notes[openb.NEVER_SCHEDULED] == 8152 - 7255

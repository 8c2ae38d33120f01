"""Figures of the real logs, counted from their text or published with them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fairlead.traces.logs import openb
from fairlead.traces.logs.metacentrum import (
    WHOLE_NODES,
    machine_file_beside,
    problem_from_jobs,
    read_jobs,
    read_metacentrum,
)
from fairlead.traces.logs.metacentrum_machines import read_machines
from fairlead.traces.logs.swf import NEVER_RAN
from fairlead.traces.readers import read_workload


def test_metacentrum_as_a_problem(metacentrum_log: Path) -> None:
    machines = read_machines(machine_file_beside(metacentrum_log))
    converted = problem_from_jobs(read_jobs(metacentrum_log), machines)
    problem, cluster = converted.problem, converted.problem.cluster
    assert cluster.groups == ("zewura", "zegox")
    assert cluster.count.tolist() == [20, 48]
    assert cluster.capacity.tolist() == [[80, 529426432 / 2**20], [12, 94035968 / 2**20]]
    assert problem.n_users == 75
    assert (converted.jobs, converted.dropped) == (17898, 2)
    assert Counter(converted.restricted.values()) == {("zewura",): 7, ("zegox",): 2}
    assert converted.restricted["user-62"] == ("zewura",)
    assert converted.restricted["user-625"] == ("zegox",)
    assert len(converted.larger_than_a_server) == 17
    assert set(converted.larger_than_a_server.values()) == {("zegox",)}
    demand = dict(zip(problem.users.names, problem.demand.tolist(), strict=True))
    assert demand["user-62"] == [64, 64]
    assert demand["user-803"] == [1, 150]
    assert demand["user-954"] == [80, 400 / 1024]
    assert demand["user-1037"] == [2, 500]
    cores, memory = problem.demand.T
    assert (cores.min(), np.median(cores), cores.max()) == (1, 8, 80)
    assert (memory.min(), np.median(memory), memory.max()) == (300 / 1024, 12, 500)


def test_metacentrum_as_a_trace(metacentrum_log: Path) -> None:
    workload = read_metacentrum(metacentrum_log)
    assert (workload.notes[NEVER_RAN], workload.notes[WHOLE_NODES]) == (2, 231)
    assert workload.span == pytest.approx(7686036, rel=1e-3)
    counts = workload.n_servers, workload.n_users, workload.n_jobs, workload.n_tasks
    assert counts == (68, 75, 17_898, 19_194)


def test_openb(openb_folder: Path) -> None:
    workload, _ = read_workload(openb_folder)
    assert workload.n_servers == 1523
    assert workload.n_jobs == 7255
    assert workload.notes[openb.NEVER_SCHEDULED] == 8152 - 7255

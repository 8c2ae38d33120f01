"""A log of MetaCentrum as a problem, against figures counted independently of the readers."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from fairlead.cli.main import run
from fairlead.errors import RefusalError
from fairlead.formats.problem_file import dump, load
from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from fairlead.traces.metacentrum import machine_file_beside, read_jobs
from fairlead.traces.metacentrum_machines import read_machines
from fairlead.traces.problem_from_log import ConvertedLog, problem_from_jobs


@pytest.fixture(scope="module")
def converted(metacentrum_log: Path) -> ConvertedLog:
    machines = read_machines(machine_file_beside(metacentrum_log))
    return problem_from_jobs(read_jobs(metacentrum_log), machines)


@pytest.fixture(scope="module")
def reread(converted: ConvertedLog, tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("problem") / "metacentrum.yaml"
    dump(converted.problem, path)
    return load(path)


def test_restricted_users(converted: ConvertedLog, metacentrum_log: Path) -> None:
    """Counted by plain text search: a user insists on a group if half of its rows name it."""
    named: dict[str, Counter[str]] = defaultdict(Counter)
    with gzip.open(metacentrum_log, "rt") as rows:
        for row in rows:
            fields = row.split()
            spec = fields[-1]
            user = f"user-{fields[11]}"
            named[user]["jobs"] += fields[8] != "0"
            for group, alike in (("zewura", "nodecpus80"), ("zegox", "nodecpus12")):
                positive = [part for part in spec.split(":") if not part.startswith("^")]
                named[user][group] += any(group in part or alike in part for part in positive)
            named[user]["zegox"] += "^cl_zewura" in spec
    expected = {
        user: (group,)
        for user, counts in named.items()
        for group in ("zewura", "zegox")
        if 2 * counts[group] >= counts["jobs"]
    }
    assert converted.restricted == expected
    assert set(expected.values()) == {("zewura",), ("zegox",)}
    assert converted.problem.n_users == len(named) > len(expected)
    ran = sum(counts["jobs"] for counts in named.values())
    assert (converted.jobs, converted.dropped) == (ran, 2)


def test_demands_are_middle_jobs(converted: ConvertedLog, metacentrum_log: Path) -> None:
    """At most half of a user's jobs lie below its demand, and at most half above."""
    shapes: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for job in read_jobs(metacentrum_log):
        if job.walltime > 0:
            shapes[f"user-{job.user}"].append((job.cores_per_node, job.memory_per_node / 2**30))
    names = converted.problem.users.names
    for name, demand in zip(names, converted.problem.demand, strict=True):
        middle, own = tuple(demand.tolist()), shapes[name]
        assert middle in own
        assert 2 * sum(shape < middle for shape in own) < len(own)
        assert 2 * sum(shape > middle for shape in own) <= len(own)


def test_gangs_and_hosts_agree_with_the_cores(metacentrum_log: Path) -> None:
    """What a replay relies on."""
    gangs = 0
    for job in read_jobs(metacentrum_log):
        assert len(job.hosts) == job.cores
        assert len(set(job.hosts)) == job.nodes
        gangs += job.nodes > 1
    assert gangs


def test_the_problem_file_says_the_same(converted: ConvertedLog, reread: Problem) -> None:
    problem = converted.problem
    assert reread.cluster.groups == problem.cluster.groups
    assert reread.cluster.units == problem.cluster.units
    assert reread.users.names == problem.users.names
    assert np.array_equal(reread.cluster.capacity, problem.cluster.capacity)
    assert np.array_equal(reread.demand, problem.demand)
    assert np.array_equal(reread.users.eligible, problem.users.eligible)


@pytest.mark.parametrize("mechanism", ["drf-per-server", "drfh", "tsf", "ps-dsf", "ps-dsf-tdm"])
def test_mechanisms_divide_it(reread: Problem, mechanism: str) -> None:
    allocation = solve(reread, mechanism)
    assert allocation.certificate.holds
    assert allocation.tasks.shape == (reread.n_users, 2)
    assert not allocation.tasks[~reread.users.eligible].any()
    assert (allocation.user_tasks > 0).all()
    used = allocation.usage / reread.group_capacity
    if mechanism == "ps-dsf-tdm":
        time_used = np.divide(
            allocation.tasks, reread.gamma, out=np.zeros_like(reread.gamma), where=reread.runnable
        )
        assert time_used.sum(axis=0) == pytest.approx([1, 1], abs=1e-8)
        assert (used <= 1 + 1e-8).all()
    else:
        # cores run out in both groups, memory in neither
        assert used[:, 0] == pytest.approx([1, 1], abs=1e-8)
        assert (used[:, 1] < 0.95).all()


def test_drf_refuses_the_constraints(reread: Problem) -> None:
    with pytest.raises(RefusalError, match="placement constraints"):
        solve(reread, "drf")


def test_convert_then_compare(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    converted: ConvertedLog,
    metacentrum_log: Path,
) -> None:
    path, mechanisms = str(tmp_path / "metacentrum.yaml"), ("drfh", "tsf", "ps-dsf", "ps-dsf-tdm")
    assert run(["trace", "convert", str(metacentrum_log), "-o", path]) == 0
    capsys.readouterr()
    chosen = [part for name in mechanisms for part in ("-m", name)]
    assert run(["compare", path, *chosen, "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)["mechanisms"]
    assert tuple(compared) == mechanisms
    for answer in compared.values():
        assert answer["certificate"]["holds"]
        assert len(answer["users"]) == converted.problem.n_users
        held = {user["name"]: tuple(user["servers"]) for user in answer["users"]}
        assert converted.restricted.items() <= held.items()

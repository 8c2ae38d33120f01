"""A log of MetaCentrum as a problem, against figures counted independently of the readers."""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from fairlead.formats.problem_file import dump, load
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

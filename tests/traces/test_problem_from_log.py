"""From jobs to users: medians and placement constraints, by hand and on a small log."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from hand_written_logs import GIB, log_row, write_log

from fairlead.errors import InputError
from fairlead.traces.logs.metacentrum import machine_file_beside, read_jobs
from fairlead.traces.logs.metacentrum_machines import read_machines
from fairlead.traces.problem_from_log import ConvertedLog, problem_from_jobs
from faults import fault_of


def convert(folder: Path, *rows: str, reverse: bool = False) -> ConvertedLog:
    log = write_log(folder, *rows)
    jobs = list(read_jobs(log))
    return problem_from_jobs(
        reversed(jobs) if reverse else jobs, read_machines(machine_file_beside(log))
    )


BIG, SMALL, ANY = {"big"}, {"small"}, {"big", "small"}


@pytest.mark.parametrize(
    ("specs", "groups"),
    [
        (["1:cl_big", "1"], BIG),
        (["1:cl_big", "1", "1"], ANY),
        (["1:^cl_big", "1:small3"], SMALL),
        # excluding a node of a group does not exclude the group
        (["1:^big2.here.cz"], ANY),
        # half for each group: neither is insisted on
        (["1:cl_big", "1:cl_small"], ANY),
    ],
)
def test_constraints_that_half_of_the_jobs_make(
    tmp_path: Path, specs: list[str], groups: set[str]
) -> None:
    converted = convert(tmp_path, *(log_row(k, spec) for k, spec in enumerate(specs)))
    eligible = converted.problem.users.eligible[0]
    assert {name for name, may in zip(("big", "small"), eligible, strict=True) if may} == groups
    expected = {} if groups == ANY else {"user-1": tuple(groups)}
    assert converted.restricted == expected


def test_jobs_that_never_ran_do_not_count(tmp_path: Path) -> None:
    rows = [
        log_row(1, "1:ppn=2", cores=2),
        log_row(2, "1:ppn=9:cl_big", cores=9, run=-5, walltime=0),
        log_row(3, "1:ppn=9:cl_big", cores=9, run=0, walltime=0),
        log_row(4, user=2, run=0, walltime=0),
    ]
    converted = convert(tmp_path, *rows)
    assert (converted.jobs, converted.dropped) == (1, 3)
    assert converted.problem.users.names == ("user-1",)
    assert converted.problem.demand[0, 0] == 2
    assert converted.restricted == {}
    assert "no job of the log ever ran" in fault_of(convert, tmp_path, *rows[1:])


def test_users_larger_than_a_server_are_listed(tmp_path: Path) -> None:
    rows = [
        log_row(1, "1:ppn=12", user=1, cores=12, memory=4 * GIB),
        log_row(2, "1:ppn=13", user=2, cores=13),
        log_row(3, "1:ppn=13:cl_big", user=3, cores=13),
        log_row(4, user=4, memory=9 * GIB),
    ]
    assert convert(tmp_path, *rows).larger_than_a_server == {
        "user-2": ("small",),
        "user-4": ("big", "small"),
    }


def test_properties_that_tell_no_groups_apart_are_counted(tmp_path: Path) -> None:
    specs = ["1:x86_64:brno", "1:x86_64:x86_64:cl_big", "1:^brno:big1"]
    converted = convert(tmp_path, *(log_row(k, spec) for k, spec in enumerate(specs)))
    assert list(converted.indifferent.items()) == [("brno", 2), ("x86_64", 2)]


def test_a_node_that_is_not_there_is_a_fault_of_its_row(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="row 2: property 'big3' names no group or node"):
        convert(tmp_path, log_row(1), log_row(2, "1:big3"))


@pytest.fixture(scope="module")
def converted(metacentrum_log: Path) -> ConvertedLog:
    machines = read_machines(machine_file_beside(metacentrum_log))
    return problem_from_jobs(read_jobs(metacentrum_log), machines)


def test_demands_are_middle_jobs(converted: ConvertedLog, metacentrum_log: Path) -> None:
    """At most half of a user's jobs lie below its demand, and at most half above."""
    shapes: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for job in read_jobs(metacentrum_log):
        if job.row.walltime > 0:
            shapes[f"user-{job.row.user}"].append(
                (job.cores_per_node, job.row.memory_requested / 2**30)
            )
    names = converted.problem.users.names
    for name, demand in zip(names, converted.problem.demand, strict=True):
        middle, own = tuple(demand.tolist()), shapes[name]
        assert middle in own
        assert 2 * sum(shape < middle for shape in own) < len(own)
        assert 2 * sum(shape > middle for shape in own) <= len(own)

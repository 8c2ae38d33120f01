"""Logs as published with Alea: MetaCentrum's jobs, machines and problem, and FIT's workflows."""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hand_written_logs import GIB, log_row, write_log

from fairlead.model.task_kinds import unplaceable_sets
from fairlead.model.workload import Workload
from fairlead.traces.logs import metacentrum as reader
from fairlead.traces.logs import swf
from fairlead.traces.logs.metacentrum import (
    ConvertedLog,
    machine_file_beside,
    problem_from_jobs,
    read_fit_workflows,
    read_jobs,
    read_metacentrum,
)
from fairlead.traces.logs.metacentrum_machines import (
    Chunk,
    MachineGroup,
    Machines,
    NodeSpec,
    parse_node_spec,
    read_machines,
)
from fairlead.traces.readers import FIT_WORKFLOWS, read_workload
from faults import fault_of, fault_within


def per_task(workload: Workload, job: int) -> list[list[float]]:
    """Shapes of all tasks of one job."""
    sets = range(workload.first_set[job], workload.first_set[job + 1])
    return [
        workload.shapes[workload.set_shape[k]].tolist()
        for k in sets
        for _ in range(workload.set_tasks[k])
    ]


def test_a_node_is_a_task_and_nodes_of_a_job_are_a_gang(tmp_path: Path) -> None:
    workload = read_metacentrum(
        write_log(
            tmp_path,
            log_row(1, "1:ppn=4", user=30, cores=4, memory=2 * GIB),
            log_row(2, "3:ppn=2:cl_big", user=4, cores=6, run=90, wait=7),
            log_row(3, "1:ppn=1+2:ppn=5:cl_small", user=30, cores=11),
            log_row(4, "1:ppn=1.5", user=4, cores=1),
        )
    )
    assert workload.users == ("user-4", "user-30")
    assert workload.job_names.tolist() == ["1", "2", "3", "4"]
    assert workload.job_user.tolist() == [1, 0, 1, 0]
    assert workload.job_submit.tolist() == [0, 1, 2, 3]
    assert workload.job_gang.tolist() == [False, True, True, False]
    assert per_task(workload, 0) == [[4, 2]]
    assert per_task(workload, 1) == [[2, 1]] * 3
    assert per_task(workload, 2) == [[1, 1], [5, 1], [5, 1]]
    assert per_task(workload, 3) == [[1, 1]]
    both = [True, True]
    places = [both, [True, False], both, [False, True], both]
    assert workload.places[workload.set_place].tolist() == places
    assert workload.task_duration.tolist() == [60, 90, 90, 90, 60, 60, 60, 60]
    assert workload.task_start.tolist() == [5, 8, 8, 8, 7, 7, 7, 8]
    assert workload.task_server.tolist() == [-1] * 8
    assert workload.job_limit.tolist() == [3600] * 4
    assert workload.cluster.groups == ("big", "small")
    assert workload.cluster.capacity.tolist() == [[80, 8], [12, 4]]
    assert workload.notes == {}


def test_whole_nodes_where_all_are_alike(tmp_path: Path) -> None:
    exclusive = log_row(1, "2:ppn=3:cl_small#excl", cores=6), log_row(2, "1:ppn=3#excl", cores=3)
    workload = read_metacentrum(write_log(tmp_path, *exclusive))
    assert per_task(workload, 0) == [[12, 4], [12, 4]]
    assert per_task(workload, 1) == [[3, 1]]
    assert not unplaceable_sets(workload).any()
    assert workload.notes == {reader.WHOLE_NODES: 1, reader.NOT_WHOLE_NODES: 1}


def test_simplified_jobs_are_counted(tmp_path: Path) -> None:
    workload = read_metacentrum(
        write_log(
            tmp_path,
            "; MaxJobs: 9",
            log_row(1, run=0, walltime=0),
            log_row(2, "1:ppn=1:big2+1:ppn=1:host=big1", cores=2),
            log_row(3, "1:ppn=1:^small1.cerit-sc.cz"),
            log_row(4, "1:ppn=1:^cl_small:x86_64"),
            log_row(5, "1:ppn=1+1:ppn=2", cores=4, wait=-1),
        )
    )
    assert workload.notes == {
        swf.NEVER_RAN: 1, reader.NODE_NAMED: 1, reader.NODE_EXCLUDED: 1,
        reader.CORES_OF_SPEC: 1, swf.NO_START: 1, swf.EXCERPT: 4,
    }  # fmt: skip
    assert workload.origin == "MetaCentrum log tiny.swf, time from second 1001 of its clock"
    assert workload.start_date is None
    both, on_big = [True, True], [True, False]
    assert workload.places[workload.set_place].tolist() == [on_big, both, on_big, both]
    assert per_task(workload, 3) == [[2, 1], [2, 1]]
    # the log starts with a job that never ran; times count from it all the same
    assert workload.job_submit.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (log_row(0), "row 2: column 2 (submit): 1000 is before the row above"),
        (log_row(1), "row 2: duplicate job '1'"),
        (log_row(2, "1:cl_big:cl_small"), "row 2: node specification"),
        (
            log_row(2, "999999999:ppn=1"),
            "row 2: node specification '999999999:ppn=1': nodes: 999,",
        ),
    ],
)
def test_refusals(tmp_path: Path, row: str, message: str) -> None:
    path = write_log(tmp_path, log_row(1), row)
    assert fault_of(read_metacentrum, path).startswith(f"{path}: {message}")


def test_cores_per_node_are_those_of_the_log(tmp_path: Path) -> None:
    rows = log_row(1, "1:ppn=1.5", cores=1), log_row(2, "1:ppn=1+3:ppn=3", cores=10)
    jobs = list(read_jobs(write_log(tmp_path, *rows)))
    assert [job.cores_per_node for job in jobs] == [1, 2.5]


@pytest.mark.parametrize("requested", [-1, 0, 3])
def test_requested_cores_count_only_where_there_are_some(tmp_path: Path, requested: int) -> None:
    row = log_row(1, cores=8).split()
    row[4], row[7] = "8", str(requested)
    (job,) = read_jobs(write_log(tmp_path, " ".join(row)))
    assert job.cores == (requested if requested > 0 else 8)


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        (2, "noon", "column 2 (submit): 'noon' is not a number"),
        (10, "9" * 5000, f"column 10 (memory requested): '{'9' * 37}...' is out"),
        (5, "\u0663", "column 5 (cores allocated): '\u0663' is not a number"),
        (8, "1.5", "column 8 (cores requested): '1.5' is not a whole number"),
        (12, "-1", "column 12 (user): unknown or none"),
        (21, "1:ppn=x", "node specification '1:ppn=x': 'ppn=x' is not a number of cores"),
        (21, "", "not 21 columns separated by blanks but 20"),
    ],
)
def test_damaged_rows(tmp_path: Path, column: int, value: str, fault: str) -> None:
    fields = log_row(1).split()
    fields[column - 1] = value
    path = write_log(tmp_path, "; comment", log_row(1), " ".join(fields))
    jobs = read_jobs(path)
    assert next(jobs).row.row == 2
    assert fault_within(path, next, jobs).startswith(f"row 3: {fault}")


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        assert "cannot be read: " in fault_of(list, read_jobs(path))


def test_a_whole_log(metacentrum_log: Path) -> None:
    """Against figures counted from the text of the log."""
    workload = read_metacentrum(metacentrum_log)
    tasks = gangs = whole_nodes = 0
    jobs: Counter[str] = Counter()  # by user
    work = 0.0
    with gzip.open(metacentrum_log, "rt") as rows:
        for row in rows:
            fields = row.split()
            if float(fields[3]) <= 0:
                continue
            hosts = Counter(fields[18].strip("{}").split(","))
            tasks += len(hosts)
            gangs += len(hosts) > 1
            jobs[f"user-{fields[11]}"] += 1
            whole_nodes += "#excl" in fields[20]
            if "#excl" not in fields[20]:
                work += float(fields[3]) * sum(hosts.values())
    assert (workload.n_tasks, int(workload.job_gang.sum())) == (tasks, gangs)
    assert workload.users == tuple(sorted(jobs, key=lambda user: int(user[5:])))
    assert np.bincount(workload.job_user).tolist() == [jobs[user] for user in workload.users]
    shapes = workload.shapes[workload.set_shape].repeat(workload.set_tasks, axis=0)
    exclusive = (shapes == workload.cluster.capacity[0]).all(axis=1)
    done = (shapes[:, 0] * workload.task_duration)[~exclusive].sum()
    assert done == pytest.approx(work)
    assert exclusive.sum() == whole_nodes > 0
    assert workload.notes[swf.NEVER_RAN] == 2
    assert workload.notes[reader.WHOLE_NODES] == whole_nodes


def test_a_spec_as_logs_have_it() -> None:
    text = "1:ppn=64:x86_64:^zewura9.cerit-sc.cz+2:ppn=1.5+host=zewura10+3#excl"
    chunks = (
        Chunk(1, 64, ("x86_64",), ("zewura9.cerit-sc.cz",)),
        Chunk(2, 1.5, (), ()),
        Chunk(1, 1, ("host=zewura10",), ()),
        Chunk(3, 1, (), ()),
    )
    spec = parse_node_spec(text)
    assert spec == NodeSpec(text, chunks, True)
    assert spec.nodes == 7


PARK = Machines(
    (
        MachineGroup("zewura", 20, 80, 2**39),
        MachineGroup("zegox", 48, 12, 2**36),
        MachineGroup("zegox-new", 4, 12, 2**37),
    )
)
EVERYWHERE = {"zewura", "zegox", "zegox-new"}


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ("1:ppn=4:x86_64:brno:nfs4:mem=3gb", EVERYWHERE),
        ("1:^cl_zewura", {"zegox", "zegox-new"}),
        ("1:nodecpus12", {"zegox", "zegox-new"}),
        ("1:nodecpus12:^zegox", {"zegox-new"}),
        ("1:zewura20", {"zewura"}),
        ("host=zewura10.cerit-sc.cz:ppn=2", {"zewura"}),
        ("1:ppn=1:^zewura12.cerit-sc.cz", EVERYWHERE),
        ("1:cl_zewura+2:cl_zegox", {"zewura", "zegox"}),
    ],
)
def test_groups_allowed(spec: str, allowed: set[str]) -> None:
    assert PARK.groups_allowed(parse_node_spec(spec)) == allowed


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("", "'' is not a property"),
        ("1:ppn=1e3", "'ppn=1e3' is not a number of cores"),
        ("1:ppn=1:ppn=2", "'ppn=2' is not a number of cores"),
        ("1:ppn=0.0", "asks for 0 nodes or cores"),
        ("1:ppn=1#shared", "unknown suffix '#shared'"),
        ("1:cl_tarkil", "property 'cl_tarkil' names no group or node of the machine file"),
        ("1:zewura0.cerit-sc.cz", "property 'zewura0.cerit-sc.cz' names no group"),
        ("1:host=tarkil3", "property 'host=tarkil3' names no group"),
        ("1:nodecpus16", "property 'nodecpus16' names no group"),
        ("1:cl_zewura:cl_zegox", "leaves no group open"),
    ],
)
def test_specs_that_are_malformed_or_met_by_no_machine(spec: str, fault: str) -> None:
    assert fault in fault_of(lambda: PARK.groups_allowed(parse_node_spec(spec)))


def test_machine_files(tmp_path: Path) -> None:
    path = tmp_path / "machines"
    path.write_bytes(
        b"; a comment\r\n0\tzewura\t20\t80\t1\t529426432\r\n\n1 zegox 48 12 1 94035968 30\r"
    )
    assert read_machines(path).groups == (
        MachineGroup("zewura", 20, 80, 529426432 * 1024),
        MachineGroup("zegox", 48, 12, 94035968 * 1024),
    )


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "holds no machine"),
        ("0\tzewura\t20\t80\t1\n", "row 1: 5 columns, not 6 (cluster id, name, "),
        ("0\ta\t1\t1\t1\t1\n1\ta\t1\t1\t1\t1\n", "row 2: duplicate name 'a'"),
        ("0\ta\t0\t1\t1\t1\n", "row 1: column 3 (nodes): '0' is not a whole number from 1"),
        ("0\ta\t9\t1\t1\t1\n1\tb\t10000000\t1\t1\t1\n", "row 2: column 3 (nodes): 10,000,000"),
        ("0\ta\t1\t1\t1\t9999999999999999\n", "row 1: column 6 (RAM per node in KiB)"),
        ("0\t^a\t1\t1\t1\t1\n", "row 1: column 2 (name): '^a' is not a name"),
    ],
)
def test_unusable_machine_files(tmp_path: Path, content: str, fault: str) -> None:
    path = tmp_path / "machines"
    path.write_text(content)
    assert fault_within(path, read_machines, path).startswith(fault)


def convert(folder: Path, *rows: str) -> ConvertedLog:
    log = write_log(folder, *rows)
    return problem_from_jobs(read_jobs(log), read_machines(machine_file_beside(log)))


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
    assert "holds no job that ever ran" in fault_of(read_metacentrum, tmp_path / "tiny.swf")


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


def test_a_node_that_is_not_there_is_a_fault_of_its_row(tmp_path: Path) -> None:
    fault = fault_of(convert, tmp_path, log_row(1), log_row(2, "1:big3"))
    assert "row 2: property 'big3' names no group or node" in fault


def test_demands_are_middle_jobs(metacentrum_log: Path) -> None:
    """At most half of a user's jobs lie below its demand, and at most half above."""
    machines = read_machines(machine_file_beside(metacentrum_log))
    problem = problem_from_jobs(read_jobs(metacentrum_log), machines).problem
    shapes: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for job in read_jobs(metacentrum_log):
        if job.row.walltime > 0:
            shape = job.cores_per_node, job.row.memory_requested / 2**30
            shapes[f"user-{job.row.user}"].append(shape)
    for name, demand in zip(problem.users.names, problem.demand, strict=True):
        middle, own = tuple(demand.tolist()), shapes[name]
        assert middle in own
        assert 2 * sum(shape < middle for shape in own) < len(own)
        assert 2 * sum(shape > middle for shape in own) <= len(own)


FIT_HEADING = (
    "id submit wait runtime cpus cputimeused usedmem cpusreq walltime memreq status user group "
    "application queue partition precjob thinktime DAG_name Task_ID"
).replace(" ", "\t")


def fit_row(job: int, before: str = "-1", **changes: object) -> str:
    """A row of a log of workflows; `changes` are fields by the names of the heading."""
    fields: dict[str, object] = dict.fromkeys(FIT_HEADING.split("\t"), -1)
    fields |= {"id": job, "submit": 50, "wait": 0, "runtime": 60, "cpus": 3, "walltime": 90}
    fields |= {"memreq": 2 * swf.KIB_PER_GIB, "user": 7, "precjob": before, "thinktime": 0}
    fields |= {"DAG_name": "flow", "Task_ID": job}
    return "\t".join(map(str, (fields | changes).values()))


def test_a_job_of_a_workflow_is_one_task(tmp_path: Path) -> None:
    unnamed = FIT_HEADING.replace("DAG_name\tTask_ID", "DAG_id\t")
    later = fit_row(3, "1&2", submit=55, cpus=4, user=2, runtime=9, walltime=-1)
    log = write_log(tmp_path, unnamed, fit_row(1), fit_row(2, "1"), later)
    workload, found = read_workload(log)
    assert found == FIT_WORKFLOWS
    assert workload.cluster.groups == ("big", "small")
    assert workload.users == ("user-2", "user-7")
    assert workload.job_user.tolist() == [1, 1, 0]
    assert workload.job_submit.tolist() == [0, 0, 5]
    assert workload.job_limit.tolist() == [90, 90, np.inf]
    assert not workload.job_gang.any()
    assert workload.shapes[workload.set_shape].tolist() == [[3, 2], [3, 2], [4, 2]]
    assert workload.task_duration.tolist() == [60, 60, 9]
    assert not workload.has_starts
    assert workload.notes == {swf.UNUSED_COLUMNS["preceding_job"]: 2}
    machine_file_beside(log).unlink()
    assert "there is no such machine file" in fault_of(read_fit_workflows, log)


def test_odd_jobs_of_workflows_are_counted(tmp_path: Path) -> None:
    left_out = fit_row(1, runtime=-1), fit_row(2, cpus=0), fit_row(3, submit=-1)
    odd = fit_row(4, "1", memreq=-1, user=-1)
    workload = read_fit_workflows(write_log(tmp_path, FIT_HEADING, *left_out, odd))
    assert workload.shapes[workload.set_shape].tolist() == [[3, 0]]
    assert workload.users == ("user-unknown",)
    reasons = (swf.NEVER_RAN, swf.NO_PROCESSORS, swf.NO_SUBMISSION, swf.NO_MEMORY, swf.NO_USER)
    waits = swf.UNUSED_COLUMNS["preceding_job"]
    assert workload.notes == dict.fromkeys((*reasons, waits), 1)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("2\t0\t0\t60", "row 3: 4 columns separated by tabs, not 20"),
        (fit_row(2, "a"), "row 3: column 17 (preceding job): 'a' is not a number"),
        (fit_row(1), "row 3: duplicate job '1'"),
    ],
)
def test_unusable_logs_of_workflows(tmp_path: Path, row: str, fault: str) -> None:
    log = write_log(tmp_path, FIT_HEADING, fit_row(1), row)
    assert fault_within(log, read_fit_workflows, log).startswith(fault)

"""MetaCentrum's log as jobs and as a workload: gangs, places, whole nodes, and refusals."""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hand_written_logs import GIB, log_row, write_log

from fairlead.errors import InputError
from fairlead.model.unplaceable import unplaceable_sets
from fairlead.model.workload import Workload
from fairlead.traces import _stored_files
from fairlead.traces.logs import metacentrum as reader
from fairlead.traces.logs.metacentrum import read_jobs, read_metacentrum
from fairlead.traces.logs.swf import EXCERPT, read_swf
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
            log_row(2, "3:ppn=2:cl_big", user=4, cores=6, run=90),
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
    assert workload.places[workload.set_place].tolist() == [
        [True, True],
        [True, False],
        [True, True],
        [False, True],
        [True, True],
    ]
    assert workload.task_duration.tolist() == [60, 90, 90, 90, 60, 60, 60, 60]
    assert workload.cluster.groups == ("big", "small")
    assert workload.cluster.capacity.tolist() == [[80, 8], [12, 4]]
    assert workload.notes == {}


def test_excerpts_and_the_start_of_the_clock_are_noted(tmp_path: Path) -> None:
    log = write_log(tmp_path, "; MaxJobs: 9", log_row(4), log_row(5, run=0))
    workload = read_metacentrum(log)
    assert workload.notes == {EXCERPT: 7, reader.NEVER_RAN: 1}
    assert workload.origin == "MetaCentrum log tiny.swf, time from second 1004 of its clock"
    assert workload.start_date is None


def test_whole_nodes_where_all_are_alike(tmp_path: Path) -> None:
    workload = read_metacentrum(
        write_log(
            tmp_path,
            log_row(1, "2:ppn=3:cl_small#excl", cores=6),
            log_row(2, "1:ppn=3#excl", cores=3),
        )
    )
    assert per_task(workload, 0) == [[12, 4], [12, 4]]
    assert per_task(workload, 1) == [[3, 1]]
    assert not unplaceable_sets(workload).any()
    assert workload.notes == {reader.WHOLE_NODES: 1, reader.NOT_WHOLE_NODES: 1}


def test_simplified_jobs_are_counted(tmp_path: Path) -> None:
    workload = read_metacentrum(
        write_log(
            tmp_path,
            log_row(1, run=0, walltime=0),
            log_row(2, "1:ppn=1:big2+1:ppn=1:host=big1", cores=2),
            log_row(3, "1:ppn=1:^small1.cerit-sc.cz"),
            log_row(4, "1:ppn=1:^cl_small:x86_64"),
            log_row(5, "1:ppn=1+1:ppn=2", cores=4),
        )
    )
    assert workload.notes == {
        reader.NEVER_RAN: 1,
        reader.NODE_NAMED: 1,
        reader.NODE_EXCLUDED: 1,
        reader.CORES_OF_SPEC: 1,
    }
    assert workload.places[workload.set_place].tolist() == [
        [True, False],
        [True, True],
        [True, False],
        [True, True],
    ]
    assert per_task(workload, 3) == [[2, 1], [2, 1]]
    # the log starts with a job that never ran; times count from it all the same
    assert workload.job_submit.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([log_row(2), log_row(1)], "row 2: column 2 (submit time): 1001 is before the row above"),
        ([log_row(1), log_row(1)], "row 2: duplicate job '1'"),
        ([log_row(1), log_row(2, "1:cl_big:cl_small")], "row 2: node specification"),
        ([log_row(1, run=0)], "holds no job that ever ran"),
    ],
)
def test_refusals(tmp_path: Path, rows: list[str], message: str) -> None:
    path = write_log(tmp_path, *rows)
    assert fault_of(read_metacentrum, path).startswith(f"{path}: {message}")


def test_progress(metacentrum_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stored_files, "ROWS_PER_REPORT", 100)
    seen: list[tuple[int, int]] = []
    read_metacentrum(metacentrum_log, on_progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 3
    assert seen == sorted(seen)
    size = metacentrum_log.stat().st_size
    assert seen[-1] == (size, size)


def test_starts_of_jobs(tmp_path: Path) -> None:
    log = write_log(tmp_path, log_row(1, "2:ppn=1", cores=2, wait=7), log_row(3, wait=-1))
    workload = read_metacentrum(log)
    np.testing.assert_array_equal(workload.task_start, [7, 7, np.nan])
    assert workload.task_server.tolist() == [-1, -1, -1]
    assert workload.notes == {reader.NO_START: 1}


def test_too_many_nodes_are_refused_at_their_row(tmp_path: Path) -> None:
    log = write_log(tmp_path, log_row(1), log_row(2, "999999999:ppn=1", cores=999_999_999))
    with pytest.raises(InputError, match=r"row 2: .*999,999,999 make more than"):
        read_metacentrum(log)


GOOD = log_row(1)


def test_every_field_arrives(tmp_path: Path) -> None:
    row = (
        "17 1356996147 71 56011 4 1 1024 4 86400 68719476736 1 62 1 1 -1 1 1 1 "
        "{1241,1241,1243,1243} q_1d 2:ppn=2:cl_big#excl"
    )
    (job,) = read_jobs(write_log(tmp_path, "; UnixStartTime: 0", "", row))
    assert (job.row.row, job.row.job, job.row.user) == (3, 17, 62)
    assert (job.row.submit, job.row.wait, job.row.run) == (1356996147, 71, 56011)
    assert (job.cores, job.spec.nodes, job.cores_per_node) == (4, 2, 2)
    assert (job.row.walltime, job.row.memory_requested) == (86400, 68719476736)
    assert job.spec.exclusive
    assert job.spec.chunks[0].properties == ("cl_big",)


def test_cores_per_node_are_those_of_the_log(tmp_path: Path) -> None:
    jobs = list(
        read_jobs(
            write_log(
                tmp_path,
                log_row(1, "1:ppn=1.5", cores=1),
                log_row(2, "1:ppn=1+3:ppn=3", cores=10),
            )
        )
    )
    assert [job.cores_per_node for job in jobs] == [1, 2.5]


@pytest.mark.parametrize("requested", [-1, 0, 3])
def test_requested_cores_count_only_where_there_are_some(tmp_path: Path, requested: int) -> None:
    row = log_row(1, cores=8).split()
    row[4], row[7] = "8", str(requested)
    (job,) = read_jobs(write_log(tmp_path, " ".join(row)))
    assert job.cores == (requested if requested > 0 else 8)


def test_a_plain_log_of_18_columns_with_fractions(tmp_path: Path) -> None:
    path = tmp_path / "plain.swf"
    path.write_text("; header\n1 0.5 -1 10 4 2.25 -1 4 60 -1 1 3 1 -1 1 -1 -1 -1\n")
    (row,) = read_swf(path)
    assert (row.row, row.submit, row.average_cpu, row.user, row.extra) == (2, 0.5, 2.25, 3, ())


def with_field(column: int, value: str) -> str:
    fields = GOOD.split()
    fields[column - 1] = value
    return " ".join(fields)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("1 2 3", "not 21 columns separated by blanks but 3"),
        (with_field(2, "noon"), "column 2 (submit time): 'noon' is not a number"),
        (with_field(10, "9" * 5000), f"column 10 (memory requested): '{'9' * 37}...' is out"),
        (with_field(5, "\u0663"), "column 5 (cores allocated): '\u0663' is not a number"),
        (with_field(8, "1.5"), "column 8 (cores requested): '1.5' is not a whole number"),
        (with_field(12, "-1"), "column 12 (user): unknown or none"),
        (log_row(1, cores=0), "column 8 (cores): unknown or none"),
        (
            with_field(21, "1:ppn=x"),
            "node specification '1:ppn=x': 'ppn=x' is not a number of cores",
        ),
    ],
)
def test_damaged_rows(tmp_path: Path, row: str, fault: str) -> None:
    path = write_log(tmp_path, "; comment", GOOD, row)
    jobs = read_jobs(path)
    assert next(jobs).row.row == 2
    assert fault_within(path, next, jobs).startswith(f"row 3: {fault}")


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        assert "cannot be read: " in fault_of(list, read_jobs(path))


def test_a_whole_log(metacentrum_log: Path) -> None:
    """Against figures counted from the text of the log."""
    workload = read_metacentrum(metacentrum_log)
    tasks = jobs = gangs = 0
    users: dict[str, Counter[str]] = defaultdict(Counter)
    work, whole_nodes = 0.0, 0
    with gzip.open(metacentrum_log, "rt") as rows:
        for row in rows:
            fields = row.split()
            if float(fields[3]) <= 0:
                continue
            hosts = Counter(fields[18].strip("{}").split(","))
            jobs += 1
            tasks += len(hosts)
            gangs += len(hosts) > 1
            users[f"user-{fields[11]}"]["jobs"] += 1
            whole_nodes += "#excl" in fields[20]
            if "#excl" not in fields[20]:
                work += float(fields[3]) * sum(hosts.values())
    assert (workload.n_jobs, workload.n_tasks, int(workload.job_gang.sum())) == (jobs, tasks, gangs)
    assert workload.users == tuple(sorted(users, key=lambda user: int(user[5:])))
    counted = np.bincount(workload.job_user)
    assert counted.tolist() == [users[user]["jobs"] for user in workload.users]
    cores = workload.shapes[workload.set_shape, 0].repeat(workload.set_tasks)
    whole = workload.shapes[workload.set_shape].repeat(workload.set_tasks, axis=0)
    exclusive = (whole == workload.cluster.capacity[0]).all(axis=1)
    assert (cores * workload.task_duration)[~exclusive].sum() == pytest.approx(work)
    assert exclusive.sum() == whole_nodes > 0
    assert workload.notes[reader.NEVER_RAN] == 2
    assert workload.notes[reader.WHOLE_NODES] == whole_nodes

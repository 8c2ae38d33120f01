"""Reading logs: every field, every kind of damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from hand_written_logs import log_row, write_log

from fairlead.errors import InputError
from fairlead.traces.logs.metacentrum import read_jobs
from fairlead.traces.logs.swf import read_swf
from faults import fault_of

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
    assert job.hosts == (1241, 1241, 1243, 1243)
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
        (with_field(19, "{1_0}"), "column 19 (hosts): '{1_0}' is not a list of hosts in braces"),
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
    with pytest.raises(InputError) as caught:
        next(jobs)
    assert (caught.value.source, caught.value.place) == (str(path), "row 3")
    assert caught.value.fault.startswith(fault)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        assert "cannot be read: " in fault_of(list, read_jobs(path))

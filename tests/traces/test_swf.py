"""Logs in Standard Workload Format: processors, memory, and substitutes for unknown values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairlead.model.workload import Workload
from fairlead.traces.logs import job_collector as _job_collector
from fairlead.traces.logs import swf as reader
from fairlead.traces.logs.swf import EXCERPT, UNUSED_COLUMNS, read_swf_workload
from fairlead.traces.readers import SWF, read_workload
from faults import fault_of

HEADER = "; Version: 2.2\n; MaxNodes: 64 (two kinds)\n; MaxProcs: 128\n"
GIB = 2**20  # in the KiB of the format


def row(job: int, **changes: object) -> str:
    """A row of a log; `changes` are fields by name."""
    fields: dict[str, object] = dict.fromkeys(reader.SwfRow._fields[1:-1], -1)
    fields |= {"job": job, "submit": 100, "wait": 5, "run": 60, "cores_allocated": 4}
    fields |= {"walltime": 3600, "status": 1, "user": 7}
    return " ".join(map(str, (fields | changes).values())) + "\n"


def read(folder: Path, *rows: str, header: str = HEADER, **machines: float) -> Workload:
    path = folder / "plain.swf"
    path.write_text(header + "".join(rows))
    return read_swf_workload(path, **machines)  # type: ignore[arg-type]


def test_one_pool_of_the_processors_of_the_header(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        row(1, user=30),
        row(2, submit=100.5, cores_requested=8, user=4, walltime=0, wait=0),
        row(3, submit=101, run=0.25, walltime=0.5, cores_requested=0, wait=-1),
    )
    assert workload.cluster.groups == ("pool",)
    assert workload.cluster.capacity.tolist() == [[128]]
    assert workload.cluster.count.tolist() == [1]
    assert workload.shapes[workload.set_shape].tolist() == [[4], [8], [4]]
    assert workload.set_tasks.tolist() == [1, 1, 1]
    assert not workload.job_gang.any()
    assert workload.job_submit.tolist() == [0, 0.5, 1]
    assert workload.task_duration.tolist() == [60, 60, 0.25]
    assert workload.users == ("user-4", "user-7", "user-30")
    assert workload.job_user.tolist() == [2, 0, 1]
    assert workload.job_limit.tolist() == [3600, np.inf, 0.5]
    np.testing.assert_array_equal(workload.task_start, [5, 0.5, np.nan])
    assert (workload.task_server == -1).all()
    assert workload.origin == "SWF log plain.swf, time from second 100 of its clock"
    assert workload.notes == {reader.NO_START: 1}


def test_servers_make_gangs_of_one_core(tmp_path: Path) -> None:
    workload = read(tmp_path, row(1), row(2, cores_allocated=1), servers=3, cores=16)
    assert workload.cluster.count.tolist() == [3]
    assert workload.cluster.capacity.tolist() == [[16]]
    assert workload.set_tasks.tolist() == [4, 1]
    assert workload.shapes.tolist() == [[1]]
    assert workload.job_gang.tolist() == [True, False]
    assert workload.task_start.tolist() == [5] * 5
    for given, fault in (
        ({"servers": 3}, "--servers: needs --cores as well"),
        ({"servers": 0, "cores": 3}, "--servers: must be a positive number, at most 10,000,000"),
        ({"servers": 3, "cores": 10**9 + 1}, "--cores: must be a positive number, at most 1,000,"),
        ({"memory": 0.0}, "--memory: must be a positive number, at most 1,000,000,000, not 0.0"),
    ):
        assert fault in fault_of(read, tmp_path, row(1), **given)


def test_memory_requested_then_used_then_none(tmp_path: Path) -> None:
    rows = (row(1, memory_requested=GIB, memory_used=5), row(2, memory_used=2 * GIB), row(3))
    rows = (*rows, "\n", row(4, memory_requested=0))
    workload = read(tmp_path, *rows, memory=64.0)
    assert workload.cluster.capacity.tolist() == [[128, 64]]
    assert workload.shapes[workload.set_shape].tolist() == [[4, 4], [4, 8], [4, 0], [4, 0]]
    assert workload.notes == {reader.USED_MEMORY: 1, reader.NO_MEMORY: 1}
    workload = read(tmp_path, *rows, servers=3, cores=16, memory=64.0)
    assert workload.shapes[workload.set_shape].tolist() == [[1, 1], [1, 2], [1, 0], [1, 0]]
    assert read(tmp_path, *rows).cluster.resources == ("cpu",)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1"])
def test_comments_of_any_alphabet_and_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    """Headers name people and towns, in the alphabet of their time."""
    path = tmp_path / "log"
    text = f"; Installation: Universit\u00e4t K\u00f6ln\n{HEADER}; Note: \u00e9\n{row(1)};\u00fc\n"
    content = text.encode(encoding)
    path.write_bytes(content)
    workload, found = read_workload(path)
    assert found == SWF
    assert workload.cluster.capacity.tolist() == [[128]]
    assert workload.n_jobs == 1
    # Only comments have this freedom; binary files have none.
    for spoilt, fault in (
        (row(2)[:-1].encode() + b" \xe9\n", "row 8: not text in UTF-8"),
        (b";\0\n", "row 8: not text: it holds a zero byte"),
        (b"; a comment would swallow\r the job behind it", "row 8: holds a carriage return"),
    ):
        path.write_bytes(content + spoilt)
        assert fault in fault_of(read_workload, path)


def test_an_excerpt_of_a_log_is_noted(tmp_path: Path) -> None:
    """A part of a job is no job."""
    rows = [row(n, status=status) for n, status in enumerate((-1, 0, 1, 2, 5))]
    for most, missing in ((3, 0), (4, 0), (9, 5)):
        workload = read(tmp_path, *rows, header=f"{HEADER}; MaxJobs: {most} (some)\n")
        assert workload.notes.get(EXCERPT, 0) == missing


def test_left_out_and_filled_in_rows_are_counted(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        row(9, submit=-1),
        row(4, submit=90, run=-1, queue=1, partition=1, preceding_job=1, think_time=1),
        row(1, queue=0, partition=1),
        row(2, run=0, partition=2, preceding_job=1, think_time=30),
        row(3, run=0, status=5),
        row(5, status=2),
        row(6, status=3),
        row(7, cores_allocated=-1),
        row(8, user=-1),
    )
    assert workload.job_names.tolist() == ["1", "2", "8"]
    assert workload.job_submit.tolist() == [10, 10, 10]  # from the first, which never ran
    assert workload.task_duration.tolist() == [60, 0.5, 60]
    assert workload.users == ("user-unknown", "user-7")
    assert workload.notes == {
        reader.ROUNDED_UP: 1, reader.NEVER_RAN: 2, reader.PARTS: 2, reader.NO_PROCESSORS: 1,
        reader.NO_USER: 1, reader.NO_SUBMISSION: 1, UNUSED_COLUMNS["queue"]: 1,
        UNUSED_COLUMNS["partition"]: 2, UNUSED_COLUMNS["preceding_job"]: 1,
        UNUSED_COLUMNS["think_time"]: 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((row(1), row(2, submit=99)), "row 5: column 2 (submit): 99 is before the row above"),
        ((row(1), row(2, run="nan")), "row 5: column 4 (run): 'nan' is not"),
        ((), "holds no job"),
        ((row(1, run=-1),), "holds no job that ever ran"),
    ],
)
def test_refusals(tmp_path: Path, rows: tuple[str, ...], message: str) -> None:
    assert fault_of(read, tmp_path, *rows).startswith(f"{tmp_path / 'plain.swf'}: {message}")


@pytest.mark.parametrize(
    ("header", "cores"),
    [
        ("; MaxProcs: 1,024,000 (of two kinds)\n", 1_024_000),
        ("; MaxProcs: 1024 cores, of two kinds with 2.5 GHz\n", 1024),
        ("; MaxProcs: 1024 # as of 2013\n", 1024),
        ("; MaxProcs: 8\n; MaxProcs: 8\n", 8),
        ("; MaxNodes: 64 (two kinds)\n; MaxProcs: unknown\n", 64),
    ],
)
def test_header_numbers_that_are_clear(tmp_path: Path, header: str, cores: int) -> None:
    assert read(tmp_path, row(1), header=header).cluster.capacity.tolist() == [[cores]]


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        ("", "its header names no MaxProcs or MaxNodes; give --serv"),
        ("; MaxProcs: 0\n", "its header names no MaxProcs or MaxNodes"),
        ("; MaxProcs: many\n", "its header names no MaxProcs or MaxNodes"),
        ("; MaxProcs: 8\n; MaxProcs: 16\n", "row 2: MaxProcs: is 16, and 8 in row 1"),
    ],
)
def test_headers_without_one_number_are_refused(tmp_path: Path, header: str, fault: str) -> None:
    assert fault in fault_of(read, tmp_path, row(1), header=header)


@pytest.mark.parametrize("value", ["1.024", "4 K", "1,0240", "12a", "9" * 16])
def test_header_numbers_that_are_not_clear_are_refused(tmp_path: Path, value: str) -> None:
    for name in ("MaxProcs", "MaxNodes", "MaxJobs"):
        header = f"; Version: 2.2\n; {name}: {value}\n" + "; MaxProcs: 8\n" * (name == "MaxJobs")
        fault = fault_of(read, tmp_path, row(1), header=header)
        assert fault.startswith(f"{tmp_path / 'plain.swf'}: row 2: {name}: ")
        assert value in fault


def test_too_many_tasks_are_refused_at_their_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_job_collector, "MOST_TASKS", 1_000)
    fault = fault_of(
        read, tmp_path, *(row(k, cores_requested=600) for k in (1, 2)), servers=4, cores=4
    )
    assert "row 5: column 8 (cores requested): 600 make more than 1,000 tasks" in fault

"""Dates of traces: which logs have them, and the options that take them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairlead.cli.main import run
from fairlead.errors import ProblemError
from fairlead.model.workload import Workload
from fairlead.traces.parquet_trace import read_parquet, write_parquet
from fairlead.traces.readers import MachineOptions, read_workload
from fairlead.traces.time_window import time_window
from fairlead.traces.what_if import with_load
from faults import change_header, fault_of
from oracles.random_workloads import random_workload

Capture = pytest.CaptureFixture[str]
NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
HOUR = 3600.0
SACCT = """\
JobID|User|Submit|Start|End|State|AllocTRES
1|ana|2025-01-01T00:00:00|2025-01-01T00:00:00|2025-01-01T04:00:00|COMPLETED|cpu=1
2|bo|2025-01-01T01:00:00|2025-01-01T02:00:00|2025-01-01T03:00:00|COMPLETED|cpu=1
3|bo|2025-01-01T06:30:00|2025-01-01T06:30:00|2025-01-01T08:00:00|COMPLETED|cpu=2
"""
SWF_ROW = "1 {} 0 60 4 -1 -1 4 3600 -1 1 7 1 1 -1 -1 -1 -1\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT)
    return path


def dated_trace(folder: Path, start_date: float | None = NEW_YEAR) -> Path:
    path = folder / "trace.parquet"
    write_parquet(replace(random_workload(3), start_date=start_date), path)
    return path


def test_second_0_of_a_sacct_table_is_its_first_submission(log: Path) -> None:
    workload, _ = read_workload(log, MachineOptions(servers=1, cores=4))
    assert workload.start_date == NEW_YEAR
    assert time_window(workload, HOUR).start_date == NEW_YEAR + HOUR
    assert with_load(workload, 2.0).start_date is None


@pytest.mark.parametrize(
    ("header", "submit", "date"),
    [
        ("; UnixStartTime: 1735689600\n", 0, NEW_YEAR),
        ("; UnixStartTime: 1735689600\n", 30, NEW_YEAR + 30),
        ("; UnixStartTime: 0\n", 30, None),
        ("; UnixStartTime: 1.7e9\n", 30, None),
        ("", 0, None),
        ("", 30, None),
        ("", 1735689600, NEW_YEAR),
    ],
)
def test_dates_of_swf_logs(tmp_path: Path, header: str, submit: int, date: float | None) -> None:
    path = tmp_path / "log.swf"
    path.write_text(f"; MaxProcs: 8\n{header}{SWF_ROW.format(submit)}")
    assert read_workload(path)[0].start_date == date


@pytest.mark.parametrize("start_date", [None, 0, NEW_YEAR + 1 / 3])
def test_traces_keep_their_date(tmp_path: Path, start_date: float | None) -> None:
    assert read_parquet(dated_trace(tmp_path, start_date)).start_date == start_date


@pytest.mark.parametrize("wrong", [-1, 1e12, float("nan"), "2025-01-01", True])
def test_wrong_dates_are_refused(tmp_path: Path, wrong: object) -> None:
    workload = random_workload(3)
    with pytest.raises(ProblemError, match="start_date"):
        Workload.from_arrays(
            workload.cluster,
            ["ana"],
            job_user=[0],
            job_submit=[0],
            set_job=[0],
            set_tasks=[1],
            shapes=workload.shapes[:1],
            task_duration=[1],
            start_date=wrong,  # type: ignore[arg-type]
        )
    path = dated_trace(tmp_path)
    change_header(path, start_date=wrong)
    assert "start_date: must be " in fault_of(read_parquet, path)


def test_options_take_dates(log: Path, capsys: Capture) -> None:
    window = log.with_name("window.parquet")
    line = ["trace", "convert", str(log), "--servers", "1", "--cores", "4"]
    words = ["--from", "2025-01-01T01:00:00", "--to", "2025-01-01T06:00"]
    capsys.readouterr()
    assert run([*line, "-o", str(window), *words]) == 0
    printed = capsys.readouterr().out
    assert "submitted before 2025-01-01 01:00:00 (--from): 1\n" in printed
    assert "submitted from 2025-01-01 06:00:00 on (--to): 1\n" in printed
    part = read_parquet(window)
    assert (part.job_names.tolist(), part.start_date) == (["2"], NEW_YEAR + HOUR)
    assert run([*line, "-o", str(window), "--to", "6h", "--from", "2024-12-31"]) == 0
    assert read_parquet(window).job_names.tolist() == ["1", "2"]


MACHINES = ["--servers", "1", "--cores", "4"]


def test_the_first_day_stands_for_the_start(log: Path, capsys: Capture) -> None:
    log.write_text(SACCT.replace("T0", "T1"))  # so the first job comes at 10:00
    words = ["trace", "audit", str(log), *MACHINES, "--json", "--to", "4h"]
    found = []
    for begin in ("2025-01-01", "0"):
        assert run([*words, "--from", begin]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert run([*words, "--from", "2025-01-01T09:00"]) == 2
    assert capsys.readouterr().err == (
        "fairlead: --from: is before the trace begins, 2025-01-01 10:00:00\n"
    )


@pytest.mark.parametrize(
    ("end", "fault"),
    [
        ("2024-12-31", "is before the trace begins, 2025-01-01 00:00:00"),
        ("2025-02-30", "2025-02-30 is not a date"),
        ("2025-01-01T01:00Z", "must be seconds, a number with"),
    ],
)
def test_dates_that_a_trace_lacks(log: Path, capsys: Capture, end: str, fault: str) -> None:
    assert run(["trace", "audit", str(log), *MACHINES, "--to", end]) == 2
    assert capsys.readouterr().err.startswith(f"fairlead: --to: {fault}")


def test_windows_are_answered_by_dates(log: Path) -> None:
    workload, _ = read_workload(log, MachineOptions(servers=1, cores=4))
    assert fault_of(time_window, workload, 6 * HOUR, 2 * HOUR) == (
        "--from: must be before --to, 2025-01-01 02:00:00, not 2025-01-01 06:00:00"
    )
    assert fault_of(time_window, workload, 2 * HOUR, 3 * HOUR) == (
        "--from: no job is submitted from 2025-01-01 02:00:00 on and before 2025-01-01 03:00:00; "
        "the trace has jobs from 2025-01-01 00:00:00 to 2025-01-01 06:30:00"
    )


def test_a_warm_up_ends_before_the_last_submission(log: Path, capsys: Capture) -> None:
    line = ["simulate", str(log), "--servers", "1", "--cores", "4", "-p", "recorded"]
    assert run([*line, "--warm-up", "2025-01-01T06:30"]) == 2
    assert capsys.readouterr().err.startswith(
        "fairlead: --warm-up: must be before the last submission, 2025-01-01 06:30:00, not 2025"
    )


def test_a_trace_without_dates(tmp_path: Path, capsys: Capture) -> None:
    trace = dated_trace(tmp_path, None)
    for verb in (
        ["simulate", str(trace), "-p", "drf/best-fit", "--from", "2025-01-01"],
        ["explain", str(trace), "job-1", "--policy", "drf/best-fit", "--at", "2025-01-01"],
    ):
        assert run(verb) == 2
        assert "is a date, and the trace has none; give the time" in capsys.readouterr().err
    assert run(["trace", "info", str(trace), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["start_date"] is None


def test_info_shows_the_date(tmp_path: Path, capsys: Capture) -> None:
    trace = str(dated_trace(tmp_path))
    assert run(["trace", "info", trace, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["start_date"] == "2025-01-01T00:00:00"

"""Windows and dates of traces: jobs and servers of a window, options that take dates, faults."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cli.log_options import instant_in
from fairlead.cli.main import run
from fairlead.model.cluster import BoolArray, Cluster
from fairlead.model.workload import DRAIN, JOIN, LEAVE, Workload
from fairlead.simulation.replay import replay
from fairlead.traces.parquet_trace import read_parquet, write_parquet
from fairlead.traces.readers import MachineOptions, read_workload
from fairlead.traces.time_window import NO_STARTS, time_window, why_no_starts
from fairlead.traces.trace_summary import summarize
from fairlead.traces.what_if import with_load
from faults import fault_of
from oracles.random_workloads import random_workload

Capture = pytest.CaptureFixture[str]
HOUR = 3600.0


def four_jobs() -> Workload:
    """Return a job of one core every hour, and four servers with a life of their own."""
    return Workload.from_arrays(
        Cluster(("a", "b"), ("cpu",), np.ones((2, 1)), np.array([3, 1]), ("",), ({},) * 2),
        ["ana", "bo"],
        job_user=[0, 1, 0, 1],
        job_submit=np.arange(4) * HOUR,
        job_cancel=[np.inf, np.inf, 9 * HOUR, np.inf],
        set_job=range(4),
        set_tasks=[1] * 4,
        shapes=np.ones((4, 1)),
        task_duration=[10.0] * 4,
        task_start=[0, 4000, np.nan, np.inf],
        server_time=[10, 20, 30, 5000, 6000, 8000],
        server_event=[JOIN, LEAVE, DRAIN, JOIN, LEAVE, LEAVE],
        server=[0, 1, 2, 1, 2, 0],
    )


def present(workload: Workload, seconds: float) -> BoolArray:
    there = workload.there_at_start.copy()
    for time, event, server in zip(
        workload.server_time, workload.server_event, workload.server, strict=True
    ):
        if time <= seconds:
            there[server] = event == JOIN
    return there


def test_starts_are_left_out_where_earlier_jobs_ran(tmp_path: Path, capsys: Capture) -> None:
    """At 3900 s job-1 waits, and starts at 4000 s, so that no window from then on is a run."""
    part = time_window(four_jobs(), 3900)
    assert np.isnan(part.task_start).all()
    assert (part.task_server == -1).all()
    assert part.notes[NO_STARTS] == 1  # that of job-3, which never started
    left_out = "the recorded starts are left out, as earlier jobs ran or waited at --from"
    assert why_no_starts(part) == left_out
    write_parquet(part, tmp_path / "x.parquet")
    assert run(["trace", "audit", str(tmp_path / "x.parquet")]) == 2
    assert f"{left_out}; fairlead simulate" in capsys.readouterr().err
    write_parquet(four_jobs(), tmp_path / "x.parquet")
    assert run(["simulate", str(tmp_path / "x.parquet"), "--from", "3900", "-p", "recorded"]) == 2
    assert "no run compares with recorded" in capsys.readouterr().err


def test_jobs_withdrawn_before_a_window_did_not_run_into_it() -> None:
    """Its first job never started, and was withdrawn at 1000 s or later."""
    workload = four_jobs()
    start = np.array([np.inf, *workload.task_start[1:]])
    for cancel, known in ((1000.0, True), (HOUR + 1, False), (np.inf, False)):
        cancels = np.array([cancel, *workload.job_cancel[1:]])
        part = time_window(replace(workload, task_start=start, job_cancel=cancels), HOUR)
        assert part.has_starts == known


def test_servers_begin_in_their_state_then() -> None:
    part = time_window(four_jobs(), HOUR)
    assert part.task_start[0] == 400
    assert part.job_cancel.tolist() == [np.inf, 8 * HOUR, np.inf]
    events = zip(part.server_time, part.server_event, part.server, strict=True)
    assert list(events) == [
        (0, LEAVE, 1), (0, DRAIN, 2), (1400, JOIN, 1), (2400, LEAVE, 2), (4400, LEAVE, 0),
    ]  # fmt: skip
    assert part.there_at_start[0]
    ran = replay(part, "drf/best-fit")
    assert set(ran.server[ran.start < 1400].tolist()) <= {0, 3}


@given(st.integers(0, 2**32), st.integers(0, 12), st.integers(1, 12))
def test_a_window_is_what_the_trace_holds_then(seed: int, begin: int, length: int) -> None:
    whole = random_workload(seed)
    end = begin + length
    inside = (whole.job_submit >= begin) & (whole.job_submit < end)
    if not inside.any():
        assert "no job is submitted from" in fault_of(time_window, whole, begin, end)
        return
    part = time_window(whole, begin, end)
    assert part.job_names.tolist() == whole.job_names[inside].tolist()
    assert part.job_submit.tolist() == (whole.job_submit[inside] - begin).tolist()
    assert part.job_limit.tolist() == whole.job_limit[inside].tolist()
    assert part.job_cancel.tolist() == (whole.job_cancel[inside] - begin).tolist()
    tasks = inside[np.repeat(whole.set_job, whole.set_tasks)]
    assert part.task_duration.tolist() == whole.task_duration[tasks].tolist()
    later = time_window(whole, begin)
    for seconds in range(begin, 15):
        assert present(later, seconds - begin).tolist() == present(whole, seconds).tolist()


SACCT = """\
JobID|User|Submit|Start|End|State|AllocTRES
1|ana|2025-01-01T10:00:00|2025-01-01T20:00:00|2025-01-01T21:00:00|COMPLETED|cpu=1
2|bo|2025-01-01T11:00:00|2025-01-01T11:00:00|2025-01-01T20:00:00|COMPLETED|cpu=1
3|ana|2025-01-01T13:00:00|2025-01-01T13:00:00|2025-01-01T14:00:00|COMPLETED|cpu=1
4|bo|2025-01-01T15:00:00|2025-01-01T20:00:00|2025-01-01T21:00:00|COMPLETED|cpu=1
"""
MACHINES = ["--servers", "1", "--cores", "4"]
BEGIN = datetime(2025, 1, 1, 10, tzinfo=UTC).timestamp()
SWF_ROW = "1 {} 0 60 4 -1 -1 4 3600 -1 1 7 1 1 -1 -1 -1 -1\n"


@pytest.fixture
def sacct(tmp_path: Path) -> Path:
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT)
    return path


@pytest.mark.parametrize(
    ("words", "hours"),
    [
        ("", 6),  # from 14:00 to 20:00
        ("--to 2025-01-01T15:00", 3),  # from 10:00 to 13:00, rather than the hour from 14:00
    ],
)
def test_a_wait_does_not_go_on_beyond_a_window(
    sacct: Path, capsys: Capture, words: str, hours: float
) -> None:
    line = ["simulate", str(sacct), *MACHINES, "-p", "recorded", "--json", *words.split()]
    assert run(line) == 0
    longest = json.loads(capsys.readouterr().out)["policies"]["recorded"]["longest_without"]
    assert longest == {"user": "ana", "seconds": hours * HOUR}


def test_files_keep_where_a_window_was_cut(tmp_path: Path) -> None:
    part = time_window(four_jobs(), end=2.5 * HOUR)
    write_parquet(part, tmp_path / "out.parquet")
    assert read_workload(tmp_path / "out.parquet")[0].recorded_until == 2.5 * HOUR
    assert time_window(part, HOUR).recorded_until == 1.5 * HOUR
    assert with_load(part, 2.0).recorded_until == 1.25 * HOUR
    assert time_window(four_jobs(), end=4 * HOUR).recorded_until is None


@pytest.mark.parametrize(
    ("header", "submit", "date"),
    [
        ("; UnixStartTime: 1735689600\n", 0, 1735689600),
        ("; UnixStartTime: 1735689600\n", 30, 1735689630),
        ("; UnixStartTime: 0\n", 30, None),
        ("; UnixStartTime: 1.7e9\n", 30, None),
        ("", 30, None),
        ("", 1735689600, 1735689600),
    ],
)
def test_dates_of_swf_logs(tmp_path: Path, header: str, submit: int, date: float | None) -> None:
    path = tmp_path / "log.swf"
    path.write_text(f"; MaxProcs: 8\n{header}{SWF_ROW.format(submit)}")
    assert read_workload(path)[0].start_date == date


def test_dates_of_a_sacct_table(sacct: Path) -> None:
    """Second 0 is its first submission, and the whole day before stands for it."""
    workload, _ = read_workload(sacct, MachineOptions(servers=1, cores=4))
    assert workload.start_date == BEGIN
    assert time_window(workload, HOUR).start_date == BEGIN + HOUR
    assert with_load(workload, 2.0).start_date is None
    for hour, seconds in ((0, 0), (11, HOUR)):
        assert instant_in(workload, datetime(2025, 1, 1, hour, tzinfo=UTC), "--from") == seconds
    fault = fault_of(instant_in, workload, datetime(2025, 1, 1, 9, tzinfo=UTC), "--from")
    assert fault == "--from: is before the trace begins, 2025-01-01 10:00:00"


def test_options_take_dates(sacct: Path, capsys: Capture) -> None:
    window = sacct.with_name("window.parquet")
    line = ["trace", "convert", str(sacct), *MACHINES, "-o", str(window)]
    assert run([*line, "--from", "2025-01-01T11:00:00", "--to", "2025-01-01T15:00"]) == 0
    printed = capsys.readouterr().out
    assert "submitted before 2025-01-01 11:00:00 (--from): 1\n" in printed
    assert "submitted from 2025-01-01 15:00:00 on (--to): 1\n" in printed
    part = read_parquet(window)
    assert (part.job_names.tolist(), part.start_date) == (["2", "3"], BEGIN + HOUR)
    assert run([*line, "--to", "5h", "--from", "2024-12-31"]) == 0
    assert read_parquet(window).job_names.tolist() == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("--to 2024-12-31", "--to: is before the trace begins, 2025-01-01 10:00:00"),
        ("--to 0", "--to: must be after the trace begins, not 2025-01-01 10:00:00"),
        ("--to 2025-02-30", "--to: 2025-02-30 is not a date"),
        ("--to 2025-01-01T01:00Z", "--to: must be seconds, a number with"),
        ("--from 2h --to 1h", "--from: must be before --to (2025-01-01 11:00:00), not 2025"),
        (
            "--from 6h",
            "--from: no job is submitted from 2025-01-01 16:00:00 on; the trace has jobs from "
            "2025-01-01 10:00:00 to 2025-01-01 15:00:00",
        ),
    ],
)
def test_unusable_windows_write_nothing(
    sacct: Path, capsys: Capture, words: str, fault: str
) -> None:
    out = sacct.with_name("out.parquet")
    line = ["trace", "convert", str(sacct), *MACHINES, "-o", str(out), *words.split()]
    assert run(line) == 2
    assert capsys.readouterr().err.startswith(f"fairlead: {fault}")
    assert not out.exists()


def test_a_trace_without_dates(tmp_path: Path, capsys: Capture) -> None:
    trace = str(tmp_path / "trace.parquet")
    write_parquet(four_jobs(), Path(trace))
    for verb in (
        ["simulate", trace, "-p", "drf/best-fit", "--from", "2025-01-01"],
        ["explain", trace, "job-1", "--policy", "drf/best-fit", "--at", "2025-01-01"],
    ):
        assert run(verb) == 2
        assert "is a date, and the trace has none; give the time" in capsys.readouterr().err
    for seconds, date in ((None, None), (BEGIN, "2025-01-01T10:00:00")):
        assert summarize(replace(four_jobs(), start_date=seconds))["start_date"] == date

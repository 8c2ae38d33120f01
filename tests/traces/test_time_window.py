"""A window of a trace: its jobs, its servers at the beginning, and its faults."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cli.main import run
from fairlead.errors import InputError
from fairlead.model.cluster import BoolArray, Cluster
from fairlead.model.workload import DRAIN, JOIN, LEAVE, Workload
from fairlead.simulation.replay import replay
from fairlead.traces.parquet_trace import write_parquet
from fairlead.traces.readers import read_workload
from fairlead.traces.time_window import NO_STARTS, time_window, why_no_starts
from fairlead.traces.what_if import with_load
from faults import change_header, fault_of
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


def test_times_count_from_the_beginning() -> None:
    part = time_window(four_jobs(), HOUR, 3 * HOUR)
    assert part.job_names.tolist() == ["job-1", "job-2"]
    assert part.job_submit.tolist() == [0, HOUR]
    assert part.job_cancel.tolist() == [np.inf, 8 * HOUR]
    assert part.task_start[0] == 400
    assert np.isnan(part.task_start[1])


def test_starts_are_left_out_where_earlier_jobs_ran(tmp_path: Path, capsys: Capture) -> None:
    """At 3900 s job-1 waits, and starts at 4000 s, so that no window from then on is a run."""
    part = time_window(four_jobs(), 3900)
    assert np.isnan(part.task_start).all()
    assert (part.task_server == -1).all()
    assert part.notes[NO_STARTS] == 1  # that of job-3, which never started
    left_out = "the recorded starts are left out, as earlier jobs ran or waited at --from"
    assert why_no_starts(part) == left_out
    trace = tmp_path / "x.parquet"
    write_parquet(part, trace)
    assert run(["trace", "audit", str(trace)]) == 2
    assert f"{left_out}; fairlead simulate" in capsys.readouterr().err


def test_servers_begin_in_their_state_then() -> None:
    part = time_window(four_jobs(), HOUR)
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


@pytest.mark.parametrize(
    ("words", "hours"),
    [
        ("", 6),  # from 14:00 to 20:00
        ("--to 2025-01-01T15:00", 3),  # from 10:00 to 13:00, rather than the hour from 14:00
    ],
)
def test_a_wait_does_not_go_on_beyond_a_window(
    tmp_path: Path, capsys: Capture, words: str, hours: float
) -> None:
    log = tmp_path / "sacct.txt"
    log.write_text(SACCT)
    machines = ["--servers", "1", "--cores", "4"]
    line = ["simulate", str(log), *machines, "-p", "recorded", "--json", *words.split()]
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


@pytest.mark.parametrize("wrong", [-1, 3600, float("nan"), "2025-01-01", True])
def test_a_cut_before_the_last_submission_is_refused(tmp_path: Path, wrong: object) -> None:
    path = tmp_path / "x.parquet"
    write_parquet(four_jobs(), path)
    change_header(path, recorded_until=wrong)
    with pytest.raises(InputError, match="recorded_until: must be seconds, at least the last"):
        read_workload(path)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--from", "2h", "--to", "2h"], "--from: must be before --to, 7200 s, not 7200 s"),
        (["--from", "1d"], "--from: no job is submitted from 86400 s on; the trace has jobs from"),
        (["--to=-1h"], "--to: must be seconds, a number with"),
    ],
)
def test_unusable_windows_write_nothing(
    tmp_path: Path, capsys: Capture, words: list[str], fault: str
) -> None:
    trace, out = tmp_path / "x.parquet", tmp_path / "out.parquet"
    write_parquet(four_jobs(), trace)
    assert run(["trace", "convert", str(trace), "-o", str(out), *words]) == 2
    assert capsys.readouterr().err.startswith(f"fairlead: {fault}")
    assert not out.exists()


def test_recorded_needs_the_jobs_before_a_window(tmp_path: Path, capsys: Capture) -> None:
    """A job that runs over the beginning is left out, which recorded would not show."""
    trace = tmp_path / "x.parquet"
    write_parquet(four_jobs(), trace)
    words = ["simulate", str(trace), "--from", "3900", "-p", "drf/best-fit", "-p", "recorded"]
    assert run(words) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "no run compares with recorded" in printed.err

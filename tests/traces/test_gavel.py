"""Traces of Gavel: each field of a few rows written by hand, each note, and each fault."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.traces.logs import gavel
from fairlead.traces.logs.gavel import is_gavel, read_gavel
from fairlead.traces.logs.job_collector import OUT_OF_ORDER
from faults import fault_of

ROWS = (
    ("Net (batch size 16)", "run -b 16", "nets", "--steps", "1", "900", "1", "1", "-1.0", "50"),
    ("Net (batch size 16)", "run -b 16", "nets", "--steps", "1", "900", "4", "5.0", "1.2", "70.5"),
    ("Words", "run", "words", "-n", "0", "10", "1", "1", "-1.000000", "60"),
    ("Net (batch size 64)", "run -b 64", "nets", "--steps", "1", "90", "1", "1", "2", "80"),
    ("Author's", "run", "words", "-n", "0", "1", "2", "0.5", "-1", "90"),
)  # fmt: skip
THROUGHPUTS = {
    "k80": {"('Net (batch size 16)', 1)": {"null": 1.0}},
    "v100": {
        "('Net (batch size 16)', 1)": {"null": 4.5, "('Words', 1)": [2.0, 0.1]},
        "('Net (batch size 16)', 4)": {"null": 15},
        "('Net (batch size 64)', 1)": {"null": 0.0},
        "('Words', 1)": {"null": 0.25},
        '("Author\'s", 2)': {"null": 2},
    },
}
TRACE = "".join("\t".join(row) + "\n" for row in ROWS)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    found = tmp_path / "small.trace"
    found.write_text(TRACE)
    (tmp_path / "throughputs.json").write_text(json.dumps(THROUGHPUTS, indent=1))
    return found


def read(trace: Path) -> Workload:
    return read_gavel(trace, machines=trace.parent / "throughputs.json", servers=3, cores=2)


def test_each_job_is_what_its_row_says(trace: Path) -> None:
    workload = read(trace)
    cluster = workload.cluster
    assert cluster.groups == ("v100",)
    assert cluster.resources == ("gpu",)
    assert cluster.units == ("GPUs",)
    assert cluster.capacity.tolist() == [[2]]
    assert cluster.count.tolist() == [3]
    assert [dict(labels) for labels in cluster.labels] == [{"gpu": "v100"}]
    assert workload.job_names.tolist() == ["job-0", "job-2", "job-1", "job-4"]
    users = [workload.users[user] for user in workload.job_user]
    assert users == ["job-0", "job-2", "job-1", "job-4"]
    assert workload.weight[workload.job_user].tolist() == [1, 1, 5, 0.5]
    assert workload.job_submit.tolist() == [0, 10, 20.5, 40]
    assert workload.job_gang.tolist() == [False, False, True, True]
    assert workload.set_tasks.tolist() == [1, 1, 4, 2]
    assert workload.shapes[workload.set_shape].tolist() == [[1]] * 4
    assert workload.places[workload.set_place].tolist() == [[True]] * 4
    assert workload.task_duration.tolist() == [200, 40, 60, 60, 60, 60, 0.5, 0.5]
    assert np.isnan(workload.task_start).all()
    assert (workload.task_server == -1).all()
    assert workload.origin == "Gavel trace small.trace, time from second 50 of its clock"


def test_what_is_left_out_or_not_used_is_counted(trace: Path) -> None:
    assert read(trace).notes == {gavel.TOO_LARGE: 1, gavel.DEADLINE: 1, OUT_OF_ORDER: 1}


def test_rows_may_lack_the_working_directory(trace: Path) -> None:
    whole = read(trace)
    trace.write_text("\n".join("\t".join((*row[:2], *row[3:])) for row in ROWS))
    short = read(trace)
    assert short.task_duration.tolist() == whole.task_duration.tolist()
    assert short.job_submit.tolist() == whole.job_submit.tolist()
    assert short.weight.tolist() == whole.weight.tolist()


def test_empty_lines_are_no_jobs(trace: Path) -> None:
    trace.write_bytes(gzip.compress(TRACE.replace("\n", "\n\n").encode()))
    assert read(trace).job_names.tolist() == ["job-0", "job-2", "job-1", "job-4"]


def test_the_only_gpu_type_of_a_file_counts(trace: Path) -> None:
    trace.write_text("\t".join(ROWS[0]))
    machines = trace.parent / "throughputs.json"
    machines.write_text(json.dumps({"k80": THROUGHPUTS["k80"]}))
    workload = read(trace)
    assert workload.cluster.groups == ("k80",)
    assert workload.task_duration.tolist() == [900]


def test_throughputs_and_servers_are_needed(trace: Path) -> None:
    machines = trace.parent / "throughputs.json"
    with pytest.raises(InputError, match="give --machines FILE with Gavel's throughputs"):
        read_gavel(trace, servers=3, cores=2)
    with pytest.raises(InputError, match="names no servers; give --servers, and --cores"):
        read_gavel(trace, machines=machines)
    with pytest.raises(InputError, match="--cores: needs --servers as well"):
        read_gavel(trace, machines=machines, cores=2)


def test_progress_ends_with_the_whole_file(trace: Path) -> None:
    reports: list[tuple[int, int]] = []
    read_gavel(
        trace, machines=trace.parent / "throughputs.json", servers=1, cores=1,
        on_progress=lambda done, size: reports.append((done, size)),
    )  # fmt: skip
    assert reports == [(len(TRACE), len(TRACE))]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("\t".join(ROWS[0]), True),
        ("\t".join((*ROWS[0][:-1], "soon")), False),
        ("\t".join((*ROWS[0][:-1], "nan")), False),
        ("\t".join((*ROWS[0][:4], "yes", *ROWS[0][5:])), False),
        ("\t".join(ROWS[0][3:]), False),
        (" ".join("1" * 10), False),
    ],
)
def test_rows_are_recognised(line: str, answer: bool) -> None:
    assert is_gavel(line) is answer


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        (0, "", "row 2: has 9 columns separated by tabs, where the first row has 10"),
        (0, "Other", "row 2: throughputs.json has no throughput of \"('Other', 4)\" on v100"),
        (5, "0", "row 2: column total_steps: must be a whole number from 1, not '0'"),
        (6, "1.5", "row 2: column scale_factor: must be a whole number from 1, not '1.5'"),
        (7, "0", "row 2: column priority_weight: must be positive, not 0"),
        (8, "", "row 2: column SLO: '' is not a usable number"),
        (9, "inf", "row 2: column arrival_time: 'inf' is not a usable number"),
    ],
)  # fmt: skip
def test_a_fault_names_its_row(trace: Path, column: int, value: str, fault: str) -> None:
    rows = [list(row) for row in ROWS]
    rows[1][column] = value
    trace.write_text("\n".join("\t".join(row) for row in rows))
    assert fault_of(read, trace).startswith(f"{trace}: {fault}")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"v100"', '"a100"', "has no GPU type 'v100' but k80, a100; keep one type in it"),
        (
            '"null": 4.5',
            '"alone": 4.5',
            "v100.('Net (batch size 16)', 1): the key 'null' is missing",
        ),
        (
            '"null": 4.5',
            '"null": -1',
            "v100.('Net (batch size 16)', 1).null: must be at least 0, not -1",
        ),
    ],
)
def test_a_fault_of_throughputs_names_its_place(
    trace: Path, old: str, new: str, fault: str
) -> None:
    machines = trace.parent / "throughputs.json"
    text = json.dumps(THROUGHPUTS)
    assert old in text
    machines.write_text(text.replace(old, new, 1))
    assert fault_of(read, trace).startswith(f"{machines}: {fault}")


def test_a_duration_that_is_too_long_is_refused(trace: Path) -> None:
    machines = trace.parent / "throughputs.json"
    machines.write_text(json.dumps(THROUGHPUTS).replace('"null": 4.5', '"null": 1e-300'))
    assert "row 1: 900 steps at 1e-300 steps/s are not a usable" in fault_of(read, trace)


def test_rows_have_nine_or_ten_columns(trace: Path) -> None:
    trace.write_text("\t".join(ROWS[0][3:]))
    assert fault_of(read, trace) == f"{trace}: row 1: has 7 columns separated by tabs, not 9 or 10"

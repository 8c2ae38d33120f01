"""Traces of Gavel: each field of a few rows written by hand, each note, and each fault."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairlead.model.workload import Workload
from fairlead.traces.logs import gavel
from fairlead.traces.logs.gavel import read_gavel
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


@pytest.mark.parametrize("with_directory", [True, False])
def test_each_job_is_what_its_row_says(trace: Path, with_directory: bool) -> None:
    """Rows may lack the working directory, and lines may be empty."""
    if not with_directory:
        trace.write_text("\n\n".join("\t".join((*row[:2], *row[3:])) for row in ROWS))
    workload = read(trace)
    cluster = workload.cluster
    assert (cluster.groups, cluster.resources, cluster.units) == (("v100",), ("gpu",), ("GPUs",))
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
    assert workload.notes == {gavel.TOO_LARGE: 1, gavel.DEADLINE: 1, OUT_OF_ORDER: 1}


def test_throughputs_and_servers_are_needed(trace: Path) -> None:
    fault = fault_of(read_gavel, trace, servers=3, cores=2)
    assert "give --machines FILE with Gavel's throughputs" in fault
    fault = fault_of(read_gavel, trace, machines=trace.parent / "throughputs.json")
    assert "names no servers; give --servers, and --cores" in fault


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
    trace.write_text("\t".join(ROWS[0][3:]))
    assert "row 1: has 7 columns separated by tabs, not 9 or 10" in fault_of(read, trace)


def test_throughputs_are_of_one_gpu_type(trace: Path) -> None:
    machines = trace.parent / "throughputs.json"
    machines.write_text(json.dumps({"k80": THROUGHPUTS["k80"]}))
    trace.write_text("\t".join(ROWS[0]))
    workload = read(trace)
    assert workload.cluster.groups == ("k80",)
    assert workload.task_duration.tolist() == [900]
    for rate, fault in (
        ({"alone": 1}, "the key 'null' is missing"),
        ({"null": -1}, "null: must be at least 0, not -1"),
        ({"null": 1e-300}, "row 1: 900 steps at 1e-300 steps/s are not a usable"),
    ):
        machines.write_text(json.dumps({"k80": {"('Net (batch size 16)', 1)": rate}}))
        assert fault in fault_of(read, trace)
    machines.write_text(json.dumps({"k80": {}, "a100": {}}))
    assert "has no GPU type 'v100' but k80, a100; keep one" in fault_of(read, trace)

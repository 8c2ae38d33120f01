"""``fairlead trace info``, ``generate`` and ``convert`` from the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_written_logs import MACHINES, log_row, write_log
from random_workloads import assert_equal, random_workload

from fairlead.cli.main import run
from fairlead.formats.problem_file import load
from fairlead.traces.generator import generate_day
from fairlead.traces.logs.google import read_job_arrivals
from fairlead.traces.logs.metacentrum import read_metacentrum
from fairlead.traces.parquet_trace import read_parquet, write_parquet

Capture = pytest.CaptureFixture[str]


def trace(*arguments: object) -> int:
    return run(["trace", *map(str, arguments)])


def figures(capsys: Capture, *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    assert trace(*arguments, "--json") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    found: dict[str, Any] = json.loads(printed.out)
    assert found["fairlead"] == 1
    return found


def refused(capsys: Capture, *arguments: object) -> str:
    capsys.readouterr()
    assert trace(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    return printed.err.removeprefix("fairlead: ").strip()


def test_info_of_a_small_log(tmp_path: Path, capsys: Capture) -> None:
    log = write_log(
        tmp_path,
        log_row(1, "1:ppn=4", cores=4, run=10),
        log_row(2, "2:ppn=2:cl_small", user=2, cores=4, run=30),
        log_row(11, "1:ppn=1:cl_small", user=2, cores=1, memory=2**36, run=0),
        log_row(12, "1:ppn=99", user=2, cores=99, run=20),
    )
    found = figures(capsys, "info", log)
    assert found["format"] == "MetaCentrum log"
    assert [group["count"] for group in found["groups"]] == [2, 3]
    assert found["groups"][1]["capacity"] == {"cpu": 12, "memory": 4}
    counts = ("servers", "servers_at_start", "users", "jobs", "tasks", "gangs", "withdrawn")
    assert [found[count] for count in counts] == [5, 5, 2, 3, 4, 1, 0]
    assert found["span"] == 11
    cpu = found["demand"]["cpu"]
    assert (cpu["unit"], cpu["largest_server"]) == ("cores", 80)
    assert cpu["quantiles"]["0"] == cpu["quantiles"]["50"] == 2 / 80
    assert cpu["quantiles"]["100"] == 99 / 80
    assert found["duration"]["50"] == 20
    assert found["tasks_per_job"]["100"] == 2
    assert found["constrained_tasks"] == 0.5
    assert found["too_large"] == {"tasks": 1, "jobs": ["12"]}
    total = 2 * 80 + 3 * 12
    assert found["load"]["cpu"] == pytest.approx((4 * 10 + 2 * 2 * 30 + 99 * 20) / total / 11)
    assert found["notes"] == {"jobs left out, as they never ran": 1}
    assert trace("info", log) == 0
    assert "2 users, 3 jobs, 4 tasks (1 gang) over 11 s" in capsys.readouterr().out


def test_info_of_servers_that_come_and_go(tmp_path: Path, capsys: Capture) -> None:
    workload = random_workload(8)
    assert len(workload.server)
    write_parquet(workload, tmp_path / "x.parquet")
    found = figures(capsys, "info", tmp_path / "x.parquet")
    assert found["first_submission"] == workload.job_submit[0]
    assert found["servers_at_start"] == workload.there_at_start.sum()
    assert sum(found["server_events"].values()) == len(workload.server)
    assert found["withdrawn"] == np.isfinite(workload.job_cancel).sum()
    workload = random_workload(3)
    for late in (0.01, 3600.0):
        times = {"job_submit": late, "job_cancel": np.inf}
        changed = {name: np.full(workload.n_jobs, time) for name, time in times.items()}
        write_parquet(replace(workload, **changed), tmp_path / "late")
        assert trace("info", tmp_path / "late") == 0
        assert ("The first job arrives after " in capsys.readouterr().out) == (late > 1)


def test_convert_there_and_again(tmp_path: Path, metacentrum_log: Path) -> None:
    parquet, again = tmp_path / "a.parquet", tmp_path / "b.parquet"
    assert trace("convert", metacentrum_log, "-o", parquet) == 0
    assert trace("convert", parquet, "-o", again) == 0
    assert again.read_bytes() == parquet.read_bytes()
    assert_equal(read_parquet(parquet), read_metacentrum(metacentrum_log))


def test_generate_is_the_library(tmp_path: Path, capsys: Capture) -> None:
    output = tmp_path / "day.parquet"
    options = ("--servers", 60, "--users", 20, "--hours", 2, "--load", 0.5, "--seed", 9)
    assert trace("generate", "-o", output, *options) == 0
    assert f"wrote {output}" in capsys.readouterr().out
    expected = generate_day(60, users=20, hours=2.0, load=0.5, seed=9)
    assert_equal(read_parquet(output), expected)


def test_generate_from_job_events(tmp_path: Path, capsys: Capture, job_events: Path) -> None:
    part = job_events / "part-00001-of-00500.csv.gz"
    output = tmp_path / "day.parquet"
    assert trace("generate", "-o", output, "--servers", 50, "--job-events", part) == 0
    expected = generate_day(50, arrivals=read_job_arrivals([part]))
    assert_equal(read_parquet(output), expected)
    capsys.readouterr()
    line = refused(capsys, "generate", "-o", output, "--job-events", part, "--users", 5)
    assert line == "--users: is fixed by --job-events"
    empty = tmp_path / "empty"
    empty.mkdir()
    line = refused(capsys, "generate", "-o", output, "--job-events", empty)
    assert line.startswith(f"{empty}: holds no part-00000-of-00500.csv.gz")


ROWS = (
    log_row(1, "1:ppn=4:cl_big", user=3, cores=4),
    log_row(2, user=20),
    log_row(3, user=3, run=0, walltime=0),
)


def test_a_log_becomes_a_problem_file(tmp_path: Path, capsys: Capture) -> None:
    log, output = write_log(tmp_path, *ROWS), tmp_path / "out.yaml"
    assert figures(capsys, "convert", log, "-o", output) == {
        "fairlead": 1, "output": str(output), "users": 2, "groups": {"big": 2, "small": 3},
        "servers": 5, "jobs": 2, "dropped": 1, "restricted": {"user-3": ["big"]},
        "larger_than_a_server": {},
    }  # fmt: skip
    problem = load(output)
    assert problem.users.names == ("user-3", "user-20")
    assert problem.users.eligible.tolist() == [[True, False], [True, True]]
    assert trace("convert", log, "-o", "-") == 0
    printed = capsys.readouterr()
    assert printed.out == output.read_text()
    assert printed.err.startswith("2 users, 5 servers (2 big, 3 small)\n")
    line = refused(capsys, "convert", log, "-o", "-", "--json")
    assert "-o -: standard output cannot take both" in line


def test_the_machine_file_of_a_log_may_be_named(tmp_path: Path, capsys: Capture) -> None:
    log, output = write_log(tmp_path, *ROWS), tmp_path / "out.yaml"
    named = (tmp_path / "tiny.swf.machines").rename(tmp_path / "park.yaml")
    line = refused(capsys, "convert", log, "-o", output)
    assert "there is no such machine file; name one with --machines" in line
    line = refused(capsys, "convert", log, "-o", output, "--machines", tmp_path / "absent")
    assert line == f"{tmp_path / 'absent'}: there is no such file"
    line = refused(capsys, "convert", log, "-o", named, "--machines", named)
    assert line.startswith(f"{named}: is the input")
    assert not output.exists()
    assert trace("convert", log, "-o", output, "--machines", named) == 0
    assert named.read_text() == MACHINES


def test_unusable_outputs(tmp_path: Path, capsys: Capture) -> None:
    log, own = write_log(tmp_path, log_row(1)), tmp_path / "own.parquet"
    write_parquet(random_workload(1), own)
    absent = tmp_path / "absent" / "x.parquet"
    problem = "a problem file is made of a MetaCentrum log or a Kubernetes dump, and this"
    for words, fault in (
        (("convert", log, "-o", absent), f"there is no folder '{absent.parent}'"),
        (("generate", "-o", absent), f"there is no folder '{absent.parent}'"),
        (("generate", "-o", tmp_path / "x.yaml"), "a trace is written as OUT.parquet"),
        (("convert", own, "-o", own), f"{own}: is the input itself"),
        (("convert", own, "-o", "-"), problem),
        (("convert", log, "-o", "x.yaml", "--servers", 3), "is for traces, not for a problem file"),
        (("convert", log, "-o", "x.PARQUET"), "as OUT.parquet; a problem file as OUT.yaml"),
    ):
        assert fault in refused(capsys, *words)


def test_unusable_input_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    log, output = write_log(tmp_path, log_row(2), log_row(1)), tmp_path / "out.parquet"
    line = refused(capsys, "convert", log, "-o", output)
    assert line.startswith(f"{log}: row 2: column 2 (submit): 1001 is before the row above")
    assert refused(capsys, "info", log) == line
    assert refused(capsys, "generate", "-o", output, "--servers", 0).startswith("servers: must be")
    assert not output.exists()

"""``fairlead trace convert`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hand_written_logs import MACHINES, log_row, write_log

from fairlead.cli.main import run
from fairlead.formats.problem_file import load

ROWS = (
    log_row(1, "1:ppn=4:cl_big", user=3, cores=4),
    log_row(2, user=20),
    log_row(3, user=3, run=0, walltime=0),
)


def convert(*arguments: object) -> int:
    return run(["trace", "convert", *map(str, arguments)])


def test_writes_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.yaml"
    assert convert(write_log(tmp_path, *ROWS), "-o", output, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "fairlead": 1,
        "output": str(output),
        "users": 2,
        "groups": {"big": 2, "small": 3},
        "servers": 5,
        "jobs": 2,
        "dropped": 1,
        "restricted": {"user-3": ["big"]},
        "larger_than_a_server": {},
        "indifferent_properties": {},
    }
    problem = load(output)
    assert problem.users.names == ("user-3", "user-20")
    assert problem.users.eligible.tolist() == [[True, False], [True, True]]


def test_standard_output_holds_the_problem_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, output = write_log(tmp_path, *ROWS), tmp_path / "out.yaml"
    assert convert(log, "-o", output) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == [
        "2 users, 5 servers (2 big, 3 small)",
        "2 jobs; left out, as they never ran: 1",
        "users with a placement constraint: 1",
        "  user-3: big",
        f"wrote {output}",
    ]
    assert convert(log, "-o", "-") == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err.splitlines()) == (output.read_text(), told[:-1])
    assert convert(log, "-o", "-", "--json") == 2
    assert "-o -: standard output cannot take both" in capsys.readouterr().err


def test_machine_file_by_name(tmp_path: Path) -> None:
    log = write_log(tmp_path, *ROWS)
    elsewhere = (tmp_path / "tiny.swf.machines").rename(tmp_path / "park")
    assert convert(log, "--machines", elsewhere, "-o", tmp_path / "out.yaml") == 0


def test_faults_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path, *ROWS)
    named = (tmp_path / "tiny.swf.machines").rename(tmp_path / "park.yaml")
    absent = tmp_path / "absent"
    for output, words, fault in (
        ("out.yaml", ["--machines", absent], f"{absent}: there is no such file"),
        (named, ["--machines", named], f"{named}: is the input"),
        ("out.yaml", [], "there is no such machine file; name one with --machines"),
    ):
        assert convert(log, "-o", tmp_path / output, *words) == 2
        printed = capsys.readouterr()
        assert (printed.out, printed.err.count("\n")) == ("", 1)
        assert fault in printed.err
    assert not (tmp_path / "out.yaml").exists()
    assert named.read_text() == MACHINES

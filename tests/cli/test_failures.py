"""Every failure, also of the system, is one line on standard error and the documented status."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.cli import log_options
from fairlead.cli.main import run
from fairlead.errors import CertificateError, RefusalError
from fairlead.mechanisms import catalogue, comparison
from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from small_problems import ROOT, SMALL, only_line

COMMAND = f"{sys.executable} -m fairlead.cli.main"


def typed(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line in a shell."""
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)


def test_an_unproved_answer_is_exit_1_and_not_shown(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    solve = catalogue.solve

    def unproved_tsf(problem: Problem, name: str) -> Allocation:
        if name == "tsf":
            raise CertificateError(f"{name}: the answer misses its condition\nby far")
        return solve(problem, name)

    monkeypatch.setattr(catalogue, "solve", unproved_tsf)
    monkeypatch.setattr(comparison, "solve", unproved_tsf)
    fault = "fairlead: tsf: the answer misses its condition by far\n"
    for verb in ("allocate", "compare"):
        assert run([verb, str(small), "-m", "tsf"]) == 1
        assert only_line(capsys) == fault
    assert run(["compare", str(small), "-m", "tsf", "-m", "drfh", "--json"]) == 1
    out, err = capsys.readouterr()
    assert list(json.loads(out)["mechanisms"]) == ["drfh"]
    assert err == fault


def test_a_problem_that_every_mechanism_refuses_is_exit_2(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_problem: object, name: str) -> None:
        raise RefusalError(name, "not this")

    monkeypatch.setattr(comparison, "solve", refuse)
    assert run(["compare", str(small)]) == 2
    assert "no mechanism accepts this problem (drf: not this;" in only_line(capsys)


def test_an_encoding_without_marks_gets_escapes(small: Path) -> None:
    done = typed(f"PYTHONIOENCODING=ascii {COMMAND} audit {small} -m drfh --lies 1")
    assert done.returncode in (0, 1)
    assert re.search(r"^\\u2713  feasibility", done.stdout, re.MULTILINE)
    assert done.stderr == ""


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    rows = "\n".join(f"  - {{name: user-{n}, demand: {{cpu: 1}}}}" for n in range(1000))
    path = tmp_path / "many.yaml"
    path.write_text(f"fairlead: 1\nservers: [{{name: s, capacity: {{cpu: 9}}}}]\nusers:\n{rows}\n")
    line = f"({COMMAND} allocate {path} -m drfh; echo $? >&2) | true"
    done = typed(line)
    assert done.stderr == "141\n"


def test_a_full_disk_takes_no_figures_away(
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["fill", str(small), "--select", "first-fit"]
    assert run(words) == 0
    expected = capsys.readouterr().out

    def full(_draft: Path, _target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    assert run([*words, "--report", str(tmp_path / "x.html")]) == 2
    out, err = capsys.readouterr()
    assert out == expected
    assert err.endswith("cannot be written: no space left on device\n")


LOGS = ROOT / "examples" / "logs"
# The system refuses so long a name for every account; a folder of mode 000 would not stop root.
TOO_LONG = "x" * 300
NAME = f"{TOO_LONG}.html"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a problem and a log."""
    (tmp_path / "cluster.yaml").write_text(SMALL)
    (tmp_path / "LOG").symlink_to(LOGS / "lab.swf")
    for suffix in ("gz", "machines"):
        (tmp_path / f"LOG.{suffix}").symlink_to(LOGS / f"metacentrum.swf.{suffix}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["allocate", "cluster.yaml", "--report", NAME],
        ["fill", "cluster.yaml", "--report", TOO_LONG],
        ["audit", "cluster.yaml", "--save-witness", TOO_LONG],
        ["simulate", "LOG", "-p", "drf/best-fit", "--runs", TOO_LONG],
        ["trace", "info", "LOG.gz", "--machines", TOO_LONG],
        ["trace", "generate", "-o", "x.parquet", "--job-events", TOO_LONG],
        ["trace", "convert", "LOG", "-o", f"{TOO_LONG}.yaml"],
        ["token", "add", "ana", "--db", TOO_LONG],
        ["serve", "--port", "0", "--socket", "s", "--db", TOO_LONG],
        ["submit", "--file", TOO_LONG],
        pytest.param(
            ["worker", "--cpu", "1", "--memory", "1", "--gpu", "0", "--state", TOO_LONG],
            marks=pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux"),
        ),
    ],
    ids=" ".join,
)
def test_a_name_that_the_system_refuses_is_one_line(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.iterdir())
    assert run(words) == 2
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith("fairlead: ")
    assert TOO_LONG in err
    assert "Traceback" not in err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (PermissionError(13, "Permission denied", "a/b"), "a/b: permission denied"),
        (OSError(24, "Too many open files"), "too many open files"),
        (MemoryError("Unable to allocate 9 TiB"), "not enough memory: Unable to allocate 9 TiB"),
        (OverflowError("of a port"), "a number is too large: of a port"),
    ],
)
def test_a_failure_of_the_system_ends_the_command(
    fault: Exception,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(log_options.LogOptions, "read", fail)
    assert run(["trace", "info", "LOG"]) == 2
    assert capsys.readouterr().err == f"fairlead: {said}\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--version >&-", "fairlead: standard output: cannot be written: "),
        ("--help >/dev/full", "fairlead: standard output: cannot be written: "),
        ("trace convert LOG.gz -o - >/dev/full", "fairlead: standard output: cannot be written: "),
        ("allocate - <&-", "fairlead: standard input: is empty"),
        ("allocate missing 2>&-", ""),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_stream_that_is_closed_or_full(line: str, says: str) -> None:
    done = typed(f"{COMMAND} {line}")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(says)
    assert done.stderr.count("\n") == bool(says)


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def find(name: str, *more: str) -> object:
        return None if name == "ray" else found(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    monkeypatch.delitem(sys.modules, "fairlead.executors.ray_tasks", raising=False)


@pytest.mark.usefixtures("without_ray")
def test_missing_packages_of_ray_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--random", "2", "--ray"]) == 2
    line = only_line(capsys)
    assert line.startswith("fairlead: --ray: ray is not installed: ")
    assert "'.[ray]'" in line


def test_a_report_is_written_where_standard_output_is_closed(folder: Path) -> None:
    line = f"{COMMAND} allocate cluster.yaml --report x.html 2>err >&-"
    assert typed(line).returncode == 2
    assert (folder / "x.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.usefixtures("folder")
def test_a_working_directory_that_is_gone() -> None:
    line = f"mkdir gone; cd gone; rmdir ../gone; {COMMAND} submit --user ana -- true"
    done = typed(line)
    assert done.returncode == 2
    assert done.stderr == "fairlead: the working directory: no such file or directory\n"

"""Refusals of the system are one line with the file's name, and exit status 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_problems import ROOT, SMALL

from fairlead.cli import log_options
from fairlead.cli.main import run

LOGS = ROOT / "examples" / "logs"
# The system refuses so long a name for every account; a folder of mode 000 would not stop root.
TOO_LONG = "x" * 300
NAME = f"{TOO_LONG}.html"
HUGE = str(10**20)


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


COMMAND = f"{sys.executable} -m fairlead.cli.main"


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
    done = subprocess.run(
        ["sh", "-c", f"{COMMAND} {line}"], stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(says)
    assert done.stderr.count("\n") == bool(says)


def test_a_report_is_written_where_standard_output_is_closed(folder: Path) -> None:
    line = f"{COMMAND} allocate cluster.yaml --report x.html 2>err >&-"
    assert subprocess.run(["sh", "-c", line], check=False).returncode == 2
    assert (folder / "x.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.usefixtures("folder")
def test_a_working_directory_that_is_gone() -> None:
    line = f"mkdir gone; cd gone; rmdir ../gone; {COMMAND} submit --user ana -- true"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "fairlead: the working directory: no such file or directory\n"


@pytest.mark.usefixtures("folder")
def test_a_worker_ends_in_one_line() -> None:
    words = ["--state", TOO_LONG, "--cpu", "1", "--memory", "1", "--gpu", "0"]
    done = subprocess.run(
        [*COMMAND.split(), "worker", *words], stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("fairlead: ")

"""The benchmark beside other systems fills its table, and leaves no process behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers.py"
PATIENCE = 120.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the account of a root worker's tasks can enter, unlike pytest's."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def environment(folder: Path) -> dict[str, str]:
    """Where only the programs of tasks are on the path, and all files are in the folder."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("true", "sh", "date"):
        (programs / name).symlink_to(shutil.which(name) or name)
    return {**os.environ, "PATH": str(programs), "TMPDIR": str(folder)}


def started(folder: Path) -> list[psutil.Process]:
    """Return the processes with a word of their command below a folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or ())
    ]


def begin(environment: dict[str, str], *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PEERS), "--rounds", "1", "--repeats", "1", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_each_row_has_figures_of_fairlead(folder: Path, environment: dict[str, str]) -> None:
    out, err = begin(environment, "--tasks", "20", "--json").communicate(timeout=PATIENCE)
    assert "Slurm is left out: " in err
    rows = [json.loads(line)["fairlead"] for line in out.splitlines()]
    assert [len(row) for row in rows] == [2, 2, 1, 1, 2, 1, 1, 2]
    assert all(figure > 0 for row in rows for figure in row)
    assert started(folder) == []


def test_a_stopped_run_leaves_no_process(folder: Path, environment: dict[str, str]) -> None:
    process = begin(environment, "--tasks", "100000")
    latest = time.monotonic() + PATIENCE
    while not started(folder):
        assert time.monotonic() < latest, "took too long"
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert started(folder) == []

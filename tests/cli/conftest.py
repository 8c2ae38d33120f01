from __future__ import annotations

import subprocess
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from fairlead.cli.main import run
from small_problems import CONSTRAINED, SMALL


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Wang et al., Fig. 1: two unlike servers and two unlike users."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def constrained(tmp_path: Path) -> Path:
    """The problem of `small` with a placement constraint, which drf and cdrf do not accept."""
    path = tmp_path / "constrained.yaml"
    path.write_text(CONSTRAINED)
    return path


@pytest.fixture
def small_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the problem of `small` on standard input."""
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(SMALL.encode())))


Process = subprocess.CompletedProcess[str]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Process]:
    """Return a function that runs the command in the process of the tests."""

    def run_here(*arguments: str) -> Process:
        status = run(list(arguments))
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(list(arguments), status, out, err)

    return run_here

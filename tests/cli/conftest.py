from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from small_problems import CONSTRAINED, SMALL

from fairlead.cli.main import run


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Wang et al., Fig. 1: two unlike servers and two unlike users."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def constrained(tmp_path: Path) -> Path:
    """The same with a placement constraint, which drf and cdrf do not admit."""
    path = tmp_path / "constrained.yaml"
    path.write_text(CONSTRAINED)
    return path


@pytest.fixture
def small_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same problem on standard input."""
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(SMALL.encode())))


Process = subprocess.CompletedProcess[str]


@pytest.fixture
def process() -> Callable[..., Process]:
    """Run the command as a process of its own."""

    def done(*arguments: str, text: str | None = None, **environment: str) -> Process:
        return subprocess.run(
            [sys.executable, "-m", "fairlead.cli.main", *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, **environment},
        )

    return done


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Process]:
    """Run the command in the process of the tests."""

    def done(*arguments: str) -> Process:
        status = run(list(arguments))
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(list(arguments), status, out, err)

    return done

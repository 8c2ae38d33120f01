"""Every failure is one line on standard error and the documented exit status."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_problems import only_line

from fairlead.cli.main import run
from fairlead.errors import CertificateError, RefusalError
from fairlead.mechanisms import catalogue, comparison

Process = subprocess.CompletedProcess[str]


def fail_proof(_problem: object, name: str) -> None:
    raise CertificateError(f"{name}: the answer misses its condition\nby far")


def test_an_unproved_answer_is_exit_1_and_not_shown(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalogue, "solve", fail_proof)
    monkeypatch.setattr(comparison, "solve", fail_proof)
    for verb in ("allocate", "compare"):
        assert run([verb, str(small), "-m", "drfh"]) == 1
        assert "drfh: the answer misses its condition by far" in only_line(capsys)


def test_one_unproved_answer_of_several_is_exit_1(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    solve = catalogue.solve
    monkeypatch.setattr(
        comparison,
        "solve",
        lambda problem, name: (fail_proof if name == "tsf" else solve)(problem, name),
    )
    assert run(["compare", str(small), "-m", "tsf", "-m", "drfh", "--json"]) == 1
    out, err = capsys.readouterr()
    assert '"drfh"' in out
    assert err == "fairlead: tsf: the answer misses its condition by far\n"


def test_a_problem_that_every_mechanism_refuses_is_exit_2(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_problem: object, name: str) -> None:
        raise RefusalError(name, "not this")

    monkeypatch.setattr(comparison, "solve", refuse)
    assert run(["compare", str(small)]) == 2
    assert "no mechanism accepts this problem (drf: not this;" in only_line(capsys)


def test_an_encoding_without_marks_gets_escapes(
    small: Path, process: Callable[..., Process]
) -> None:
    done = process("audit", str(small), "-m", "drfh", "--lies", "1", PYTHONIOENCODING="ascii")
    assert done.returncode in (0, 1)
    assert re.search(r"^\\u2713  feasibility", done.stdout, re.MULTILINE)
    assert done.stderr == ""


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    rows = "\n".join(f"  - {{name: user-{n}, demand: {{cpu: 1}}}}" for n in range(1000))
    path = tmp_path / "many.yaml"
    path.write_text(f"fairlead: 1\nservers: [{{name: s, capacity: {{cpu: 9}}}}]\nusers:\n{rows}\n")
    command = [sys.executable, "-m", "fairlead.cli.main", "allocate", str(path), "-m", "drfh"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(timeout=300) == 141
    assert errors == ""


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

"""The command ``fairlead explain`` on a trace."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.main import run
from fairlead.traces.parquet_trace import write_parquet
from small_problems import ROOT, workload

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "day.parquet"
    write_parquet(workload(), path)
    return path


def test_the_answer_in_the_docs_is_that_of_the_program(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "explaining.md").read_text(encoding="utf-8")
    command = re.search(r"^    fairlead (explain .*)$", page, re.MULTILINE)
    shown = re.search(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert run(command[1].split()) == 0
    assert capsys.readouterr().out == shown[1]


WIDE = """; MaxProcs: 4
1 0 -1 100 3 -1 -1 3 {limit} -1 1 1 1 -1 1 -1 -1 -1
2 1 -1 100 4 -1 -1 4 500 -1 1 2 1 -1 1 -1 -1 -1
3 2 -1 300 1 -1 -1 1 900 -1 1 3 1 -1 1 -1 -1 -1
"""


def test_easy_says_whom_a_job_might_delay(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "wide.swf"
    path.write_text(WIDE.format(limit=200))
    for options, at in (([], 200.0), (["--perfect-estimates"], 100.0)):
        words = ["explain", str(path), "3", "-p", "easy/first-fit", "--at", "50", "--json"]
        assert run([*words, *options]) == 0
        reservation = json.loads(capsys.readouterr().out)["reservation"]
        assert (reservation["user"], reservation["group"], reservation["at"]) == ("user-2", "2", at)


def test_easy_goes_by_what_users_said_or_by_what_is_so(
    tmp_path: Path, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "wide.swf"
    waits = []
    for limit, options in ((1000, []), (1000, ["--perfect-estimates"]), (-1, [])):
        path.write_text(WIDE.format(limit=limit))
        command = ["simulate", str(path), "-p", "easy/first-fit", "--json", "--processes", "1"]
        assert run([*command, *options]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["perfect_estimates"] == bool(options)
        waits.append(found["policies"]["easy/first-fit"]["mean_wait"])
        assert ("of 3 jobs, 1 without a time limit" in caplog.text) == (limit < 0)
    assert waits[0] == waits[2] != waits[1]


def test_simulate_explains_who_waited_longest(trace: Path, capsys: Capture) -> None:
    arguments: list[Any] = ["simulate", str(trace), "-p", "drf/best-fit", "-p", "fifo/first-fit"]
    assert run([*arguments, "--dedicated", "--explain", "bo", "--processes", "1", "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)["explained"]
    assert explained["user"] == "bo"
    # Without the run on dedicated servers.
    assert list(explained["policies"]) == ["drf/best-fit", "fifo/first-fit"]
    assert explained["policies"]["drf/best-fit"]["state"] == "pending"
    assert run([*arguments[:4], "--explain", "bo"]) == 0
    assert " of bo under drf/best-fit, at " in capsys.readouterr().out

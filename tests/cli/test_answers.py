"""The output of verbs that succeed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from small_problems import SMALL, answer_of

from fairlead.cli.main import run
from fairlead.mechanisms.catalogue import CATALOGUE

UNPLACEABLE = SMALL.replace("GB}", "GB, gpu: cards}") + "  - {name: cy, demand: {gpu: 1}}\n"


def test_compare_shows_what_was_asked_for_once_or_all_admitted(
    small: Path, constrained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", str(small), "-m", "tsf", "-m", "drfh", "-m", "tsf"]
    answer = answer_of(arguments, capsys)
    assert list(answer["mechanisms"]) == ["tsf", "drfh"]
    assert answer["refused"] == {}
    answer = answer_of(["compare", str(constrained)], capsys)
    assert set(answer["refused"]) == {"drf", "cdrf"}
    assert {"drfh", "tsf", "ps-dsf", "max-tasks"} < set(answer["mechanisms"])


def test_users_without_a_place_are_left_out_only_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "unplaceable.yaml"
    path.write_text(UNPLACEABLE)
    words = ["allocate", str(path), "-m", "drfh", "--json"]
    assert run(words) == 2
    assert "'cy'" in capsys.readouterr().err
    assert run([*words, "--skip-unplaceable"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert [user["name"] for user in answer["users"]] == ["ana", "bo"]
    (left_out,) = answer["left_out"]
    assert "cy" in left_out
    assert err == f"fairlead: left out: {left_out}\n"


def test_standard_input_and_a_report(
    process: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    done = process("allocate", "-", "-m", "drfh", "--json", "--report", str(report), text=SMALL)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["users"][0]["name"] == "ana"
    assert "standard input" in report.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.usefixtures("small_typed")
@pytest.mark.parametrize("verb", ["audit", "fill", "dynamic"])
def test_verbs_read_standard_input(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer_of([verb, "-"], capsys)["fairlead"] == 1


def test_mechanisms_lists_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    listed = answer_of(["mechanisms"], capsys)["mechanisms"]
    assert list(listed) == list(CATALOGUE)
    keys = {"summary", "paper", "proved", "proved_without", "refuted", "accepts", "whole_tasks"}
    assert all(set(row) == keys for row in listed.values())
    assert run(["mechanisms"]) == 0
    names = [line.split(":")[0] for line in capsys.readouterr().out.splitlines() if line[:1] != " "]
    assert set(CATALOGUE) <= set(names)

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


def test_allocate_json_has_the_documented_layout(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = answer_of(["allocate", str(small), "-m", "drfh"], capsys)
    assert answer["fairlead"] == 1
    assert answer["mechanism"] == "drfh"
    assert [set(user) for user in answer["users"]] == [
        {"name", "weight", "tasks", "servers", "dominant_resource", "dominant_share"}
    ] * 2
    ana, bo = answer["users"]
    assert ana["tasks"] == pytest.approx(10)
    assert bo["servers"]["high-cpu"] == pytest.approx(10)
    assert set(answer["utilization"]) == {"cpu", "memory"}
    assert set(answer["certificate"]) >= {"condition", "violation", "holds"}
    assert answer["certificate"]["holds"] is True


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
    assert run(["allocate", str(path), "-m", "drfh", "--json"]) == 2
    assert "'cy'" in capsys.readouterr().err
    arguments = ["allocate", str(path), "-m", "drfh", "--json", "--skip-unplaceable"]
    assert run(arguments) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert [user["name"] for user in answer["users"]] == ["ana", "bo"]
    assert len(answer["left_out"]) == 1
    assert "cy" in answer["left_out"][0]
    assert err.startswith("fairlead: left out: ")
    assert "cy" in err


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
@pytest.mark.parametrize("verb", ["audit", "fill", "dynamic", "converge"])
def test_verbs_read_standard_input(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer_of([verb, "-"], capsys)["fairlead"] == 1


def test_mechanisms_lists_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    listed = answer_of(["mechanisms"], capsys)["mechanisms"]
    assert list(listed) == list(CATALOGUE)
    assert all(
        set(row)
        == {"summary", "paper", "proved", "proved_without", "refuted", "accepts", "whole_tasks"}
        for row in listed.values()
    )
    assert run(["mechanisms"]) == 0
    out, _ = capsys.readouterr()
    for name, row in CATALOGUE.items():
        assert any(line.split()[:1] == [f"{name}:"] for line in out.splitlines())
        assert row.summary.split()[0] in out

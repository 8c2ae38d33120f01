"""The answers of allocate, compare, mechanisms, fill and dynamic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fairlead
from fairlead.cli import mechanisms as module
from fairlead.cli.main import run
from fairlead.formats.problem_file import load
from fairlead.mechanisms.catalogue import CATALOGUE
from fairlead.mechanisms.dynamic_run import run_dynamic
from small_problems import SMALL, answer_of, only_line

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


@pytest.mark.usefixtures("small_typed")
@pytest.mark.parametrize("verb", ["allocate", "audit", "fill", "dynamic"])
def test_verbs_read_standard_input(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.html"
    words = [] if verb == "dynamic" else ["--report", str(report)]
    assert answer_of([verb, "-", *words], capsys)["fairlead"] == 1
    assert not words or "standard input" in report.read_text(encoding="utf-8")
    assert len(list(tmp_path.iterdir())) == bool(words)


def test_mechanisms_lists_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    listed = answer_of(["mechanisms"], capsys)["mechanisms"]
    assert list(listed) == list(CATALOGUE)
    keys = {"summary", "paper", "proved", "proved_without", "refuted", "accepts", "whole_tasks"}
    assert all(set(row) == keys for row in listed.values())
    assert run(["mechanisms"]) == 0
    names = [line.split(":")[0] for line in capsys.readouterr().out.splitlines() if line[:1] != " "]
    assert set(CATALOGUE) <= set(names)


def test_one_trial_is_what_python_gives(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--criterion", "ps-dsf", "--select", "rrr", "--residual", "--seed", "7"]
    answer = answer_of(["fill", str(small), *words], capsys)
    filled = fairlead.fill(
        fairlead.load(small), criterion="ps-dsf", select="rrr", residual=True, seed=7
    )
    assert answer["mechanism"] == "ps-dsf/rrr/residual"
    assert (answer["trials"], answer["seed"], answer["random"]) == (1, 7, True)
    assert [user["tasks"] for user in answer["users"]] == filled.user_tasks.tolist()


ARRIVALS = """\
fairlead: 1
resources: [cpu, memory]
servers:
  - {name: s, count: 3, capacity: {cpu: 10, memory: 20}}
users:
  - {name: ana, demand: {cpu: 1, memory: 1}}
  - {name: bo, demand: {cpu: 1, memory: 4}}
  - {name: cy, demand: {cpu: 1, memory: 2}}
"""


@pytest.fixture
def arrivals(tmp_path: Path) -> Path:
    """Write the problem that tests/mechanisms/test_dynamic_drf.py solves by hand, with servers."""
    path = tmp_path / "arrivals.yaml"
    path.write_text(ARRIVALS)
    return path


def test_the_json_says_every_step(arrivals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["dynamic", str(arrivals), "--solver", "lp", "--lies", "20", "--seed", "3"]
    answer = answer_of(words, capsys)
    assert {p["name"]: p["verdict"] for p in answer.pop("properties")} == {
        "sharing-incentive": "holds",
        "dynamic-envy-freeness": "holds",
        "dynamic-pareto-optimality": "holds",
        "strategy-proofness": "unknown",
    }
    assert answer == run_dynamic(load(arrivals), "lp").to_dict()


def test_json_of_too_many_steps_is_refused(
    arrivals: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_STEPS_IN_JSON", 2)
    assert run(["dynamic", str(arrivals), "--json"]) == 2
    line = only_line(capsys)
    assert "--json: the shares of 3 users after each of 3 arrivals" in line
    assert "--last" in line
    (last,) = answer_of(["dynamic", str(arrivals), "--last"], capsys)["steps"]
    assert (last["step"], last["arrived"]) == (3, "cy")

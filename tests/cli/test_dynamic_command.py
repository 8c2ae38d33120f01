"""The command ``fairlead dynamic``."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_problems import answer_of, only_line

from fairlead.cli import mechanisms as module
from fairlead.cli.main import run
from fairlead.formats.problem_file import load
from fairlead.mechanisms.dynamic_run import run_dynamic

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
    answer = answer_of(["dynamic", str(arrivals), "--solver", "lp"], capsys)
    assert {p["name"]: p["verdict"] for p in answer.pop("properties")} == {
        "sharing-incentive": "holds",
        "dynamic-envy-freeness": "holds",
        "dynamic-pareto-optimality": "holds",
    }
    assert answer == run_dynamic(load(arrivals), "lp").to_dict()


def test_lies_are_searched_on_request(arrivals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = answer_of(["dynamic", str(arrivals), "--lies", "20", "--seed", "3"], capsys)
    assert answer["properties"][-1] == {
        "name": "strategy-proofness",
        "verdict": "unknown",
        "witness": {},
        "searched": 20,
    }


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

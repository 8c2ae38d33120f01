"""A user with several kinds of tasks has a row for their sum; numbers are computed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.main import run

Capture = pytest.CaptureFixture[str]

# Of 40 cores and 4 GPUs: two nodes of 16 cores, and one of 8 with the GPUs.
PROBLEM = """\
fairlead: 1
resources: {cpu: cores, gpu: null}
servers:
  - {name: m, count: 2, capacity: {cpu: 16}}
  - {name: g, capacity: {cpu: 8, gpu: 4}}
users:
  - {name: dee@m, demand: {cpu: 4}, servers: [m], tasks: TASKS}
  - {name: dee@g, demand: {cpu: 1, gpu: 1}, servers: [g], tasks: 2}
  - {name: bo, demand: {cpu: 1, gpu: 1}, servers: [g], tasks: 2}
"""
HELD = {
    "users": [
        {"name": "dee@m", "amounts": {"m": {"cpu": 24}}},
        {"name": "dee@g", "amounts": {"g": {"cpu": 2, "gpu": 2}}},
        {"name": "bo", "amounts": {"g": {"cpu": 2, "gpu": 2}}},
    ]
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("six.yaml").write_text(PROBLEM.replace("TASKS", "6"))
    Path("eight.yaml").write_text(PROBLEM.replace("TASKS", "8"))
    Path("held.json").write_text(json.dumps(HELD))


def row_of(name: str, text: str) -> str:
    """Return the only row of a text that begins with a name."""
    (row,) = [line for line in text.splitlines() if line.split()[:1] == [name]]
    return " ".join(row.split())


def test_allocate_and_compare_sum_the_kinds(capsys: Capture) -> None:
    """Both kinds run all tasks: 26 of 40 cores are 65 %, which exceeds 2 of 4 GPUs."""
    assert run(["allocate", "six.yaml"]) == 0
    assert row_of("dee", capsys.readouterr().out) == "dee 65.00 % (8 tasks)"
    assert run(["compare", "six.yaml", "-m", "drfh", "-m", "ps-dsf"]) == 0
    assert row_of("dee", capsys.readouterr().out) == "dee 65.00 % (8 tasks) 65.00 % (8 tasks)"


def test_without_kinds_nothing_is_summed(capsys: Capture) -> None:
    Path("six.yaml").write_text(PROBLEM.replace("TASKS", "6").replace("dee@", "dee-"))
    assert run(["allocate", "six.yaml"]) == 0
    assert "all kinds together" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "compared"), [("six.yaml", "65.00 % as due"), ("eight.yaml", "85.00 % −23.5 %")]
)
def test_audit_sums_the_kinds(file: str, compared: str, capsys: Capture) -> None:
    """Of 8 tasks of 4 cores all fit, so 34 of 40 cores are due, and 26 are held."""
    run(["audit", file, "--allocation", "held.json"])
    row = row_of("dee", capsys.readouterr().out)
    assert row.startswith("dee 8 65.00 % ")
    assert f" {compared}" in row
    assert row.endswith("cpu 26 cores, gpu 2")


@pytest.mark.parametrize(("file", "found"), [("six.yaml", "holds"), ("eight.yaml", "unknown")])
def test_waste_is_decided_where_nothing_waits(file: str, found: str, capsys: Capture) -> None:
    run(["audit", file, "--allocation", "held.json", "--json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    verdicts = {row["name"]: row["verdict"] for row in answer["properties"]}
    assert verdicts["non-wastefulness"] == found
    # Of the problem alone, which the file of the holdings does not change.
    assert verdicts["bottleneck-fairness"] == verdicts["single-resource-fairness"] == "holds"

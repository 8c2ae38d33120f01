"""A user with several kinds of tasks has a row for their sum; numbers are computed by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.cli.main import run

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


@pytest.fixture
def problem(tmp_path: Path) -> str:
    path = tmp_path / "p.yaml"
    path.write_text(PROBLEM.replace("TASKS", "6"))
    return str(path)


def row_of(name: str, text: str) -> str:
    """Return the only row of a text that begins with a name."""
    (row,) = [line for line in text.splitlines() if line.split()[:1] == [name]]
    return " ".join(row.split())


def test_allocate_sums_the_kinds(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Both kinds run all tasks: 26 of 40 cores are 65 %, which exceeds 2 of 4 GPUs."""
    assert run(["allocate", problem]) == 0
    out = capsys.readouterr().out
    assert row_of("dee", out) == "dee 65.00 % (8 tasks)"
    assert "The weight of such a kind is" in out


def test_compare_sums_the_kinds(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", problem, "-m", "drfh", "-m", "ps-dsf"]) == 0
    assert row_of("dee", capsys.readouterr().out) == "dee 65.00 % (8 tasks) 65.00 % (8 tasks)"


@pytest.mark.parametrize(("tasks", "due", "off"), [("6", "65.00 %", "as due"),
                                                   ("8", "85.00 %", "−23.5 %")])  # fmt: skip
def test_audit_sums_the_kinds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tasks: str, due: str, off: str
) -> None:
    """Of 8 tasks of 4 cores all fit, so 34 of 40 cores are due, and 26 are held."""
    problem, held = tmp_path / "p.yaml", tmp_path / "held.json"
    problem.write_text(PROBLEM.replace("TASKS", tasks))
    held.write_text(json.dumps(HELD))
    run(["audit", str(problem), "--allocation", str(held)])
    row = row_of("dee", capsys.readouterr().out)
    assert row.startswith("dee 8 65.00 % ")
    assert f" {due} {off}".replace("\u00a0", " ") in row.replace("\u00a0", " ")
    assert row.endswith("cpu 26 cores, gpu 2")


def test_without_kinds_nothing_is_summed(
    problem: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "q.yaml"
    path.write_text(Path(problem).read_text().replace("dee@", "dee-"))
    assert run(["allocate", str(path)]) == 0
    assert "all kinds together" not in capsys.readouterr().out


@pytest.mark.parametrize(("tasks", "found"), [("6", "holds"), ("8", "unknown")])
def test_waste_is_decided_where_nothing_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tasks: str, found: str
) -> None:
    problem, held = tmp_path / "p.yaml", tmp_path / "held.json"
    problem.write_text(PROBLEM.replace("TASKS", tasks))
    held.write_text(json.dumps(HELD))
    run(["audit", str(problem), "--allocation", str(held), "--json"])
    answer = json.loads(capsys.readouterr().out)
    verdicts = {row["name"]: row["verdict"] for row in answer["properties"]}
    assert verdicts["non-wastefulness"] == found
    # Of the problem alone, which the file of the holdings does not change.
    assert verdicts["bottleneck-fairness"] == verdicts["single-resource-fairness"] == "holds"


def test_one_line_says_why_several_are_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, held = tmp_path / "p.yaml", tmp_path / "held.json"
    problem.write_text(PROBLEM.replace("TASKS", "8"))
    held.write_text(json.dumps(HELD))
    run(["audit", str(problem), "--allocation", str(held)])
    lines = [line for line in capsys.readouterr().out.splitlines() if "no waiting tasks" in line]
    assert len(lines) == 1
    assert "non-wastefulness, pareto-optimality" in lines[0]

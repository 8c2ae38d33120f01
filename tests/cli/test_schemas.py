"""The published schemas of JSON answers: answers fit them, and damaged ones do not."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from small_problems import SMALL, answer_of

from fairlead.cli.main import run
from fairlead.traces.generator import generate_day
from fairlead.traces.parquet_trace import write_parquet

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
LOG = str(Path(__file__).parents[2] / "examples/logs/lab.swf")
ANSWERS = {
    "allocate": ["allocate", "small.yaml", "--what-if", "servers:high-cpu+2"],
    "compare": ["compare", "small.yaml"],
    "compare-two-files": ["compare", "small.yaml", "after.yaml"],
    "audit": ["audit", "small.yaml", "-m", "drfh", "--lies", "3", "--max-under", "50%"],
    "fill": ["fill", "small.yaml", "--select", "rrr", "--trials", "3"],
    "simulate": ["simulate", "day.parquet", "-p", "drf/best-fit"],
    "trace-audit": ["trace", "audit", LOG, "--max-owed", "99", "--max-wait", "9d"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    Path("after.yaml").write_text(SMALL.replace("ana, ", "ana, weight: 3, "))
    write_parquet(generate_day(servers=4, users=3, jobs=20, hours=2, seed=1), Path("day.parquet"))


def test_each_answer_has_a_schema() -> None:
    assert {path.stem for path in SCHEMAS.glob("*.json")} == set(ANSWERS)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_fits_its_schema_and_a_damaged_one_does_not(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    answer: dict[str, Any] = answer_of(ANSWERS[name], capsys, is_quiet=False)
    validator.validate(answer)
    for key in schema["required"]:
        damaged = copy.deepcopy(answer)
        del damaged[key]
        assert not validator.is_valid(damaged), key
        damaged[key] = "text" if not isinstance(answer[key], str) else 5
        assert not validator.is_valid(damaged), key


def test_a_gate_fails_when_a_user_is_too_far_below(capsys: pytest.CaptureFixture[str]) -> None:
    """ana holds 5 of her 10 fair tasks: 50 % below."""
    rows = [{"name": "ana", "servers": {"high-memory": 5}}]
    rows += [{"name": "bo", "servers": {"high-cpu": 10}}]
    Path("held.json").write_text(json.dumps({"users": rows}))
    words = ["audit", "small.yaml", "--allocation", "held.json", "-m", "drfh", "--max-under"]
    found = answer_of([*words, "49.9%"], capsys, status=1)["max_under"]
    assert (found["user"], found["holds"]) == ("ana", False)
    assert found["under"] == pytest.approx(0.5)
    assert answer_of([*words, "0.501"], capsys)["max_under"]["holds"]
    assert run([*words, "20%"]) == 1
    assert "ana is more than 20.00 % below its due share" in capsys.readouterr().out
    assert run([*words, "20%", "--format", "csv"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("max-under,fails,true,0,")


@pytest.mark.parametrize(
    ("n_users", "named"),
    [(2, "u1, u0"), (12, "u1, u0, u2, u3, u4, u5, u6, u7, u8, u9 and 2 more")],
)
def test_a_gate_names_all_users_that_are_below(
    n_users: int, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is due 10 of the cores; u1 holds 4, the others 5, and one more user the rest."""
    names = [*(f"u{n}" for n in range(n_users)), "zoe"]
    users = [{"name": name, "demand": {"cpu": 1}} for name in names]
    servers = [{"name": "a", "capacity": {"cpu": 10 * len(users)}}]
    Path("many.json").write_text(json.dumps({"fairlead": 1, "servers": servers, "users": users}))
    tasks = dict.fromkeys(names, 5.0) | {"u1": 4.0, "zoe": 10.0}
    rows = [{"name": name, "servers": {"a": held}} for name, held in tasks.items()]
    Path("held.json").write_text(json.dumps({"users": rows}))
    words = ["audit", "many.json", "--allocation", "held.json", "--max-under", "20%"]
    assert run(words) == 1
    shown = capsys.readouterr().out
    assert f"✗ {named} are more than 20.00 % below their due shares." in shown
    each = named.replace("u1", "u1 (60.00 %)", 1).replace("u0", "u0 (50.00 %)")
    assert f"{n_users} users are below by more: {each.split(', u2')[0]}" in shown
    beyond = answer_of(words, capsys, status=1)["max_under"]["beyond"]
    assert beyond == pytest.approx(dict.fromkeys(names[:-1], 0.5) | {"u1": 0.6})


def test_only_feasibility_is_checked_beside_a_gate(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer_of(["audit", "small.yaml", "-m", "drfh", "--max-under", "100%"], capsys)
    assert [row["name"] for row in found["properties"]] == ["feasibility"]


@pytest.mark.parametrize(
    ("held", "words", "finding", "user"),
    [
        ({"ana": {"a": 2}, "bo": {"a": 1}}, [], "holds", ""),  # less than a task below 2.5 and 1.25
        ({"ana": {"a": 1}, "bo": {"a": 1}}, [], "fails", "ana"),
        ({"ana": {"a": 2}, "bo": {"a": -1}}, ["--lenient"], "unknown", "bo"),
        ({"ana": {"a": -1}, "bo": {"a": 1}}, ["--lenient"], "unknown", "ana"),
    ],
)
def test_gates_of_whole_tasks_and_skipped_rows(
    held: dict[str, dict[str, float]],
    words: list[str],
    finding: str,
    user: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of 5 cores 2.5 tasks of one core are due to ana, and 1.25 of two cores to bo."""
    Path("five.yaml").write_text(
        "{fairlead: 1, resources: [cpu], servers: [{name: a, capacity: {cpu: 5}}],"
        " users: [{name: ana, demand: {cpu: 1}}, {name: bo, demand: {cpu: 2}}]}"
    )
    users = [{"name": name, "servers": servers} for name, servers in held.items()]
    Path("held.json").write_text(json.dumps({"users": users, "trials": 1}))  # of whole tasks
    words = ["audit", "five.yaml", "--allocation", "held.json", "--max-under", "20%", *words]
    status = 0 if finding == "holds" else 1
    gate = answer_of(words, capsys, status, is_quiet=False)["max_under"]
    assert (gate["finding"], gate["user"]) == (finding, user)
    assert list(gate["beyond"]) == ([user] if user else [])


def test_a_page_shows_the_differences_of_two_files() -> None:
    assert run(["compare", "small.yaml", "after.yaml", "--report", "out.html"]) == 0
    assert "ana: weight 1 to 3" in Path("out.html").read_text()

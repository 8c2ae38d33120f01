"""The published schemas of JSON answers, which damaged ones do not fit; gates of audits."""

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


def holdings(trials: int | None = None, **held: dict[str, float]) -> list[str]:
    """Write the tasks of each user on each server, and return the words of their audit."""
    rows = [{"name": name, "servers": servers} for name, servers in held.items()]
    whole = {} if trials is None else {"trials": trials}
    Path("held.json").write_text(json.dumps({"users": rows, **whole}))
    return ["--allocation", "held.json", "--max-under"]


def test_a_gate_fails_when_a_user_is_too_far_below(capsys: pytest.CaptureFixture[str]) -> None:
    """ana holds 5 of her 10 fair tasks: 50 % below."""
    words = ["audit", "small.yaml", "-m", "drfh"]
    words += holdings(ana={"high-memory": 5}, bo={"high-cpu": 10})
    found = answer_of([*words, "49.9%"], capsys, status=1)["max_under"]
    assert (found["user"], found["holds"]) == ("ana", False)
    assert found["under"] == pytest.approx(0.5)
    beside = answer_of([*words, "0.501"], capsys)
    assert beside["max_under"]["holds"]
    assert [row["name"] for row in beside["properties"]] == ["feasibility"]
    assert run([*words, "20%", "--format", "csv"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("max-under,fails,true,0,")


def test_a_gate_names_the_users_that_are_below(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is due 10 of the cores; u1 holds 4, the others 5, and one more user the rest."""
    names = [*(f"u{n}" for n in range(12)), "zoe"]
    users = [{"name": name, "demand": {"cpu": 1}} for name in names]
    servers = [{"name": "a", "capacity": {"cpu": 10 * len(users)}}]
    Path("many.json").write_text(json.dumps({"fairlead": 1, "servers": servers, "users": users}))
    tasks = dict.fromkeys(names, 5.0) | {"u1": 4.0, "zoe": 10.0}
    words = ["audit", "many.json", *holdings(**{n: {"a": held} for n, held in tasks.items()})]
    assert run([*words, "20%"]) == 1
    shown = capsys.readouterr().out
    below = "u1, u0, u2, u3, u4, u5, u6, u7, u8, u9 and 2 more"
    assert f"✗ {below} are more than 20.00 % below their due shares." in shown
    assert "12 users are below by more: u1 (60.00 %), u0 (50.00 %), u2" in shown
    beyond = answer_of([*words, "20%"], capsys, status=1)["max_under"]["beyond"]
    assert beyond == pytest.approx(dict.fromkeys(names[:-1], 0.5) | {"u1": 0.6})


@pytest.mark.parametrize(
    ("ana", "bo", "words", "finding", "user"),
    [
        (2, 1, [], "holds", ""),  # less than a task below 2.5 and 1.25
        (1, 1, [], "fails", "ana"),
        (2, -1, ["--lenient"], "unknown", "bo"),
        (-1, 1, ["--lenient"], "unknown", "ana"),
    ],
)
def test_gates_of_whole_tasks_and_skipped_rows(
    ana: int, bo: int, words: list[str], finding: str, user: str, capsys: Any
) -> None:
    """Of 5 cores 2.5 tasks of one core are due to ana, and 1.25 of two cores to bo."""
    Path("five.yaml").write_text(
        "{fairlead: 1, resources: [cpu], servers: [{name: a, capacity: {cpu: 5}}],"
        " users: [{name: ana, demand: {cpu: 1}}, {name: bo, demand: {cpu: 2}}]}"
    )
    held = holdings(trials=1, ana={"a": ana}, bo={"a": bo})
    status = 0 if finding == "holds" else 1
    gate = answer_of(["audit", "five.yaml", *held, "20%", *words], capsys, status, is_quiet=False)
    assert (gate["max_under"]["finding"], gate["max_under"]["user"]) == (finding, user)


def test_a_page_shows_the_differences_of_two_files() -> None:
    assert run(["compare", "small.yaml", "after.yaml", "--report", "out.html"]) == 0
    assert "ana: weight 1 to 3" in Path("out.html").read_text()

"""Forms of answers: JSON that fits its published schema, and tables for papers."""

from __future__ import annotations

import copy
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fairlead.cli.main import run
from fairlead.simulation.studies import MEASURES
from fairlead.traces.generator import generate_day
from fairlead.traces.parquet_trace import write_parquet
from small_problems import ROOT, SMALL, answer_of

pytestmark = pytest.mark.usefixtures("few_instants")

Capture = pytest.CaptureFixture[str]
SCHEMAS = ROOT / "docs" / "schemas"
LOG = str(ROOT / "examples/logs/lab.swf")
POLICIES = ["drf/best-fit", "slots:3"]
REPLAY = ["simulate", "day.parquet", "-p", "drf/best-fit", "-p", "slots:3"]
ANSWERS = {
    "allocate": ["allocate", "small.yaml", "--what-if", "servers:high-cpu+2"],
    "compare": ["compare", "small.yaml"],
    "compare-two-files": ["compare", "small.yaml", "after.yaml"],
    "audit": ["audit", "small.yaml", "-m", "drfh", "--lies", "3", "--max-under", "50%"],
    "fill": ["fill", "small.yaml", "--select", "rrr", "--trials", "3"],
    "simulate": REPLAY,
    "trace-audit": ["trace", "audit", LOG, "--max-owed", "99", "--max-wait", "9d"],
}


# Options that change answers to other tables are left out.
TABLES = ANSWERS | {
    "allocate": ["allocate", "small.yaml", "-m", "drfh"],
    "audit": ["audit", "small.yaml", "-m", "drfh", "--lies", "2"],
    "fill": ["fill", "small.yaml"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    Path("after.yaml").write_text(SMALL.replace("ana, ", "ana, weight: 3, "))
    write_parquet(generate_day(servers=4, users=3, jobs=20, hours=60, seed=1), Path("day.parquet"))


def test_each_answer_has_a_schema() -> None:
    assert {path.stem for path in SCHEMAS.glob("*.json")} == set(ANSWERS)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_fits_its_schema_and_a_damaged_one_does_not(name: str, capsys: Capture) -> None:
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


def table(words: list[str], form: str, capsys: Capture) -> str:
    assert run([*words, "--format", form]) in (0, 1)
    return capsys.readouterr().out


def rows_of_csv(words: list[str], capsys: Capture) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table(words, "csv", capsys))))


@pytest.mark.parametrize("verb", ["allocate", "compare", "audit", "fill", "simulate"])
def test_latex_is_a_table_with_escaped_text(verb: str, capsys: Capture) -> None:
    Path("small.yaml").write_text(SMALL.replace("bo", "b_o"))
    lines = table(TABLES[verb], "latex", capsys).splitlines()
    assert lines[1].startswith("\\begin{tabular}")
    assert lines[-1] == "\\end{tabular}"
    widths = {line.count(" & ") for line in lines if line.endswith("\\\\")}
    assert len(widths) == 1
    assert not any("b_o" in line for line in lines)


def test_changes_are_columns(capsys: Capture) -> None:
    words = ["allocate", "small.yaml", "-m", "drfh", "--what-if", "weight:ana=3"]
    ana, bo = rows_of_csv(words, capsys)
    assert (ana["user"], bo["user"]) == ("ana", "bo")
    assert float(ana["weight:ana=3"]) > float(ana["tasks"])
    assert float(bo["weight:ana=3"]) < float(bo["tasks"])


def test_studies_are_tables_of_differences(capsys: Capture) -> None:
    rows = rows_of_csv([*REPLAY, "--seeds", "2"], capsys)
    assert [row["measure"] for row in rows] == list(MEASURES)
    assert {row["policy"] for row in rows} == {"slots:3"}


def test_mechanisms_keep_their_names_as_headings(capsys: Capture) -> None:
    Path("own.py").write_text(
        "from fairlead import solve\n\ndef by_drfh(p):\n    return solve(p, 'drfh')\n"
    )
    words = ["compare", "small.yaml", "-m", "drfh", "-m", "own.py:by_drfh"]
    assert "by\\_drfh" in table(words, "latex", capsys)

"""Answers as tables for spreadsheets and papers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import fairlead
from fairlead.cli.main import run
from fairlead.simulation.studies import MEASURES
from fairlead.traces.generator import generate_day
from fairlead.traces.parquet_trace import write_parquet

pytestmark = pytest.mark.usefixtures("few_instants")

Capture = pytest.CaptureFixture[str]
POLICIES = ["drf/best-fit", "slots:3"]
REPLAY = ["simulate", "day.parquet", "-p", "drf/best-fit", "-p", "slots:3"]
VERBS = [
    ["allocate", "small.yaml", "-m", "drfh"],
    ["compare", "small.yaml", "-m", "drfh", "-m", "tsf"],
    ["audit", "small.yaml", "-m", "drfh", "--lies", "2"],
    ["fill", "small.yaml"],
    REPLAY,
]


@pytest.fixture(autouse=True)
def folder(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with the problem of `small` and a trace."""
    monkeypatch.chdir(small.parent)
    write_parquet(generate_day(servers=4, users=3, jobs=20, hours=60, seed=1), Path("day.parquet"))


def table(words: list[str], form: str, capsys: Capture) -> str:
    assert run([*words, "--format", form]) in (0, 1)
    return capsys.readouterr().out


def rows_of_csv(words: list[str], capsys: Capture) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table(words, "csv", capsys))))


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_latex_is_a_table_with_escaped_text(words: list[str], capsys: Capture) -> None:
    problem = Path("small.yaml")
    problem.write_text(problem.read_text().replace("bo", "b_o"))
    lines = table(words, "latex", capsys).splitlines()
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


def test_times_name_their_unit_in_latex(capsys: Capture) -> None:
    head = next(line for line in table(REPLAY, "latex", capsys).splitlines() if "policy" in line)
    assert "mean wait (s)" in head
    assert "used cpu" in head
    first, _ = rows_of_csv(REPLAY, capsys)
    runs = fairlead.simulate("day.parquet", POLICIES)
    assert float(first["mean_wait"]) == runs["drf/best-fit"].to_dict()["mean_wait"]


def test_studies_are_tables_of_differences(capsys: Capture) -> None:
    rows = rows_of_csv([*REPLAY, "--seeds", "2"], capsys)
    wait = fairlead.study("day.parquet", POLICIES, seeds=2).difference("mean_wait", "slots:3")
    assert [row["measure"] for row in rows] == list(MEASURES)
    (found,) = (row for row in rows if row["measure"] == "mean_wait")
    assert found["policy"] == "slots:3"
    ends = [float(found[end]) for end in ("mean", "low", "high")]
    assert ends == [wait.mean, wait.low, wait.high]


def test_mechanisms_keep_their_names_as_headings(capsys: Capture) -> None:
    Path("own.py").write_text(
        "from fairlead import solve\n\ndef by_drfh(p):\n    return solve(p, 'drfh')\n"
    )
    words = ["compare", "small.yaml", "-m", "drfh", "-m", "own.py:by_drfh"]
    assert "by\\_drfh" in table(words, "latex", capsys)

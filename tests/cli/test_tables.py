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


def test_columns_are_chosen_with_units(capsys: Capture) -> None:
    columns = "used_cpu,policy,mean_wait,p95_completion_time:h,makespan:min,jain=J_x"
    rows = rows_of_csv([*REPLAY, "--columns", columns], capsys)
    headings = ["used_cpu", "policy", "mean_wait", "p95_completion_time (h)", "makespan (min)"]
    assert list(rows[0]) == [*headings, "J_x"]
    runs = fairlead.simulate("day.parquet", POLICIES)
    for row, (name, outcome) in zip(rows, runs.items(), strict=True):
        figures = outcome.to_dict()
        assert row["policy"] == name
        assert float(row["mean_wait"]) == pytest.approx(figures["mean_wait"])
        hours = figures["p95_completion_time"] / 3600
        assert float(row["p95_completion_time (h)"]) == pytest.approx(hours)
        assert float(row["makespan (min)"]) == pytest.approx(outcome.log.makespan / 60)
        assert float(row["used_cpu"]) == pytest.approx(figures["horizon"]["utilization"]["cpu"])


def test_readers_get_the_policy_and_headings_in_words(capsys: Capture) -> None:
    lines = table([*REPLAY, "--columns", "mean_wait:m"], "markdown", capsys).splitlines()
    assert [cell.strip() for cell in lines[0].split("|")] == ["", "policy", "mean wait (min)", ""]
    assert len(lines) == 4


def test_studies_are_tables_of_differences(capsys: Capture) -> None:
    words = [*REPLAY, "--seeds", "2"]
    rows = rows_of_csv([*words, "--columns", "waiting,mean_wait:h"], capsys)
    found = fairlead.study("day.parquet", POLICIES, seeds=2)
    wait = found.difference("mean_wait", "slots:3")
    assert [row["measure"] for row in rows] == ["waiting", "mean_wait (h)"]
    assert [row["policy"] for row in rows] == ["slots:3"] * 2
    for end in ("mean", "low", "high"):
        assert float(rows[1][end]) == pytest.approx(getattr(wait, end) / 3600)
        assert float(rows[0][end]) == 0
    assert [row["measure"] for row in rows_of_csv(words, capsys)] == list(MEASURES)
    text = table([*words, "--columns", "mean_wait:h=Wait"], "latex", capsys)
    assert text == found.to_latex("mean_wait:h=Wait")


def test_mechanisms_keep_their_names_as_headings(capsys: Capture) -> None:
    Path("own.py").write_text(
        "from fairlead import solve\n\ndef by_drfh(p):\n    return solve(p, 'drfh')\n"
    )
    words = ["compare", "small.yaml", "-m", "drfh", "-m", "own.py:by_drfh"]
    assert "by\\_drfh" in table(words, "latex", capsys)

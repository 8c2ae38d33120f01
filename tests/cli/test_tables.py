"""Answers as tables for spreadsheets and papers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from small_problems import only_line

from fairlead.cli.main import run
from fairlead.traces.generator import generate_day
from fairlead.traces.parquet_trace import write_parquet

VERBS = [
    ("allocate", "-m", "drfh"),
    ("compare", "-m", "drfh", "-m", "tsf"),
    ("audit", "-m", "drfh", "--lies", "2"),
    ("fill",),
    ("simulate", "-p", "drf/best-fit", "-p", "slots:3"),
]


def answer(
    words: tuple[str, ...], small: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> str:
    file = small
    if words[0] == "simulate":
        file = small.with_suffix(".parquet")
        write_parquet(generate_day(servers=4, users=3, jobs=20, hours=2, seed=1), file)
    assert run([words[0], str(file), *words[1:], "--format", form]) in (0, 1)
    return capsys.readouterr().out


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_csv_has_a_heading_and_rows(
    words: tuple[str, ...], small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list(csv.DictReader(io.StringIO(answer(words, small, "csv", capsys))))
    assert len(rows) >= 2
    if words[0] in ("allocate", "fill"):
        assert [row["user"] for row in rows] == ["ana", "bo"]
        assert all(float(row["tasks"]) > 0 for row in rows)


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_latex_is_a_table_with_escaped_text(
    words: tuple[str, ...], small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small.write_text(small.read_text().replace("bo", "b_o"))
    lines = answer(words, small, "latex", capsys).splitlines()
    assert lines[0].startswith("\\begin{tabular}")
    assert lines[-1] == "\\end{tabular}"
    assert "\\toprule" in lines
    widths = {line.count(" & ") for line in lines if line.endswith("\\\\")}
    assert len(widths) == 1
    assert not any("b_o" in line for line in lines)


def test_changes_are_columns(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["allocate", str(small), "-m", "drfh", "--what-if", "weight:ana=3", "--format", "csv"]
    assert run(words) == 0
    ana, bo = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert float(ana["weight:ana=3"]) > float(ana["tasks"])
    assert float(bo["weight:ana=3"]) < float(bo["tasks"])


def test_an_unknown_format_is_one_line(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["allocate", str(small), "--format", "html"]) == 2
    assert "must be csv or latex, not 'html'" in only_line(capsys)
    assert run(["allocate", str(small), "--format", "csv", "--json"]) == 2
    assert "cannot be given with --json" in only_line(capsys)

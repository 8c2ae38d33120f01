"""Answers as tables for spreadsheets and papers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from small_problems import only_line

import fairlead
from fairlead.cli.main import run
from fairlead.report.table_text import interval_text
from fairlead.simulation.studies import MEASURES
from fairlead.traces.generator import generate_day
from fairlead.traces.parquet_trace import write_parquet

pytestmark = pytest.mark.usefixtures("few_instants")

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
        write_parquet(generate_day(servers=4, users=3, jobs=20, hours=60, seed=1), file)
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
    assert lines[0] == "% needs \\usepackage{booktabs}"
    assert lines[1].startswith("\\begin{tabular}")
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


REPLAY = ("simulate", "-p", "drf/best-fit", "-p", "slots:3")


def test_columns_are_chosen_with_units(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ("--columns", "used_cpu,policy,mean_wait,p95_completion_time:h,makespan:min,makespan")
    rows = list(csv.DictReader(io.StringIO(answer((*REPLAY, *columns), small, "csv", capsys))))
    headings = ["used_cpu", "policy", "mean_wait", "p95_completion_time (h)", "makespan (min)"]
    assert list(rows[0]) == [*headings, "makespan"]
    runs = fairlead.simulate(small.with_suffix(".parquet"), ["drf/best-fit", "slots:3"])
    for row, (name, outcome) in zip(rows, runs.items(), strict=True):
        figures = outcome.to_dict()
        assert row["policy"] == name
        assert float(row["mean_wait"]) == pytest.approx(figures["mean_wait"])
        hours = figures["p95_completion_time"] / 3600
        assert float(row["p95_completion_time (h)"]) == pytest.approx(hours)
        assert float(row["makespan (min)"]) == pytest.approx(outcome.log.makespan / 60)
        assert float(row["used_cpu"]) == pytest.approx(figures["horizon"]["utilization"]["cpu"])
    lines = answer((*REPLAY, "--columns", "policy,p95_wait:h"), small, "latex", capsys).splitlines()
    (heading,) = (line for line in lines if "policy" in line)
    assert heading == "policy & 95 \\% wait (h) \\\\"


def test_minutes_may_be_m_and_print_as_min(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ("--columns", "policy,mean_wait:m")
    lines = answer((*REPLAY, *columns), small, "markdown", capsys).splitlines()
    assert [cell.strip() for cell in lines[0].split("|")] == ["", "policy", "mean wait (min)", ""]
    assert len(lines) == 4


def test_studies_are_tables_of_differences(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (*REPLAY, "--seeds", "2", "--columns", "waiting,mean_wait:h")
    rows = list(csv.DictReader(io.StringIO(answer(words, small, "csv", capsys))))
    found = fairlead.study(small.with_suffix(".parquet"), ["drf/best-fit", "slots:3"], seeds=2)
    wait = found.difference("mean_wait", "slots:3")
    assert [row["measure"] for row in rows] == ["waiting", "mean_wait (h)"]
    assert [row["policy"] for row in rows] == ["slots:3"] * 2
    for end in ("mean", "low", "high"):
        assert float(rows[1][end]) == pytest.approx(getattr(wait, end) / 3600)
        assert float(rows[0][end]) == 0
    assert rows[1]["pairs"] == "2"
    rows = list(csv.DictReader(io.StringIO(answer(words[:-2], small, "csv", capsys))))
    assert [row["measure"] for row in rows] == list(MEASURES)
    alone = ("simulate", "-p", "drf/best-fit", "--seeds", "2", "--columns", "mean_wait:min")
    (row,) = csv.DictReader(io.StringIO(answer(alone, small, "csv", capsys)))
    mean = found.mean("mean_wait", "drf/best-fit").mean
    assert float(row["mean"]) == pytest.approx(mean / 60)


@pytest.mark.parametrize("form", ["latex", "markdown"])
def test_studies_for_papers_have_a_row_a_policy(
    form: str, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policies = ("drf/best-fit", "slots:3", "fifo/first-fit")
    words = ("simulate", *(word for name in policies for word in ("-p", name)), "--seeds", "2")
    text = answer((*words, "--columns", "mean_wait:h=Wait,fairness_error"), small, form, capsys)
    found = fairlead.study(small.with_suffix(".parquet"), policies, seeds=2)
    known = found.to_latex(["mean_wait:h=Wait", "fairness_error"])
    assert known == text or form == "markdown"
    assert "from drf/best-fit" in text
    assert "95\\%" in text or "95%" in text
    assert "over 2 pairs" in text
    for policy in policies[1:]:
        each = found.difference("mean_wait", policy)
        shown = interval_text(*(x / 3600 for x in (each.mean, each.low, each.high)), form)
        if form == "markdown":
            (row,) = (line for line in text.splitlines() if line.startswith(f"| {policy}"))
            assert row.split("|")[2].strip() == " ".join(shown)
        else:
            lines = text.splitlines()
            first = next(k for k, line in enumerate(lines) if line.startswith(policy[:5]))
            assert [line.split(" & ")[1] for line in lines[first : first + 2]] == list(shown)


def test_headings_are_renamed(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ("--columns", "policy,mean_wait:h=Mean wait,jain=J_x")
    (heading, *_) = answer((*REPLAY, *columns), small, "csv", capsys).splitlines()
    assert heading == "policy,Mean wait,J_x"
    assert "policy & Mean wait & J\\_x \\\\" in answer((*REPLAY, *columns), small, "latex", capsys)


def test_mechanisms_keep_their_names_as_headings(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = small.with_name("own.py")
    rule.write_text("from fairlead import solve\n\ndef by_drfh(p):\n    return solve(p, 'drfh')\n")
    words = ("compare", "-m", "drfh", "-m", f"{rule}:by_drfh")
    assert "by\\_drfh" in answer(words, small, "latex", capsys)


def test_unknown_measures_of_studies_are_named(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = small.with_suffix(".parquet")
    write_parquet(generate_day(servers=4, users=3, jobs=20, hours=60, seed=1), file)
    words = ["simulate", str(file), "-p", "drf/best-fit", "--seeds", "2", "--format", "csv"]
    assert run([*words, "--columns", "jain"]) == 2
    assert "there is no column 'jain'; known: mean_wait" in only_line(capsys)


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ("policy,waits", "there is no column 'waits'; known: policy, tasks"),
        ("policy:h", "policy takes no unit"),
        ("mean_wait:w", "mean_wait takes s or min or h or d, not 'w'"),
        ("mean_wait:", "mean_wait takes"),
        ("policy,policy", "names 'policy' twice"),
        ("policy,jain=policy", "names 'policy' twice"),
        ("jain=", "jain has an empty heading"),
        ("", "there is no column ''"),
    ],
)
def test_wrong_columns_are_one_line_before_any_replay(
    columns: str, fault: str, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = small.with_suffix(".parquet")
    write_parquet(generate_day(servers=4, users=3, jobs=20, hours=60, seed=1), file)
    runs = small.with_name("runs")
    words = ["simulate", str(file), "-p", "drf/best-fit", "--runs", str(runs)]
    assert run([*words, "--format", "csv", "--columns", columns]) == 2
    assert f"--columns: {fault}" in only_line(capsys)
    assert not runs.exists()
    assert run([*words, "--columns", "policy"]) == 2
    assert "needs --format" in only_line(capsys)


def test_an_unknown_format_is_one_line(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["allocate", str(small), "--format", "html"]) == 2
    assert "must be csv or latex or markdown, not 'html'" in only_line(capsys)
    assert run(["allocate", str(small), "--format", "csv", "--json"]) == 2
    assert "cannot be given with --json" in only_line(capsys)

"""The command ``fairlead fill``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from small_problems import answer_of, only_line

from fairlead.cli.main import run
from fairlead.simulation import trials
from fairlead.simulation.filling import Filling, fill_by

KESIDIS = """\
fairlead: 1
resources: [r1, r2]
servers:
  - {name: s1, capacity: {r1: 100, r2: 30}}
  - {name: s2, capacity: {r1: 30, r2: 100}}
users:
  - {name: f1, demand: {r1: 5, r2: 1}}
  - {name: f2, demand: {r1: 1, r2: 5}}
"""


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """The problem of Kesidis et al., Tables II-V."""
    path = tmp_path / "tables.yaml"
    path.write_text(KESIDIS)
    return path


@pytest.mark.parametrize(
    ("arguments", "name", "tasks"),
    [
        ([], "drf/best-fit", [19, 2, 2, 19]),
        (["--select", "best-fit-first"], "drf/best-fit-first", [20, 2, 0, 19]),
        (["--criterion", "ps-dsf", "--select", "joint"], "ps-dsf/joint", [19, 0, 2, 20]),
        (
            ["--criterion", "ps-dsf", "--select", "joint", "--residual"],
            "ps-dsf/joint/residual",
            [19, 2, 2, 19],
        ),
    ],
)
def test_the_papers_tables(
    arguments: list[str],
    name: str,
    tasks: list[int],
    tables: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = answer_of(["fill", str(tables), *arguments], capsys)
    assert answer["mechanism"] == name
    assert [u["servers"].get(s, 0) for u in answer["users"] for s in ("s1", "s2")] == tasks
    assert answer["mean_total"] == sum(tasks)
    assert answer["certificate"]["holds"] is True


def test_a_single_task_is_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = tmp_path / "one.yaml"
    one.write_text(
        "fairlead: 1\nservers: [{name: a, capacity: {cpu: 1}}]\n"
        "users: [{name: ana, demand: {cpu: 1}}]\n"
    )
    assert run(["fill", str(one)]) == 0
    assert "1 task, and no other fits" in capsys.readouterr().out
    assert run(["compare", str(one), "-m", "drfh", "-m", "tsf"]) == 0
    assert "1 task in all under each" in capsys.readouterr().out


def test_one_trial_is_what_python_gives_and_the_order_is_written(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import fairlead

    path = tmp_path / "order.csv"
    arguments = [str(tables), "--select", "rrr", "--seed", "7", "--order", str(path)]
    answer = answer_of(["fill", *arguments], capsys)
    filled = fairlead.fill(fairlead.load(tables), select="rrr", seed=7)
    assert (answer["trials"], answer["seed"], answer["random"]) == (1, 7, True)
    assert [user["tasks"] for user in answer["users"]] == filled.user_tasks.tolist()
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert [(row["user"], row["server"]) for row in rows] == [
        (f"f{user + 1}", f"s{server + 1}-0") for user, server in filled.order
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--trials", "0"], "'--trials'"),
        (["--trials", "5"], "only rrr is random"),
        (["--seed", "1.5"], "'--seed'"),
        (["--criterion", "luck"], "no criterion is named 'luck'; known: drf, tsf, ps-dsf"),
        (["--criterion", "ps-dsf", "--residual"], "ps-dsf/best-fit/residual: "),
        (["--order", "FILE"], "is the problem file itself"),
        (["--order", ""], "'--order': must be a path, not ''"),
        (["--order", "no/such/folder/x.csv"], "there is no folder"),
        (["--select", "rrr", "--trials", "2", "--order", "x.csv"], "ask for one trial"),
        (["--report", "./x", "--order", "x"], "is also the file of --report"),
    ],
)
def test_unusable_input_is_one_line_and_exit_2(
    arguments: list[str],
    said: str,
    tables: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tables.parent)
    assert run(["fill", str(tables), *[str(tables) if a == "FILE" else a for a in arguments]]) == 2
    assert said in only_line(capsys)
    assert [path.name for path in tables.parent.iterdir()] == ["tables.yaml"]


def test_an_interruption_leaves_nothing_behind(
    tables: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = 0

    def interrupted(*arguments: Any) -> Filling:
        nonlocal done
        if done == 2:
            raise KeyboardInterrupt
        done += 1
        return fill_by(*arguments)

    monkeypatch.setattr(trials, "fill_by", interrupted)
    report = tables.with_name("page.html")
    arguments = ["fill", str(tables), "--select", "rrr", "--trials", "9", "--report", str(report)]
    assert run(arguments) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert [path.name for path in tables.parent.iterdir()] == ["tables.yaml"]

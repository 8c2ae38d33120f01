"""The command ``fairlead fill``."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_problems import answer_of

import fairlead

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


def test_options_choose_the_policy(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The filling by ps-dsf/joint/residual of Kesidis et al., Table II."""
    words = ["--criterion", "ps-dsf", "--select", "joint", "--residual"]
    answer = answer_of(["fill", str(tables), *words], capsys)
    assert answer["mechanism"] == "ps-dsf/joint/residual"
    tasks = [u["servers"].get(s, 0) for u in answer["users"] for s in ("s1", "s2")]
    assert tasks == [19, 2, 2, 19]
    assert answer["certificate"]["holds"] is True


def test_one_trial_is_what_python_gives(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = answer_of(["fill", str(tables), "--select", "rrr", "--seed", "7"], capsys)
    filled = fairlead.fill(fairlead.load(tables), select="rrr", seed=7)
    assert (answer["trials"], answer["seed"], answer["random"]) == (1, 7, True)
    assert [user["tasks"] for user in answer["users"]] == filled.user_tasks.tolist()

"""Problem files with idle users and groups scaled to zero: every verb, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.cli.main import run
from fairlead.formats.problem_file import dump, load
from fairlead.model.reductions import NO_USER_IS_DUE
from page_reader import Reader
from small_problems import only_line

SERVERS = """\
fairlead: 1
resources: {cpu: cores, memory: GiB, gpu: GPUs}
servers:
  - {name: big, count: 3, capacity: {cpu: 64, memory: 512}}
  - {name: gone, count: 0, capacity: {cpu: 16, memory: 64, gpu: 8}}
users:
"""
USERS = """\
  - {name: ana, demand: {cpu: 1, memory: 2}}
  - {name: idle, demand: {cpu: 1, gpu: 1}, tasks: 0, servers: [gone]}
  - {name: bo, demand: {cpu: 4, memory: 8}, weight: 2}
  - {name: last, demand: {cpu: 4, memory: 1}, weight: 0}
"""
VERBS = [
    ["allocate"],
    ["compare"],
    ["fill", "--select", "rrr", "--trials", "2"],
    ["audit", "-m", "drfh"],
    ["dynamic"],
    ["trade-off", "--alphas", "0,1"],
]

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def some(tmp_path: Path) -> Path:
    path = tmp_path / "some.yaml"
    path.write_text(SERVERS + USERS)
    return path


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_and_its_page(verb: list[str], some: Path, capsys: Capture) -> None:
    has_page = verb[0] not in ("dynamic", "trade-off")
    page = some.with_suffix(".html")
    assert run([verb[0], str(some), *verb[1:], *["--report", str(page)] * has_page]) == 0
    shown, err = capsys.readouterr()
    assert "Traceback" not in err
    if has_page:
        shown = Reader(page.read_text()).text
    assert "idle" in shown or verb[0] == "trade-off"
    assert "nan" not in shown.split()
    assert "without a task: " not in shown


def test_no_user_with_tasks_is_clear(some: Path, capsys: Capture) -> None:
    """Nothing is divided, so figures that compare users are missing."""
    idle = USERS.replace("memory: 2}}", "memory: 2}, tasks: 0}").replace("weight: 2", "tasks: 0")
    some.write_text(SERVERS + idle)
    for verb in ("allocate", "compare", "fill"):
        assert run([verb, str(some)]) == 0
        assert "o user is due anything" in capsys.readouterr().out
    for verb in ("audit", "dynamic", "trade-off"):
        assert run([verb, str(some)]) == 2
        assert only_line(capsys) == f"fairlead: {some}: users: {NO_USER_IS_DUE}\n"


def test_a_file_with_zeros_is_written_as_it_was(some: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.yaml"
    dump(load(some), again)
    problem = load(again)
    assert problem.task_limit[1] == 0
    assert problem.weight.tolist() == [1, 1, 2, 0]
    assert problem.count.tolist() == [3, 0]

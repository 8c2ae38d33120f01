"""``--weights FILE`` of allocate, compare and audit; the file is the one of simulate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.cli.main import run
from small_problems import answer_of, only_line

Capture = pytest.CaptureFixture[str]

PROBLEM = """\
fairlead: 1
resources: {cpu: cores}
servers:
  - {name: a, capacity: {cpu: 4}}
  - {name: b, capacity: {cpu: 4}}
users:
  - {name: ana, demand: {cpu: 1}, servers: [a]}
  - {name: dee, demand: {cpu: 1}, servers: [a], tasks: 4}
  - {name: eve, demand: {cpu: 1}, servers: [b], tasks: 12}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(PROBLEM)
    Path("w.yaml").write_text("{ana: 3, dee: 1, eve: 3}")


def weights_in(allocation: dict[str, object]) -> dict[str, float]:
    users = allocation["users"]
    assert isinstance(users, list)
    return {user["name"]: user["weight"] for user in users}


def test_weights_are_those_of_the_file(capsys: Capture) -> None:
    """Of server a, ana is due 3 of 4 cores, and dee the last one."""
    answer = answer_of(["allocate", "p.yaml", "--weights", "w.yaml"], capsys)
    assert weights_in(answer) == {"ana": 3, "dee": 1, "eve": 3}
    assert [user["tasks"] for user in answer["users"]] == pytest.approx([3, 1, 4])
    compared = answer_of(["compare", "p.yaml", "-m", "tsf", "--weights", "w.yaml"], capsys)
    assert weights_in(compared["mechanisms"]["tsf"]) == weights_in(answer)


def test_a_change_comes_after_the_file(capsys: Capture) -> None:
    words = ["allocate", "p.yaml", "--weights", "w.yaml", "--what-if", "weight:dee=2"]
    changed = answer_of(words, capsys)["what_if"]["weight:dee=2"]
    assert weights_in(changed) == {"ana": 3, "dee": 2, "eve": 3}


def test_an_audit_takes_weights_for_what_users_hold(capsys: Capture) -> None:
    """The file of holdings has the weights of the problem file; by others ana is due 3, not 2."""
    rows = [{"name": n, "weight": 1, "servers": {s: t}} for n, s, t in
            [("ana", "a", 2), ("dee", "a", 2), ("eve", "b", 4)]]  # fmt: skip
    Path("held.json").write_text(json.dumps({"users": rows}))
    words = ["audit", "p.yaml", "--allocation", "held.json", "--max-under", "20%"]
    assert answer_of(words, capsys)["max_under"]["beyond"] == {}
    gate = answer_of([*words, "--weights", "w.yaml"], capsys, status=1)["max_under"]
    assert gate["beyond"] == pytest.approx({"ana": 1 / 3})
    assert run(["audit", "p.yaml", "-m", "drfh", "--weights", "w.yaml", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["users"][0]["weight"] == 3


@pytest.mark.parametrize(
    ("command", "text", "fault"),
    [
        ("allocate p.yaml", "{zed: 2}", "w.yaml: no user is named 'zed'; known: ana, dee, eve"),
        ("compare p.yaml", "{ana: -1}", "w.yaml: ana: must be a number from 0, not -1"),
        ("audit p.yaml", "{ana: .nan}", "w.yaml: ana: must be a finite number, not nan"),
        ("allocate p.yaml", "{ana: 1, ana: 2}", "w.yaml: "),
        ("allocate p.yaml", "[ana]", "w.yaml: must be a mapping of users to weights"),
        ("compare p.yaml p.yaml", "", "--weights: is for one problem file"),
        ("audit --kubernetes p.yaml", "", "--weights: is for a problem file; for a dump name"),
        ("audit p.yaml", "{ana: 0, dee: 0, eve: 0}", "w.yaml: users"),  # none is due anything
    ],
)
def test_unusable_weights_are_one_line(
    command: str, text: str, fault: str, capsys: Capture
) -> None:
    Path("w.yaml").write_text(text)
    assert run([*command.split(), "--weights", "w.yaml"]) == 2
    assert fault in only_line(capsys)

"""The command ``fairlead converge``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_problems import answer_of

from fairlead.cli.main import run
from fairlead.formats.problem_file import load
from fairlead_papers.distributed.convergence import compare_with_exact
from fairlead_papers.distributed.network_setting import (
    AsynchronousSetting,
    Clocks,
    Delay,
    JoinOrLeave,
)
from fairlead_papers.distributed.simulated_run import run_asynchronously

# One user may run on every server, and each server has a user that may run only there. Servers that
# all answer at once overreact.
ROAMER = """\
fairlead: 1
resources: [cpu]
servers:
  - {name: a, capacity: {cpu: 1}}
  - {name: b, count: 2, capacity: {cpu: 1}}
  - {name: c, capacity: {cpu: 1}}
  - {name: d, capacity: {cpu: 1}}
users:
  - {name: "roamer:x", demand: {cpu: 1}}
  - {name: at-a, demand: {cpu: 1}, servers: [a]}
  - {name: at-b, demand: {cpu: 1}, servers: [b]}
  - {name: at-c, demand: {cpu: 1}, servers: [c]}
  - {name: at-d, demand: {cpu: 1}, servers: [d]}
"""


@pytest.fixture
def roamer(tmp_path: Path) -> Path:
    path = tmp_path / "roamer.yaml"
    path.write_text(ROAMER)
    return path


def test_it_is_the_same_from_python(roamer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["--leave", "at-b:4", "--leave", "roamer:x:5", "--join", "roamer:x:8"]
    network = ["--period", "0.5", "--jitter", "0.2", "--delay", "0.3..0.4", "--damping", "0.25"]
    more = ["--apart", "--tdm", "--until", "40", "--seed", "7", "--sample", "0.75"]
    answer = answer_of(["converge", str(roamer), *changes, *network, *more], capsys)
    setting = AsynchronousSetting(
        load(roamer),
        40.0,
        (
            JoinOrLeave(4.0, 2, joins=False),
            JoinOrLeave(5.0, 0, joins=False),
            JoinOrLeave(8.0, 0, joins=True),
        ),
        time_shared=True,
        clocks=Clocks(0.5, 0.2),
        delay=Delay(0.3, 0.4),
        damping=0.25,
        apart=True,
        seed=7,
    )
    expected = compare_with_exact(run_asynchronously(setting, sample=0.75)).to_dict()
    assert answer == json.loads(json.dumps(expected))
    assert answer["mechanism"] == "ps-dsf-tdm"


def test_servers_that_have_not_settled_are_exit_1(
    roamer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = answer_of(["converge", str(roamer), "--delay", "2"], capsys, status=1)
    assert answer["converged"] is False
    assert answer["phases"][0]["seconds_to_1e-3"] is None
    assert run(["converge", str(roamer), "--until", "1.5"]) == 1
    assert "it may only need more time (--until)." in capsys.readouterr().out

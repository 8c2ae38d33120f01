"""The command ``fairlead converge``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_problems import answer_of, only_line

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


def test_the_json_says_when_it_settled_and_on_what(
    roamer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--leave", "roamer:x:50", "--join", "roamer:x:80", "--delay", "0.05..0.1"]
    answer = answer_of(["converge", str(roamer), *arguments, "--seed", "3"], capsys)
    assert answer["converged"] is True
    assert answer["certificate"]["holds"] is True
    assert [(p["begin"], p["end"], p["left"], p["joined"]) for p in answer["phases"]] == [
        (0, 50, [], []),
        (50, 80, ["roamer:x"], []),
        (80, 180, [], ["roamer:x"]),
    ]
    for phase in answer["phases"]:
        assert 0 < phase["seconds_to_1e-3"] <= phase["seconds_to_1e-6"] < 30
    assert [u["name"] for u in answer["users"]] == ["roamer:x", "at-a", "at-b", "at-c", "at-d"]
    for user in answer["users"]:
        assert user["present"] is True
        assert user["tasks"] == pytest.approx(user["exact"]["ps-dsf"], rel=1e-4)
        assert set(user["exact"]) == {"ps-dsf", "tsf", "drfh"}
    assert answer["utilization"]["b"]["cpu"] == pytest.approx(1.0)
    assert len(answer["times"]) == len(answer["violation"]) == 181


def test_it_is_the_same_from_python(roamer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--leave", "at-b:4", "--period", "0.5", "--jitter", "0.2", "--delay", "0.3"]
    more = ["--damping", "0.25", "--apart", "--tdm", "--until", "40", "--seed", "7"]
    answer = answer_of(["converge", str(roamer), *arguments, *more, "--sample", "0.75"], capsys)
    setting = AsynchronousSetting(
        load(roamer),
        40.0,
        (JoinOrLeave(4.0, 2, joins=False),),
        time_shared=True,
        clocks=Clocks(0.5, 0.2),
        delay=Delay(0.3, 0.3),
        damping=0.25,
        apart=True,
        seed=7,
    )
    expected = compare_with_exact(run_asynchronously(setting, sample=0.75)).to_dict()
    assert answer == json.loads(json.dumps(expected))
    assert answer["mechanism"] == "ps-dsf-tdm"


def test_what_has_not_settled_is_exit_1_and_says_what_may_help(
    roamer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wild = [str(roamer), "--delay", "2"]
    answer = answer_of(["converge", *wild], capsys, status=1)
    assert answer["converged"] is False
    assert answer["phases"][0]["seconds_to_1e-3"] is None
    assert run(["converge", *wild]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert "not settled" in out
    assert "about 8 servers decide while a message is under way" in out
    assert "DOES NOT HOLD" in out
    assert (
        answer_of(["converge", *wild, "--damping", "0.8", "--until", "400"], capsys)["converged"]
        is True
    )
    assert (
        answer_of(["converge", *wild, "--period", "20", "--until", "600"], capsys)["converged"]
        is True
    )


def test_what_only_needs_longer_says_so(roamer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["converge", str(roamer), "--until", "1.5"]) == 1
    out, _ = capsys.readouterr()
    assert "The servers have not settled on PS-DSF (violation " in out
    assert " in the end): it may only need more time (--until)." in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--delay", "x"], "--delay: must be a number of seconds, or two such as 0.1..0.5"),
        (["--delay", "2..1"], "delay: must be a number of seconds from 0, or two of them in order"),
        (["--until", "1e12"], "sample: 1,000,000,000,000 samples of 10 numbers each"),
        (["--leave", "at-a"], "--leave: must be USER:SECONDS, not 'at-a'"),
        (["--leave", "at-a:x"], "--leave: must be USER:SECONDS, not 'at-a:x'"),
        (["--join", ":3"], "--join: must be USER:SECONDS, not ':3'"),
        (["--join", "nobody:3"], "--join: no user is named 'nobody'"),
        (["--leave", "at-a:1", "--leave", "at-a:2"], "changes: 'at-a' cannot leave at 2 s"),
        (["--leave", "at-a:nan"], "until: must be a positive number"),
    ],
)
def test_bad_options_are_one_line_and_exit_2(
    arguments: list[str], said: str, roamer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["converge", str(roamer), *arguments]) == 2
    assert said in only_line(capsys)

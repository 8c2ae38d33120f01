"""``fairlead trade-off`` and ``converge``, and options of mechanisms on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.cli.main import run
from fairlead.errors import CertificateError
from fairlead.formats.problem_file import load
from fairlead_papers.distributed.convergence import compare_with_exact
from fairlead_papers.distributed.network_setting import (
    AsynchronousSetting,
    Clocks,
    Delay,
    JoinOrLeave,
)
from fairlead_papers.distributed.simulated_run import run_asynchronously
from fairlead_papers.trade_off import alpha_fairness
from small_problems import answer_of


def test_json_has_the_documented_layout(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = answer_of(["trade-off", str(small), "--alphas", "1,0"], capsys)
    assert (answer["division"], answer["users"], answer["unproved"]) == ("resource", 2, {})
    assert [point["alpha"] for point in answer["points"]] == [0, 1]
    shares = {"tasks", "least_share", "envious", "largest_envy", "utilization"}
    assert set(answer["points"][0]) == {"alpha", "violation"} | shares
    # Figure 1 of the DRFH paper: ten tasks each, and neither could have more.
    assert answer["points"][1]["tasks"] == pytest.approx(20)
    tdm = answer_of(["trade-off", str(small), "--alphas", "1", "--tdm"], capsys)
    assert tdm["division"] == "time"


def test_an_alpha_without_proof_is_exit_1(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = alpha_fairness.solve

    def unproved_at_one(problem, name, *, alpha):  # type: ignore[no-untyped-def]
        if alpha == 1:
            raise CertificateError("alpha-fair: missed")
        return right(problem, name, alpha=alpha)

    monkeypatch.setattr(alpha_fairness, "solve", unproved_at_one)
    assert run(["trade-off", str(small), "--alphas", "0,1", "--json"]) == 1
    out, err = capsys.readouterr()
    assert err == "fairlead: alpha 1: missed\n"
    assert [point["alpha"] for point in json.loads(out)["points"]] == [0]
    assert run(["trade-off", str(small), "--alphas", "0,1"]) == 1
    assert "✗ From alpha 0 " in (out := capsys.readouterr().out)
    assert "NO ANSWER IS PROVED for alpha 1." in out
    assert run(["trade-off", str(small), "--alphas", "1", "--json"]) == 1
    assert capsys.readouterr().out == ""


def test_options_reach_the_mechanisms(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def tasks(*words: str) -> list[float]:
        answer = answer_of(["allocate", str(small), "-m", *words], capsys)
        return [user["tasks"] for user in answer["users"]]

    fair = tasks("proportional")
    assert tasks("alpha-fair", "--alpha", "1") == pytest.approx(fair)
    words = ["compare", str(small), "-m", "alpha-fair", "-m", "tsf", "--alpha", "1"]
    compared = answer_of(words, capsys)["mechanisms"]["alpha-fair"]["users"]
    assert [user["tasks"] for user in compared] == pytest.approx(fair)
    assert tasks("max-min", "--score", "tsf") == pytest.approx(tasks("tsf"))


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


def test_a_delay_without_its_end_is_refused(
    roamer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["converge", str(roamer), "--delay", "1.."]) == 2
    assert "--delay: must be a number of seconds" in capsys.readouterr().err

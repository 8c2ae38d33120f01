"""`fairlead trade-off`, and options of mechanisms on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.cli.main import run
from fairlead.errors import CertificateError
from fairlead_papers.trade_off import alpha_fairness


def test_json_has_the_documented_layout(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trade-off", str(small), "--alphas", "1,0", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    answer = json.loads(out)
    assert (answer["division"], answer["users"], answer["unproved"]) == ("resource", 2, {})
    assert [point["alpha"] for point in answer["points"]] == [0, 1]
    shares = {"tasks", "least_share", "envious", "largest_envy", "utilization"}
    assert set(answer["points"][0]) == {"alpha", "violation"} | shares
    # Figure 1 of the DRFH paper: ten tasks each, and neither could have more.
    assert answer["points"][1]["tasks"] == pytest.approx(20)
    assert run(["trade-off", str(small), "--alphas", "1", "--tdm", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["division"] == "time"


def test_the_verdict_names_what_the_least_share_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "unlike.yaml"
    path.write_text(
        "fairlead: 1\nresources: [cpu]\nservers: [{name: a, capacity: {cpu: 12}}]\n"
        "users: [{name: x, demand: {cpu: 1}}, {name: y, demand: {cpu: 2}}]\n"
    )
    assert run(["trade-off", str(path), "--alphas", "0,1"]) == 0
    assert (
        "✓ From alpha 0 to alpha 1, tasks go from 12 to 9, the least share from 0.00 % to 50.00 %, "
        "and users with envy from 1 to 0 of 2."
    ) in capsys.readouterr().out


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
    def tasks(*arguments: str) -> list[float]:
        assert run([*arguments, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        users = answer.get("users") or answer["mechanisms"][arguments[3]]["users"]
        return [user["tasks"] for user in users]

    fair = tasks("allocate", str(small), "-m", "proportional")
    assert tasks("allocate", str(small), "-m", "alpha-fair", "--alpha", "1") == pytest.approx(fair)
    compared = tasks("compare", str(small), "-m", "alpha-fair", "-m", "tsf", "--alpha", "1")
    assert compared == pytest.approx(fair)
    tsf = tasks("allocate", str(small), "-m", "tsf")
    assert tasks("allocate", str(small), "-m", "max-min", "--score", "tsf") == pytest.approx(tsf)

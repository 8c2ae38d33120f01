"""Options of the command line that become suffixes of a policy's name."""

from __future__ import annotations

import json

import pytest
from small_problems import ROOT

from fairlead.cli.main import run
from fairlead.cli.options import PolicySuffixes

REPLAY = ["simulate", str(ROOT / "examples" / "logs" / "lab.swf"), "-p", "drf/best-fit"]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (PolicySuffixes(reserve=1), "drf/best-fit/reserve"),
        (PolicySuffixes(reserve=3, spare="cpu"), "drf/best-fit/reserve:3/spare:cpu"),
        (PolicySuffixes(half_life=60, reserve=1), "drf/best-fit/half-life:60/reserve"),
        (PolicySuffixes("over-share", spare="cpu"), "drf/best-fit/over-share/spare:cpu"),
    ],
)
def test_options_are_added_to_policies(options: PolicySuffixes, name: str) -> None:
    assert options.added_to("drf/best-fit") == name


def test_a_replay_has_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*REPLAY, "--reserve", "1", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["policies"]) == ["drf/best-fit/reserve"]

"""Options of the command line that become suffixes of a policy's name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_problems import only_line

from fairlead.cli.main import run

LOG = str(Path(__file__).parents[2] / "examples" / "logs" / "lab.swf")
GIVEN = [
    (["--reserve", "1"], "drf/best-fit/reserve"),
    (["--reserve", "3", "--spare", "cpu"], "drf/best-fit/reserve:3/spare:cpu"),
    (["--half-life", "60", "--reserve", "1"], "drf/best-fit/half-life:60/reserve"),
    (["--preempt", "over-share", "--spare", "cpu"], "drf/best-fit/over-share/spare:cpu"),
]
WRONG = [["--reserve", "0"], ["--spare", "gup"], ["--spare", ""], ["--preempt", "some"]]
WRONG += [["--reserve", "1", "--preempt", "over-share"]]


@pytest.mark.parametrize(("options", "name"), GIVEN)
def test_options_are_added_to_policies(
    capsys: pytest.CaptureFixture[str], options: list[str], name: str
) -> None:
    assert run(["simulate", LOG, "-p", "drf/best-fit", *options, "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["policies"]) == [name]


@pytest.mark.parametrize("options", WRONG)
def test_wrong_options_are_one_line(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert run(["simulate", LOG, "-p", "drf/best-fit", *options]) == 2
    assert only_line(capsys)

"""On a terminal: names of others without control characters, and bars of progress."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.main import run
from fairlead.cli.streams import progress_bar, stages_bar
from fairlead.service.client.exchange import Reply
from fairlead.service.messages import JobView

BAD = "a\x1b]0;title\x07\x9b31m\x7f\u202e\rb"
JOB: dict[str, Any] = {
    **dict.fromkeys(JobView.model_fields),
    **{"id": "1", "user": BAD, "name": BAD, "reason": BAD, "server": BAD, "demand": {}},
    **{"state": "failed", "tasks": 1, "running": 0, "submitted": 0.0, "exit_status": 3},
}
SERVER = {"name": BAD, "labels": {BAD: BAD}, "capacity": {}, "used": {}, "state": "ready"}


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["explain", "1"], {"text": f"1: {BAD}\n{BAD}", "reason": BAD}),
        (["when", "1"], {"job": "1", "state": "held", "starts": None, "reason": BAD}),
        (["jobs"], {"jobs": [JOB], "next": None}),
        (["wait", "1"], JOB),
        (["servers"], {"servers": [{**SERVER, "tasks": 0}]}),
        (["drain", "a"], {"name": BAD, "state": BAD}),
        (["submit", "--user", "ana", "--", "true"], {"ids": [BAD]}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_texts_of_a_service_are_printable(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    answer: dict[str, Any],
    is_json: bool,
) -> None:
    async def ask(*_: object) -> Reply:
        return Reply(200, {}, json.dumps(answer).encode())

    monkeypatch.setattr("fairlead.service.client.exchange.Channel.ask", ask)
    assert run([words[0], *(["--json"] if is_json else []), *words[1:]]) in (0, 3)
    said = "".join(capsys.readouterr())
    assert said.replace("\n", "").isprintable()
    assert "title" in said


def test_names_of_tokens_are_printable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, words = "a31m\u202eb", ["--db", str(tmp_path / "j.db")]
    assert run(["token", "add", name, *words]) == 0
    capsys.readouterr()
    assert run(["token", "list", *words]) == 0
    said = capsys.readouterr().out
    assert said.replace("\n", "").isprintable()
    assert "31m" in said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_each_replay_has_a_bar_with_its_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    with progress_bar("Filling") as silent:
        assert silent is None  # standard error is no terminal
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with stages_bar() as report:
        assert report is not None
        report("drf/best-fit", 50, 200, 5400.0)
        report("drf/best-fit, weight:[red]=2", 200, 200, 36_000.0)
    with progress_bar("Filling") as simple:
        assert simple is not None
        simple(3, 4)
    shown = screen.getvalue()
    assert "drf/best-fit, at 1.5 h" in shown
    assert "weight:[red]=2, at 10.0 h" in shown
    assert "Filling" in shown

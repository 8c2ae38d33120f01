"""Completion of words in shells."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fairlead.cli import completion
from fairlead.cli._application import FAIRLEAD
from fairlead.cli.main import run
from fairlead.service.client import calls

ASK = completion._ask


@pytest.fixture(autouse=True)
def _no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion.signal, "alarm", lambda _: None)
    answers = {
        "jobs": [{"id": "7"}, {"id": "17"}],
        "users": [{"name": "ana"}, {"name": "bo"}],
    }
    monkeypatch.setattr(completion, "_ask", lambda _, field: answers[field])


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["sub"], ["submit"]),
        (["submit", "--gp"], ["--gpu"]),
        (["submit", "--user", ""], ["ana", "bo"]),
        (["submit", "--cpu", ""], []),
        (["cancel", "1"], ["17"]),
        (["logs", "--follow", ""], ["17", "7"]),
        (["users", "a"], ["ana"]),
        (["ray", "sta"], ["start", "status"]),
        (["run", "--", "py"], []),
        (["no-such-verb", ""], []),
    ],
)
def test_what_may_follow(typed: list[str], found: list[str]) -> None:
    assert completion.candidates(typed) == found


def test_all_verbs_are_offered(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "words"]) == 0
    offered = capsys.readouterr().out.split()
    assert offered == sorted(offered)
    assert {*FAIRLEAD.verbs, "reproduce", "--help"} <= set(offered)


def test_the_service_is_that_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fairlead").mkdir()
    file = tmp_path / "fairlead" / "config.toml"
    file.write_text('server = "http://127.0.0.1:9"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("FAIRLEAD_SERVER", "")  # restored at the end
    monkeypatch.setattr("fairlead.service.client.plain_client.PATIENCE", 0.0)
    assert ASK(calls.USERS, "users") == []
    assert os.environ["FAIRLEAD_SERVER"] == "http://127.0.0.1:9"


@pytest.mark.parametrize("shell", [*filter(shutil.which, completion.SCRIPTS)])
def test_a_shell_of_this_machine_reads_its_script(shell: str) -> None:
    script = completion.SCRIPTS[shell]
    if shell == "bash":
        asks = "COMP_WORDS=(fairlead submit --gp) COMP_CWORD=2; _fairlead"
        fake = 'fairlead() { [ "$2 $4 $5" = "words submit --gp" ] && echo --gpu; }'
        script += f'{fake}\n{asks}; [ "$COMPREPLY" = --gpu ]\n'
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

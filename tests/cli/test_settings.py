"""The configuration file of the client commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.cli._settings import settings_before, settings_file
from fairlead.cli.main import run
from fairlead.cli.parameters import parameters_of
from fairlead.cli.submit import submit
from fairlead.errors import InputError

VERBS = ("submit", "jobs")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("FAIRLEAD_SERVER", "FAIRLEAD_TOKEN"):
        monkeypatch.setenv(name, "")  # so that it is restored


def configure(text: str) -> Path:
    path = settings_file()
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def words_of(text: str, *typed: str) -> list[str]:
    configure(text)
    return settings_before(typed, "submit", parameters_of(submit), VERBS)


def test_options_of_a_command_come_before_typed_ones() -> None:
    text = """
        [submit]
        cpu = 2
        memory = "4Gi"
        clean-env = true
        shell = false
        env = ["A=1", "B=2"]
        [jobs]
        user = "ana"
    """
    words = ["--cpu=2", "--memory=4Gi", "--clean-env", "--env=A=1", "--env=B=2"]
    assert words_of(text, "--cpu", "3") == [*words, "--cpu", "3"]


def test_without_a_file_nothing_changes() -> None:
    assert settings_before(["x"], "submit", parameters_of(submit), VERBS) == ["x"]


def test_the_environment_comes_before_service_and_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    text = f'server = "unix:/run/s"\ntoken-file = "{token}"\n'
    words_of(text)
    assert (os.environ["FAIRLEAD_SERVER"], os.environ["FAIRLEAD_TOKEN"]) == (
        "unix:/run/s",
        "secret",
    )
    monkeypatch.setenv("FAIRLEAD_SERVER", "unix:/other")
    words_of(text)
    monkeypatch.setenv("FAIRLEAD_TOKEN", "")
    words_of(text)
    assert os.environ["FAIRLEAD_SERVER"] == "unix:/other"
    assert os.environ["FAIRLEAD_TOKEN"] == ""  # another service does not get it
    monkeypatch.setenv("FAIRLEAD_SERVER", "")
    words_of(text, "--server", "unix:/third")
    assert os.environ["FAIRLEAD_TOKEN"] == ""
    token.chmod(0o644)
    with pytest.raises(InputError, match="other accounts can read it"):
        words_of(text)


@pytest.mark.parametrize(
    ("text", "place", "fault"),
    [
        ('[submit]\nscript = "a.sh"', "[submit] --script", "must be typed with each command"),
        ("[submit]\nx = " + "[" * 5000, "", "nested too deeply"),
        ("[submit]\ncpus = 2", "[submit] --cpus", "no such option"),
        ("[submit]\ncpu = true", "[submit] --cpu", "must be a text or a number"),
        ("[submit]\ncpu = [1, 2]", "[submit] --cpu", "must be a text or a number"),
        ("[submit]\nenv = [[1]]", "[submit] --env", "must be a text or a number"),
        ('[submit]\nshell = "yes"', "[submit] --shell", "must be true or false"),
        ("[sbmit]\ncpu = 2", "sbmit", "no such setting"),
        ("cpu = 2", "cpu", "no such setting"),
        ("server = 8400", "server", "must be text"),
        ("server = ", "", "Invalid value"),
        ("server = '\xff'", "", "utf-8"),
    ],
)
def test_a_wrong_setting_is_named(text: str, place: str, fault: str) -> None:
    path = configure("")
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=fault) as wrong:
        settings_before([], "submit", parameters_of(submit), VERBS)
    assert wrong.value.source == str(path)
    assert wrong.value.place == place


def test_help_is_shown_whatever_the_file_holds(capsys: pytest.CaptureFixture[str]) -> None:
    configure("nonsense")
    assert run(["jobs", "--help"]) == 0
    assert run(["jobs"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_jobs_of_a_file_have_no_options_of_the_settings() -> None:
    configure("[submit]\ncpu = 2\n")
    assert settings_before(["-f", "x"], "submit", None, VERBS) == ["-f", "x"]


def test_mechanisms_are_divided_without_settings(capsys: pytest.CaptureFixture[str]) -> None:
    configure("nonsense")
    assert run(["mechanisms", "--json"]) == 0
    assert capsys.readouterr().err == ""

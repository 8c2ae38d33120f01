"""The configuration file of the client commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.cli.clients.service_connection import apply_settings, settings_file
from fairlead.cli.main import run
from fairlead.errors import InputError


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


def apply(text: str, *typed: str) -> None:
    configure(text)
    apply_settings(typed)


def test_without_a_file_nothing_changes() -> None:
    apply_settings(["x"])
    assert os.environ["FAIRLEAD_SERVER"] == ""


def test_the_environment_comes_before_service_and_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    text = f'server = "unix:/run/s"\ntoken-file = "{token}"\n'
    apply(text)
    assert (os.environ["FAIRLEAD_SERVER"], os.environ["FAIRLEAD_TOKEN"]) == (
        "unix:/run/s",
        "secret",
    )
    monkeypatch.setenv("FAIRLEAD_SERVER", "unix:/other")
    apply(text)
    monkeypatch.setenv("FAIRLEAD_TOKEN", "")
    apply(text)
    assert os.environ["FAIRLEAD_SERVER"] == "unix:/other"
    assert os.environ["FAIRLEAD_TOKEN"] == ""  # another service does not get it
    monkeypatch.setenv("FAIRLEAD_SERVER", "")
    apply(text, "--server", "unix:/third")
    assert os.environ["FAIRLEAD_TOKEN"] == ""
    token.chmod(0o644)
    with pytest.raises(InputError, match="other accounts can read it"):
        apply(text)


@pytest.mark.parametrize(
    ("text", "place", "fault"),
    [
        ("x = " + "[" * 5000, "", "nested too deeply"),
        ("[submit]\ncpu = 2", "submit", "no such setting; there are server and token-file"),
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
        apply_settings([])
    assert wrong.value.source == str(path)
    assert wrong.value.place == place


def test_help_is_shown_whatever_the_file_holds(capsys: pytest.CaptureFixture[str]) -> None:
    configure("nonsense")
    assert run(["jobs", "--help"]) == 0
    assert run(["jobs"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_mechanisms_are_divided_without_settings(capsys: pytest.CaptureFixture[str]) -> None:
    configure("nonsense")
    assert run(["mechanisms", "--json"]) == 0
    assert capsys.readouterr().err == ""

"""No verb without an example in its help and a section in the README; help stays light."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from small_problems import ROOT
from typer.main import get_command

from fairlead.cli.main import app, run

VERBS = [command.name or command.callback.__name__ for command in app.registered_commands]
VERBS += [group.name for group in app.registered_groups]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_shows_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert re.search(rf"Examples?:\n(?:.*\n)*?\s+fairlead {verb}\b", out), out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_documented_with_an_example(verb: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^### `fairlead {verb}\b", readme, re.MULTILINE)
    assert re.search(rf"^fairlead {verb} ?", readme, re.MULTILINE)


def test_every_option_says_what_it_does() -> None:
    group = get_command(app)
    parameters = [p for verb in VERBS for p in group.commands[verb].params]
    assert parameters
    assert [p.name for p in parameters if not p.help] == []


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out, _ = capsys.readouterr()
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", out, re.MULTILINE)


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: fairlead")
    assert err == ""


def test_help_imports_neither_compiler_nor_pictures() -> None:
    program = (
        "import sys; from fairlead.cli.main import run; run(['allocate', '--help']); "
        "print([m for m in ('numba', 'plotly', 'jinja2', 'rich', 'highspy', 'yaml') "
        "if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "[]\n"


def test_the_console_script_is_run() -> None:
    (script,) = entry_points(group="console_scripts", name="fairlead")
    assert script.load() is run

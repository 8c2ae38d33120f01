"""Every verb has an example in its help and a row in docs/commands.md; help imports little."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from fairlead.cli._application import FAIRLEAD, Group, Verb
from fairlead.cli.main import run
from fairlead.cli.parameters import parameters_of
from small_problems import ROOT


def verbs(entry: Verb | Group, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Verb]:
    """Return every verb by its words, also verbs of groups, such as `trace convert`."""
    if isinstance(entry, Verb):
        return {path: entry}
    found: dict[tuple[str, ...], Verb] = {}
    for name, inner in entry.verbs.items():
        found |= verbs(inner, (*path, name))
    return found


BY_WORDS = verbs(FAIRLEAD)
VERBS = [" ".join(words) for words in BY_WORDS]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_shows_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*verb.split(), "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert re.search(rf"Examples?:\n(?:.*\n)*?\s+fairlead {verb}\b", out), out


@pytest.mark.parametrize("verb", VERBS)
def test_a_table_of_the_page_lists_every_verb(verb: str) -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| [^|]*`{verb}[` ]", page, re.MULTILINE)


def test_every_option_says_what_it_does() -> None:
    parameters = [p for verb in BY_WORDS.values() for p in parameters_of(verb.load())]
    assert parameters
    assert [p.name for p in parameters if not p.declared.help] == []


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out, _ = capsys.readouterr()
    for first, *_ in BY_WORDS:
        assert re.search(rf"^  {first} ", out, re.MULTILINE)


def test_help_imports_no_numbers_and_no_pictures() -> None:
    program = (
        "import sys; from fairlead.cli.main import run; run(['allocate', '--help']); "
        "print([m for m in ('numpy', 'jinja2', 'rich', 'highspy', 'yaml_rs') "
        "if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "[]\n"

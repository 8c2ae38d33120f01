"""Other packages add verbs by entry points, as docs/contributing/add-a-verb.md shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from small_problems import ROOT, install

Process = Callable[..., subprocess.CompletedProcess[str]]
GUIDE = (ROOT / "docs" / "contributing" / "add-a-verb.md").read_text(encoding="utf-8")
MODULE, PROJECT, SHOWN = re.findall(r"^```\w+\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
PROBLEM = """
fairlead: 1
servers: [{name: a, capacity: {cpu: 64, memory: 64}}]
users:
  - {name: ana, demand: {cpu: 0.5, memory: 2}}
  - {name: bo, demand: {cpu: 4, memory: 1}}
  - {name: cy, demand: {cpu: 1, memory: 8}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which is on the path and has the package of the guide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("cheapest", "broken_module", "plain"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "cheapest.py").write_text(MODULE)
    (tmp_path / "cluster.yaml").write_text(PROBLEM)
    (verbs,) = re.findall(r"^cheapest = \"(.*)\"$", PROJECT, re.MULTILINE)
    install(tmp_path, "cheapest", f"[fairlead.verbs]\ncheapest = {verbs}")
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_verb_of_the_guide_runs(command: Process) -> None:
    shown, *lines = SHOWN.splitlines()
    words = shown.removeprefix("$ fairlead ").split()
    assert command(*words).stdout.splitlines() == lines
    assert command(*words, "--by", "memory").stdout.split()[0] == "bo"


@pytest.mark.usefixtures("folder")
def test_help_lists_added_verbs(command: Process) -> None:
    assert re.search("^  cheapest +List users", command("--help").stdout, re.MULTILINE)
    assert "--by=RESOURCE" in command("cheapest", "--help").stdout


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "words", [["cheapest"], ["cheapest", "gone.yaml"], ["cheapst", "cluster.yaml"]]
)
def test_faults_of_added_verbs_are_one_line(words: list[str], command: Process) -> None:
    done = command(*words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("fairlead: ")


@pytest.mark.parametrize("source", [None, "raise ValueError('two\\nlines')", "other = 1"])
def test_a_verb_that_cannot_be_imported_hides_no_other(
    folder: Path, source: str | None, command: Process
) -> None:
    if source is not None:
        (folder / "broken_module.py").write_text(source)
    install(folder, "broken", "[fairlead.verbs]\nbroken = broken_module:verb")
    done = command("broken")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "broken_module:verb: cannot be loaded" in done.stderr
    shown = command("--help").stdout
    assert "cheapest" in shown
    assert "broken_module" in shown


@pytest.mark.parametrize("annotation", ["str", "'NoSuchType'"])
@pytest.mark.parametrize("words", [["plain"], ["plain", "--help"]])
def test_an_undeclared_parameter_is_named(
    folder: Path, annotation: str, words: list[str], command: Process
) -> None:
    (folder / "plain.py").write_text(f'def verb(path: {annotation}) -> None:\n    """Do."""\n')
    install(folder, "plain", "[fairlead.verbs]\nplain = plain:verb")
    done = command(*words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "plain:verb" in done.stderr


def test_verbs_of_fairlead_keep_their_names(folder: Path, command: Process) -> None:
    install(folder, "other", "[fairlead.verbs]\nallocate = cheapest:cheapest")
    assert "--by" not in command("allocate", "--help").stdout
    assert command("--help").stdout.count("  allocate ") == 1

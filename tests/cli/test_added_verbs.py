"""Other packages add verbs by entry points, as docs/contributing/add-a-verb.md shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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


def install(folder: Path, name: str, verbs: str) -> None:
    """Write the files that an installer writes for a package with entry points."""
    metadata = folder / f"{name}-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[fairlead.verbs]\n{verbs}\n")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fairlead", *words],
        env={"PYTHONPATH": str(folder)}, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder on the path with the package of the guide."""
    (tmp_path / "cheapest.py").write_text(MODULE)
    (tmp_path / "cluster.yaml").write_text(PROBLEM)
    (verbs,) = re.findall(r"^cheapest = \"(.*)\"$", PROJECT, re.MULTILINE)
    install(tmp_path, "cheapest", f"cheapest = {verbs}")
    return tmp_path


def test_the_verb_of_the_guide_runs(folder: Path) -> None:
    command, *lines = SHOWN.splitlines()
    words = command.removeprefix("$ fairlead ").split()
    assert run(folder, *words).stdout.splitlines() == lines
    assert run(folder, *words, "--by", "memory").stdout.split()[0] == "bo"


def test_help_lists_added_verbs(folder: Path) -> None:
    rows = run(folder, "--help").stdout.splitlines()
    shown = {
        row.partition("  List users by what")[0].strip() for row in rows if "List users" in row
    }
    assert "cheapest" in shown
    assert "--by=RESOURCE" in run(folder, "cheapest", "--help").stdout


def test_faults_of_added_verbs_are_one_line(folder: Path) -> None:
    for words in (["cheapest"], ["cheapest", "gone.yaml"], ["cheapst", "cluster.yaml"]):
        done = run(folder, *words)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("fairlead: ")


@pytest.mark.parametrize("source", [None, "raise ValueError('two\\nlines')", "other = 1"])
def test_a_verb_that_cannot_be_imported_hides_no_other(folder: Path, source: str | None) -> None:
    if source is not None:
        (folder / "broken_module.py").write_text(source)
    install(folder, "broken", "broken = broken_module:verb")
    done = run(folder, "broken")
    assert done.returncode == 2
    assert "broken_module:verb: cannot be loaded" in done.stderr
    assert done.stderr.count("\n") == 1
    shown = run(folder, "--help").stdout
    assert "cheapest" in shown
    assert "broken_module" in shown


@pytest.mark.parametrize("annotation", ["str", "'NoSuchType'"])
def test_an_undeclared_parameter_is_named(folder: Path, annotation: str) -> None:
    (folder / "plain.py").write_text(f'def verb(path: {annotation}) -> None:\n    """Do."""\n')
    install(folder, "plain", "plain = plain:verb")
    for words in (["plain"], ["plain", "--help"]):
        done = run(folder, *words)
        assert done.returncode == 2
        assert "plain:verb" in done.stderr
        assert done.stderr.count("\n") == 1


def test_verbs_of_fairlead_keep_their_names(folder: Path) -> None:
    install(folder, "other", "allocate = cheapest:cheapest")
    assert "--by" not in run(folder, "allocate", "--help").stdout
    assert run(folder, "--help").stdout.count("  allocate ") == 1

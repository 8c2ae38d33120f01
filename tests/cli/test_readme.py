"""The commands and programs that the README shows do what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from small_problems import ROOT

from fairlead.mechanisms.catalogue import CATALOGUE

README = (ROOT / "README.md").read_text(encoding="utf-8")
RUNNABLE = re.findall(r"<!-- tested -->\n```sh\n(.*?)```", README, re.DOTALL)
COMMANDS = [line for block in RUNNABLE for line in block.splitlines() if line.strip()]
PROBLEM = re.findall(r"```yaml\n(fairlead: 1\n.*?)```", README, re.DOTALL)
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the README's problem as cluster.yaml, beside the examples."""
    (tmp_path / "cluster.yaml").write_text(PROBLEM[0], encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def test_the_readme_has_something_to_run() -> None:
    assert len(COMMANDS) >= 4
    assert len(PROBLEM) == 1
    assert PROGRAMS


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, folder: Path) -> None:
    words = shlex.split(command, comments=True)
    assert words[0] == "fairlead"
    done = subprocess.run(
        [sys.executable, "-m", "fairlead.cli.main", *words[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    # An audit that finds something has run.
    assert done.returncode in ((0, 1) if words[1] == "audit" else (0,)), done.stderr
    assert done.stdout
    if "--report" in words:
        assert (folder / words[words.index("--report") + 1]).exists()


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_run(program: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr


def test_the_table_of_mechanisms_is_the_catalogues() -> None:
    rows = re.findall(
        r"^\| `([a-z0-9-]+)` \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", README, re.MULTILINE
    )
    short = {
        "sharing-incentive": "SI",
        "envy-freeness": "EF",
        "pareto-optimality": "PO",
        "strategy-proofness": "SP",
    }
    assert rows == [
        (
            row.name,
            ", ".join(row.accepts),
            ", ".join(
                f"{short[claim.property]}{'*' if claim.without else ''}"
                for claim in row.proved
                if claim.property in short
            )
            or "nothing",
        )
        for row in CATALOGUE.values()
    ]

"""Guides for contributors: a policy is added to the scheduler, and followed in pdb, as shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fairlead
from fairlead.scheduler import policies

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "contributing" / "add-a-policy.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(?:py|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
CRITERION, IMPORT, ROW, EXAMPLE = BLOCK.findall(GUIDE)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with the criterion of the guide, and its row in the table."""
    copied = tmp_path_factory.mktemp("copy") / "fairlead"
    sources = Path(fairlead.__file__).parent
    shutil.copytree(sources, copied, ignore=shutil.ignore_patterns("*.so", "*.checksum", "__py*"))
    table = copied / Path(policies.__file__).relative_to(sources).with_name("policies.py")
    (named,) = re.findall(r"^Write `src/fairlead/(.*)`:$", GUIDE, re.MULTILINE)
    (copied / named).write_text(CRITERION, encoding="utf-8")
    text = table.read_text(encoding="utf-8")
    opens = "ROWS: dict[str, Row] = {\n"
    assert opens in text
    table.write_text(text.replace(opens, f"{IMPORT}\n{opens}{ROW}"), encoding="utf-8")
    return copied


def run_beside(package: Path, *words: str) -> None:
    paths = os.pathsep.join([str(package.parent), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": paths, "FAIRLEAD_PLAIN": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_example_of_the_guide(package: Path) -> None:
    run_beside(package, "-c", EXAMPLE)


def test_the_added_policy_places_as_defined(package: Path) -> None:
    run_beside(package, "-m", "oracles.plain_attained_service")


def test_the_session_of_the_debugger_runs_as_shown(tmp_path: Path) -> None:
    page = ROOT / "docs" / "contributing" / "debugging.md"
    text = page.read_text(encoding="utf-8")
    program = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    (session,) = re.findall(r"```[a-z]*\n((?:[^`]*\n)?\(Pdb\).*?)```", text, re.DOTALL)
    (tmp_path / "follow.py").write_text(program, encoding="utf-8")
    commands = re.findall(r"^\(Pdb\) (.*)$", session, re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-m", "pdb", "follow.py"],
        input="\n".join([*commands, "q", ""]),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "FAIRLEAD_PLAIN": "1"},
        timeout=300,
        check=False,
    )
    printed = done.stdout
    for line in session.splitlines():
        if line.startswith(("(Pdb)", ">")):
            continue
        assert line in printed, f"{line}\n{printed}"
    for function in re.findall(r"^> .*\)(\w+\(\))$", session, re.MULTILINE):
        assert function in printed

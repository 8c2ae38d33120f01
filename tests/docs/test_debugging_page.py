"""The session of docs/contributing/debugging.md runs in pdb as shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "debugging.md"


def test_the_session_of_the_debugger_runs_as_shown(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
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

"""Compiled kernels are renewed when a function that they call changes in another file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
PROGRAM = """
from fairlead import Problem
from fairlead.model.whole_pool import to_whole_pool
from fairlead.optimize.whole_tasks import serve_by_turns
pool = to_whole_pool(Problem.from_arrays([[1]], [[1], [1]]))
print(serve_by_turns(pool, stops=False).tolist())
"""


def test_a_change_of_the_order_of_turns_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src")}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", PROGRAM]

    def answer() -> str:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment
        ).stdout

    assert answer() == "[1, 0]\n"
    turns = tmp_path / "src" / "fairlead" / "optimize" / "turns.py"
    text = turns.read_text(encoding="utf-8")
    assert text.count("    return n < m\n") == 1
    turns.write_text(text.replace("    return n < m\n", "    return n > m\n"), encoding="utf-8")
    assert answer() == "[0, 1]\n"

"""Compiled kernels are renewed when a function that they call changes in another file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
KERNEL = """
from fairlead.optimize.compiling import compiled
from fairlead.optimize.turns import precedes

@compiled
def first_goes_first(numbers, step):
    return precedes(0, 0, 1, 0, numbers, numbers, step)
"""
PROGRAM = """
import numpy as np
from fairlead.optimize.first import first_goes_first
print(first_goes_first(np.ones(2, dtype=int), np.ones(2)))
"""


def test_a_change_of_the_order_of_turns_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    optimize = tmp_path / "src" / "fairlead" / "optimize"
    (optimize / "first.py").write_text(KERNEL, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src")}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", PROGRAM]

    def answer() -> str:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment
        ).stdout

    assert answer() == "True\n"
    turns = optimize / "turns.py"
    text = turns.read_text(encoding="utf-8")
    assert text.count("    return n < m\n") == 1
    turns.write_text(text.replace("    return n < m\n", "    return n > m\n"), encoding="utf-8")
    assert answer() == "False\n"

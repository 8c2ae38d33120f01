"""Compiled kernels are renewed when a function that they call changes in another file.

And when a class has another name that they were compiled for.
"""

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


NAMED = """
from typing import NamedTuple
from fairlead.optimize.compiling import compiled

class Older(NamedTuple):
    number: int

@compiled
def twice(pair):
    return 2 * pair.number

if __name__ != "__main__":
    print(twice(Older(21)))
"""


def copied(folder: Path) -> Path:
    shutil.copytree(SOURCE, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "src" / "fairlead" / "optimize"


def answer(source: Path, program: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(source.parents[1])}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def test_a_change_of_the_order_of_turns_is_noticed(tmp_path: Path) -> None:
    optimize = copied(tmp_path)
    (optimize / "first.py").write_text(KERNEL, encoding="utf-8")
    assert answer(optimize, PROGRAM) == "True\n"
    turns = optimize / "turns.py"
    text = turns.read_text(encoding="utf-8")
    assert text.count("    return n < m\n") == 1
    turns.write_text(text.replace("    return n < m\n", "    return n > m\n"), encoding="utf-8")
    assert answer(optimize, PROGRAM) == "False\n"


def test_a_class_may_have_another_name(tmp_path: Path) -> None:
    """What was compiled before is not read: the names of classes in it are not there any more."""
    optimize = copied(tmp_path)
    for name in ("Older", "Newer"):
        (optimize / "named.py").write_text(NAMED.replace("Older", name), encoding="utf-8")
        assert answer(optimize, "import fairlead.optimize.named") == "42\n"

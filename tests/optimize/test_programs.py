"""Kernels are parts of what Python calls: compiled for any number, kept apart, linked again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.optimize.compiling import IS_LINKED

pytestmark = pytest.mark.skipif(not IS_LINKED, reason="numba is of another version")
KERNELS = """
import numpy as np
from fairlead.optimize.compiling import compiled, entry_kernel, inner_kernel, separate_kernel

@inner_kernel
def item(numbers, position):
    return min(numbers[position], 9)

@separate_kernel
def total(numbers, end):
    sum = 0
    for position in range(end):
        sum += item(numbers, position)
    return sum

@entry_kernel
def first_two(numbers):
    return total(numbers, 2)

@entry_kernel
def twice(numbers, end):
    return total(numbers, end) + first_two(numbers)

@compiled
def ones(end):
    return twice(np.ones(end, dtype=np.int64), end)
"""
COUNT = """
from numba.core import event
names = []
class Names(event.Listener):
    def on_start(self, started):
        function = started.data["dispatcher"].py_func
        if function.__module__ == "kernels":
            names.append(function.__name__)
    def on_end(self, ended):
        pass
import kernels
event.register("numba:compile", Names())
"""
NUMBERS = "kernels.np.arange(4)"


def answer(folder: Path, program: str, **variables: str) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")} | variables
    command = [sys.executable, "-c", COUNT + program]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, env=environment
    ).stdout


def test_a_constant_is_a_number_like_others_and_parts_are_kept(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    first = f"print(kernels.first_two({NUMBERS}), names)"
    assert answer(tmp_path, first) == "1 ['first_two', 'total', 'item']\n"
    # What calls the same afterwards finds it on disk; so do functions that numba itself compiles.
    both = f"print(kernels.twice({NUMBERS}, 4), kernels.ones(3), names)"
    assert answer(tmp_path, both) == "7 5 ['twice', 'first_two', 'ones', 'twice']\n"
    assert answer(tmp_path, both) == "7 5 []\n"


def test_bounds_are_checked_in_parts(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    program = f"""
for function in (kernels.first_two, lambda numbers: kernels.twice(numbers, 9)):
    try:
        print(function({NUMBERS}))
    except IndexError as error:
        print(error)
"""
    expected = "1\nindex is out of bounds\n"
    for _ in range(2):
        assert answer(tmp_path, program, NUMBA_BOUNDSCHECK="1") == expected

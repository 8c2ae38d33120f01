"""Kernels run as the Python that they are written in, where compiling them would take longer.

What they decide is the same, and a place beyond the end of an array is an error then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import fairlead
from fairlead.optimize import double_double

DIVIDE = double_double.divide


def lowest_bit(word: int) -> int:
    return (int(word) & -int(word)).bit_length() - 1


def highest_bit(word: int) -> int:
    return int(word).bit_length() - 1


def divide(*pairs: float) -> tuple[float, float]:
    plain: Any = getattr(DIVIDE, "py_func", DIVIDE)
    high, low = plain(*map(np.float64, pairs))
    return high, low


# What Python does otherwise: it has no instruction for bits, and does not divide floats by zero.
REPLACED: dict[str, Callable[..., Any]] = {
    "lowest_bit": lowest_bit,
    "highest_bit": highest_bit,
    "divide": divide,
}


@cache
def all_modules() -> dict[str, ModuleType]:
    """All modules of the library, imported."""
    for module in walk_packages(fairlead.__path__, "fairlead."):
        import_module(module.name)
    return {n: module for n, module in sys.modules.items() if n.partition(".")[0] == "fairlead"}


@cache
def kernels_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """What a module calls that is compiled, and the Python that runs instead."""
    plain = {n: v.py_func for n, v in vars(module).items() if isinstance(v, Dispatcher)}
    return {name: REPLACED.get(function.__name__, function) for name, function in plain.items()}


@pytest.fixture
def uncompiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have no kernel compiled that a test calls, nor what its module imported."""
    for module in [*all_modules().values(), request.module]:
        for name, plain in kernels_of(module).items():
            monkeypatch.setattr(module, name, plain)
    with np.errstate(all="ignore"):  # what is infinite, or wraps, is meant to
        yield

"""Kernels run as the Python that they are written in, where compiling them would take longer.

What they decide is the same, and a place beyond the end of an array is an error then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from fairlead import scheduler
from fairlead.optimize import double_double
from fairlead.scheduler.policies import CRITERIA, SELECTIONS, Policy

DIVIDE = double_double.divide
# Kernels are imported when a policy first asks for them.
for _criterion in CRITERIA:
    for _select, _row in SELECTIONS.items():
        if _row.places:
            assert Policy(_criterion, _select).kernel


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


def imported() -> dict[str, ModuleType]:
    """The modules of the library that are there; the scheduler's are named in its table."""
    for module in iter_modules(scheduler.__path__):
        import_module(f"fairlead.scheduler.{module.name}")
    return {n: module for n, module in sys.modules.items() if n.partition(".")[0] == "fairlead"}


@pytest.fixture
def uncompiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have no kernel compiled that a test calls, nor what its module imported."""
    modules = imported()
    for module in [*modules.values(), request.module]:
        for name, value in list(vars(module).items()):
            if isinstance(value, Dispatcher):
                plain = value.py_func
                monkeypatch.setattr(module, name, REPLACED.get(plain.__name__, plain))
    with np.errstate(all="ignore"):  # what is infinite, or wraps, is meant to
        yield
    assert imported().keys() == modules.keys(), "what is imported now would stay uncompiled"

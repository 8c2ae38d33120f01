"""Compiling asks for room for frames once, however deep calls go, and collects no garbage."""

from __future__ import annotations

import gc
import pickle
import resource
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError

from fairlead.optimize import compiling


def go_down(depth: int) -> int:
    return 1 + go_down(depth - 1) if depth else 0


def pages_of_going_up_and_down() -> int:
    """Return how many pages were new while calls got deeper and returned, over and over again."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for depth in range(0, 400, 10):
        for _ in range(20):
            go_down(depth)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(compiling.config.DISABLE_JIT, reason="nothing is compiled")
def test_what_compiles_has_room_for_frames() -> None:
    @compiling.compiled
    def nothing() -> None:
        pass

    compiled_by = nothing.compile.func  # type: ignore[attr-defined]
    compiled_by(go_down, 400)
    assert compiled_by(pages_of_going_up_and_down) < 300  # else a page or more each time


@pytest.mark.skipif(compiling.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_while_something_compiles(collects: bool) -> None:
    @compiling.compiled
    def nothing() -> None:
        pass

    compiled_by = nothing.compile.func  # type: ignore[attr-defined]
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        assert not compiled_by(compiled_by, gc.isenabled)  # one compiles what it calls
        with pytest.raises(ZeroDivisionError):
            compiled_by(lambda: 1 // 0)
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()


@compiling.entry_kernel
def doubled(value: Any, switch: Any) -> Any:
    """Return twice a number, and one more where a switch is on."""
    if switch is not None:
        return 2 * value + 1
    return 2 * value


def test_direct_calls_are_told_apart_by_the_classes_of_arguments() -> None:
    call = compiling.DirectCalls()
    for _ in range(3):
        assert [call(doubled, 4, None), call(doubled, 4, 1)] == [8, 9]
        assert [call(doubled, 0.25, None), call(doubled, 0.25, 1)] == [0.5, 1.5]
        assert call(doubled, np.int64(2), None) == 4
        assert call(lambda value: value, "as it is") == "as it is"
    if not compiling.config.DISABLE_JIT:
        assert len(call._entries) == 5
    for copied in (deepcopy(call), pickle.loads(pickle.dumps(call))):
        assert not copied._entries
        assert copied(doubled, 4, 1) == 9


@pytest.mark.skipif(compiling.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_direct_call_still_refuses_what_is_no_number() -> None:
    call = compiling.DirectCalls()
    assert call(doubled, 4, 1) == 9
    with pytest.raises(TypingError):
        call(doubled, "4", 1)

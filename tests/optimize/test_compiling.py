"""Compiling asks the system for room for Python's frames once, however deep its calls go."""

from __future__ import annotations

import resource

import pytest

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

"""An interruption while LLVM works is handed over when the function is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from signal import SIGINT, default_int_handler, getsignal, raise_signal, signal

import pytest
from numba.core import event

import fairlead.optimize.compiling  # noqa: F401 (it listens from then on)


@pytest.fixture(autouse=True)
def _interruptions_are_heard() -> Iterator[None]:
    """Hear them even where whoever started the tests ignores them."""
    before = signal(SIGINT, default_int_handler)
    yield
    signal(SIGINT, before)


def compile_interrupted(steps: list[str]) -> None:
    with event.trigger_event("numba:compile"):
        raise_signal(SIGINT)
        steps.append("compiled")


def compile_caller(steps: list[str]) -> None:
    with event.trigger_event("numba:compile"):
        compile_interrupted(steps)
        steps.append("went on")


def test_interruptions_wait_until_a_function_is_compiled_but_not_its_callers() -> None:
    for compiling in (compile_interrupted, compile_caller):
        before, steps = getsignal(SIGINT), list[str]()
        with pytest.raises(KeyboardInterrupt):
            compiling(steps)
        assert steps == ["compiled"]
        assert getsignal(SIGINT) is before


def test_compiling_without_interruption_changes_nothing() -> None:
    before = getsignal(SIGINT)
    with event.trigger_event("numba:compile"):
        pass
    assert getsignal(SIGINT) is before

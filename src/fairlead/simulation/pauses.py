"""Pauses of a compiled replay, so that an interruption is heard and progress is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from fairlead.model.cluster import BoolArray

# Between two returns of what is compiled, which hears of no interruption and reports nothing.
SECONDS_BETWEEN_PAUSES = 0.1

Progress = Callable[[int, float], None]


@contextmanager
def paused_often(pause: BoolArray) -> Iterator[None]:
    """Ask for a pause every `SECONDS_BETWEEN_PAUSES`, from another thread, until the block ends."""
    is_over = Event()

    def ask() -> None:
        while not is_over.wait(SECONDS_BETWEEN_PAUSES):
            pause[0] = True

    asking = Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield
    finally:
        is_over.set()
        asking.join()

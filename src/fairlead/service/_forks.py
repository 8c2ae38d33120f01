"""Copies of the process that compute from a state without delaying its thread."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Generator
from contextlib import suppress
from time import monotonic

PART_BYTES = 2**20


class ForkError(Exception):
    """A copy of the process ended without its answer."""


class Fork:
    """A forked child that writes bytes into a pipe, and their reader.

    The child has the state as of the fork; the system copies only the memory that changes later.
    Raises `OSError` if no child can be made.
    """

    def __init__(self, compute: Callable[[], bytes]) -> None:
        self._reading, writing = os.pipe()
        try:
            self._process = os.fork()
        except OSError:
            os.close(self._reading)
            os.close(writing)
            raise
        if not self._process:
            _write_and_exit(compute, writing)
        os.close(writing)
        self.since = monotonic()

    def kill(self) -> None:
        """End the child; call it only before `parts` has ended."""
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)

    def parts(self) -> Generator[bytes]:
        """Yield the bytes in parts; raise `ForkError` if they are not whole."""
        try:
            with os.fdopen(self._reading, "rb") as pipe:
                while part := pipe.read(PART_BYTES):
                    yield part
        finally:
            _, status = os.waitpid(self._process, 0)
        if status:
            raise ForkError(f"the copy of the process ended with status {status}")


def _write_and_exit(compute: Callable[[], bytes], writing: int) -> None:
    """In the forked child: write the bytes and exit without cleanup."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service decides what a Ctrl-C means
        gc.disable()  # it would touch, and so copy, all of the memory
        os.nice(5)
        os.dup2(writing, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # the child must hold no port and no lock
        with os.fdopen(3, "wb") as pipe:
            pipe.write(compute())
        status = 0
    finally:
        os._exit(status)

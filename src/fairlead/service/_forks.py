"""Forked copies of the process, which compute from a state without delaying the state's thread."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from threading import Thread, Timer
from time import monotonic
from typing import Generic, TypeVar

from fairlead.errors import FairleadError
from fairlead.service.journal.event_journal import Journal, JournalError
from fairlead.service.messages import UnavailableError
from fairlead.service.service_state import ServiceState

LOG = logging.getLogger("fairlead.service")
PART_BYTES = 2**20  # read at once from the pipe
ANSWER_SECONDS = 30.0  # after which a child that computes an answer is killed
LOW_PRIORITY = 5  # niceness of children that may take long, so that the service comes first


class ForkError(Exception):
    """A forked child failed before it had written all of its bytes."""


class Fork:
    """A forked child that writes bytes into a pipe, and the reader of these bytes.

    The child has the state at the fork; the system copies only memory that changes later. Raises
    `OSError` if no child can be made.
    """

    def __init__(self, compute: Callable[[], bytes], niceness: int = LOW_PRIORITY) -> None:
        self._reading, writing = os.pipe()
        try:
            self._process = os.fork()
        except OSError:
            os.close(self._reading)
            os.close(writing)
            raise
        if not self._process:
            _write_and_exit(compute, writing, niceness)
        os.close(writing)
        self.since = monotonic()

    def kill(self) -> None:
        """Kill the child. Not after the end of `parts`: another process may have its number."""
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)

    def parts(self) -> Generator[bytes]:
        """Yield the bytes in parts; raise `ForkError` if the child failed before their end."""
        try:
            with os.fdopen(self._reading, "rb") as pipe:
                while part := pipe.read(PART_BYTES):
                    yield part
        finally:
            _, status = os.waitpid(self._process, 0)
        if status:
            raise ForkError(f"the copy of the process ended with status {status}")


Answer = TypeVar("Answer")


class AnswerFork(Generic[Answer]):
    """A forked child that computes an answer, or raises a `FairleadError`.

    Raises `UnavailableError` if no child can be made. `work` is its name in messages.
    """

    def __init__(
        self, compute: Callable[[], Answer], work: str, niceness: int = LOW_PRIORITY
    ) -> None:
        def compute_bytes() -> bytes:
            try:
                return pickle.dumps(compute())
            except FairleadError as fault:
                return pickle.dumps(fault)

        self._work = work
        try:
            self._fork = Fork(compute_bytes, niceness)
        except OSError as fault:
            raise UnavailableError(f"{work} cannot start: {fault.strerror}") from None

    def answer(self) -> Answer:
        """Wait for the answer; raise the child's error, or `UnavailableError` if it is too slow."""
        timer = Timer(ANSWER_SECONDS, self._fork.kill)
        timer.start()
        try:
            found = pickle.loads(b"".join(self._fork.parts()))
        except ForkError:
            fault = f"{self._work} failed, or took more than {ANSWER_SECONDS:.0f} s"
            raise UnavailableError(fault) from None
        finally:
            timer.cancel()
        if isinstance(found, FairleadError):
            raise found
        answer: Answer = found
        return answer


class SnapshotFork:
    """A forked child that writes a snapshot, and a thread that saves it."""

    def __init__(self, state: ServiceState, journal: Journal) -> None:
        self._fork = Fork(state.snapshot)
        self.since = self._fork.since
        self.reader = Thread(
            target=self._save, args=(journal, journal.seq), name="snapshot", daemon=True
        )
        self.reader.start()

    def end(self) -> None:
        if self.reader.is_alive():
            self._fork.kill()
        self.reader.join()

    def _save(self, journal: Journal, seq: int) -> None:
        try:
            with closing(self._fork.parts()) as parts:
                journal.save(seq, parts)
        except (ForkError, JournalError) as fault:
            LOG.warning("no snapshot could be kept", extra={"fault": str(fault)})


def _write_and_exit(compute: Callable[[], bytes], writing: int, niceness: int) -> None:
    """In the forked child: write the bytes and exit without cleanup."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service handles a Ctrl-C
        gc.disable()  # a scan would write to all of the memory, and so copy it
        os.nice(niceness)
        os.dup2(writing, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # the child must hold no port and no lock
        with os.fdopen(3, "wb") as pipe:
            pipe.write(compute())
        status = 0
    finally:
        os._exit(status)

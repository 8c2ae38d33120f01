"""Work on the processors of this machine.

Its processes end with the one that started them, and leave interruptions to it.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread
from time import monotonic
from typing import Any

from fairlead.errors import FairleadError
from fairlead.executors.executor import Answer, WorkerDiedError

SECONDS_BETWEEN_REPORTS = 0.1


class Processes:
    """Processes of this machine; see `fairlead.executors.executor.Executor`.

    Parameters
    ----------
    count : int, optional
        How many at a time; as many as there are processors when absent. With one, everything
        happens in this process.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = count or os.cpu_count() or 1

    @property
    def is_here(self) -> bool:
        """Whether its processes are copies of this one."""
        return self.count > 1

    def do_all(
        self,
        work: Callable[..., Answer],
        jobs: Sequence[Any],
        on_finished: Callable[[int, Answer], None],
        on_report: Callable[..., None] | None = None,
    ) -> None:
        """Do the same work for each of several jobs; see `Executor`."""
        if self.count == 1:
            for number, job in enumerate(jobs):
                listens = () if on_report is None else (partial(on_report, number),)
                on_finished(number, work(job, *listens))
            return
        # A forked process has the jobs and the imported modules at no cost. It only computes, and
        # leaves what has threads of its own, such as writing files, to this process.
        context: Any = get_context("fork" if sys.platform == "linux" else None)
        waiting = iter(range(len(jobs)))
        running: dict[Any, tuple[Any, int]] = {}
        try:
            for number in islice(waiting, min(self.count, len(jobs))):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_serve, args=(work, jobs, on_report is not None, theirs), daemon=True
                )
                with interruptions_held():
                    process.start()
                theirs.close()
                running[ours] = process, number
                _give(ours, number)
            while running:
                ready: list[Any] = list(wait(list(running)))
                for connection in ready:
                    process, number = running[connection]
                    is_over, answer = _receive(connection, process, number)
                    if not is_over:
                        assert on_report is not None
                        on_report(number, *answer)
                        continue
                    following = next(waiting, None)
                    _give(connection, following)
                    if following is None:
                        del running[connection]
                        process.join()
                        connection.close()
                    else:
                        running[connection] = process, following
                    on_finished(number, answer)
        finally:
            for process, _ in running.values():
                process.terminate()
            for process, _ in running.values():
                process.join()


def _serve(
    work: Callable[..., Any], jobs: Sequence[Any], listens: bool, connection: Connection
) -> None:
    """Work in this process, and send what happens to the one that asks."""
    serve_parent()

    def tell(*report: Any) -> None:
        connection.send((False, report))

    # Nobody is there to be told when the other process has gone.
    with suppress(EOFError, OSError):
        while (number := connection.recv()) is not None:
            report = (Reporter(tell, SECONDS_BETWEEN_REPORTS),) if listens else ()
            answer = attempt(work, jobs[number], *report)
            connection.send((True, answer))


class Reporter:
    """Hands on what is reported, but not more often than every so many seconds."""

    def __init__(self, tell: Callable[..., None], seconds: float) -> None:
        self._tell, self._seconds, self._next = tell, seconds, 0.0

    def __call__(self, *report: Any) -> None:
        """Hand it on, or drop it."""
        if monotonic() >= self._next:
            self._tell(*report)
            self._next = monotonic() + self._seconds


def attempt(work: Callable[..., Any], *given: Any) -> Any:
    """Return what the work comes to, or what it raised as an error that travels."""
    try:
        return work(*given)
    except (FairleadError, OSError, MemoryError, OverflowError) as error:
        return error
    except Exception:
        return RuntimeError(traceback.format_exc())


def _give(connection: Any, number: int | None) -> None:
    """Send a process a job or the order to end; its death shows when it should answer."""
    with suppress(OSError):
        connection.send(number)


def _receive(connection: Any, process: Any, number: int) -> tuple[bool, Any]:
    """Return whether the job is over, and its answer, or a report; raise what it raised."""
    try:
        is_over, answer = connection.recv()
    except (EOFError, ConnectionResetError):
        process.join()
        code = process.exitcode
        how = f"exit code {code}; killed, or out of memory?"
        raise WorkerDiedError(number, how) from None
    if isinstance(answer, Exception):
        raise answer
    return is_over, answer


def serve_parent() -> None:
    """Ignore interruptions in this process, and end it as soon as its parent is gone.

    A parent that is killed ends nobody: a child would go on for hours, or for ever, as it waits
    until somebody reads what it writes (its siblings hold the other end of its pipe open).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


@contextmanager
def interruptions_held() -> Iterator[None]:
    """Hold interruptions back while processes are started that will leave them to this one.

    Until it has said so, a new process would answer one with a traceback. It is born with
    interruptions held back, and those that wait then are dropped by `serve_parent`.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

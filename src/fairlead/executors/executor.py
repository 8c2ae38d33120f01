"""The interface of executors, and the executor that runs jobs in processes of this machine.

These processes end when their parent ends. They ignore interruptions, which the parent handles.
"""

from __future__ import annotations

import os
import pickle
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
from typing import Any, ClassVar, Protocol, TypeVar

from fairlead.errors import FairleadError

SECONDS_BETWEEN_REPORTS = 0.1
FORKS = sys.platform == "linux"
Answer = TypeVar("Answer")


class Executor(Protocol):
    """Runs jobs, several at a time; a job is an argument of a function."""

    @property
    def starts_processes(self) -> bool:
        """Whether jobs run in new processes of this machine."""

    def do_all(
        self,
        work: Callable[..., Answer],
        jobs: Sequence[Any],
        on_finished: Callable[[int, Answer], None],
        on_report: Callable[..., None] | None = None,
    ) -> None:
        """Call ``work(job)`` for each job, or ``work(job, report)`` if `on_report` is given.

        Parameters
        ----------
        work : callable
            A function at the top level of a module. It, jobs, answers and reports may be pickled.
        jobs : sequence
            The arguments of the calls; the number of a job is its index.
        on_finished : callable
            Called with the number of a job and its answer, in the order in which they finish.
        on_report : callable, optional
            Called from time to time with the number of a job and its report.

        Raises
        ------
        FairleadError
            If a job raised one. Other errors of jobs are raised as well.
        WorkerDiedError
            If a process ended without an answer to its job.

        Notes
        -----
        An error or interruption stops the running jobs at once.
        """


class WorkerDiedError(FairleadError):
    """A process ended without an answer to job `number`."""

    def __init__(self, number: int, how: str) -> None:
        self.number = number
        super().__init__(f"a process ended without an answer ({how})")


def do_in_order(
    executor: Executor,
    work: Callable[..., Answer],
    jobs: Sequence[Any],
    on_next: Callable[[Answer], None],
) -> None:
    """Run all jobs, and call `on_next` with their answers in the order of the jobs."""
    early: dict[int, Answer] = {}  # by number: answers that came before those of earlier jobs
    expected = 0  # the number of the next job for `on_next`

    def finish(number: int, answer: Answer) -> None:
        nonlocal expected
        early[number] = answer
        while expected in early:
            on_next(early.pop(expected))
            expected += 1

    executor.do_all(work, jobs, finish)


class Processes:
    """Runs jobs in processes of this machine; see `Executor`.

    Where processes are not forked, as on macOS, functions that other processes cannot load run in
    this process.
    """

    # Whether this process has user-defined mechanisms, which only forked processes inherit.
    needs_fork: ClassVar[bool] = False

    def __init__(self, count: int | None = None) -> None:
        self.count = count or os.cpu_count() or 1  # number of processes

    @property
    def starts_processes(self) -> bool:
        """Whether jobs run in new processes of this machine."""
        return self.count > 1

    def _can_send(self, *given: Any) -> bool:
        """Return whether other processes can get the work and its jobs."""
        if FORKS:
            return True
        with suppress(pickle.PicklingError, AttributeError, TypeError):
            pickle.dumps(given)
            return not self.needs_fork
        return False

    def do_all(
        self,
        work: Callable[..., Answer],
        jobs: Sequence[Any],
        on_finished: Callable[[int, Answer], None],
        on_report: Callable[..., None] | None = None,
    ) -> None:
        """Run the work for each job; see `Executor`."""
        if self.count == 1 or not self._can_send(work, jobs):
            for number, job in enumerate(jobs):
                reporters = () if on_report is None else (partial(on_report, number),)
                on_finished(number, work(job, *reporters))
            return
        # A forked child shares the jobs and the imported modules at no cost. It only computes: work
        # that needs threads, such as writing files, stays in this process.
        context: Any = get_context("fork" if FORKS else None)
        waiting = iter(range(len(jobs)))
        running: dict[Any, tuple[Any, int]] = {}  # by connection: the process and its job's number
        try:
            for number in islice(waiting, min(self.count, len(jobs))):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_run_jobs, args=(work, jobs, on_report is not None, theirs), daemon=True
                )
                with interruptions_blocked():
                    process.start()
                theirs.close()
                running[ours] = process, number
                _send_job(ours, number)
            while running:
                ready: list[Any] = list(wait(list(running)))
                for connection in ready:
                    process, number = running[connection]
                    is_over, answer = _receive(connection, process, number)
                    if not is_over:
                        assert on_report is not None
                        on_report(number, *answer)
                        continue
                    next_number = next(waiting, None)
                    _send_job(connection, next_number)
                    if next_number is None:
                        del running[connection]
                        process.join()
                        connection.close()
                    else:
                        running[connection] = process, next_number
                    on_finished(number, answer)
        finally:
            for process, _ in running.values():
                process.terminate()
            for process, _ in running.values():
                process.join()


def _run_jobs(
    work: Callable[..., Any], jobs: Sequence[Any], has_reports: bool, connection: Connection
) -> None:
    """In a child process: run jobs, and send answers, and reports if wanted, to the parent."""
    follow_parent()

    def send(*report: Any) -> None:
        connection.send((False, report))

    with suppress(EOFError, OSError):  # the parent is gone
        while (number := connection.recv()) is not None:
            reporters = (Reporter(send, SECONDS_BETWEEN_REPORTS),) if has_reports else ()
            answer = answer_or_error(work, jobs[number], *reporters)
            connection.send((True, answer))


class Reporter:
    """Sends a report if none was sent for `seconds`, and drops it otherwise."""

    def __init__(self, send: Callable[..., None], seconds: float) -> None:
        self._send, self._seconds, self._next = send, seconds, 0.0

    def __call__(self, *report: Any) -> None:
        """Send the report, or drop it."""
        if monotonic() >= self._next:
            self._send(*report)
            self._next = monotonic() + self._seconds


def answer_or_error(work: Callable[..., Any], *given: Any) -> Any:
    """Call the work; return its answer, or its error as an exception that can be pickled."""
    try:
        return work(*given)
    except (FairleadError, OSError, MemoryError, OverflowError) as error:
        return error
    except Exception:
        return RuntimeError(traceback.format_exc())


def _send_job(connection: Any, number: int | None) -> None:
    """Send the number of a job to a process, or None to end it; `_receive` detects its death."""
    with suppress(OSError):
        connection.send(number)


def _receive(connection: Any, process: Any, number: int) -> tuple[bool, Any]:
    """Return whether the job has ended, and its answer if so, else a report.

    Raises the error of the job, or WorkerDiedError.
    """
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


def follow_parent() -> None:
    """Ignore interruptions in this process, and end it when its parent ends.

    Without it, a child could outlive a killed parent for ever: it would block in a write to a pipe
    whose other end its siblings hold open.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


@contextmanager
def interruptions_blocked() -> Iterator[None]:
    """Block interruptions while child processes start.

    A child that is interrupted before it calls `follow_parent` would print a traceback.
    `follow_parent` also drops the interruptions blocked so far.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

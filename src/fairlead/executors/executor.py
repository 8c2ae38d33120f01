"""The executor interface: run jobs on local processes or on Ray."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from fairlead.errors import FairleadError

Answer = TypeVar("Answer")


class Executor(Protocol):
    """Runs several jobs at a time."""

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
            A function at the top level of a module. It, the jobs and the answers may be pickled.
        jobs : sequence
            Any arguments; a job's number is its index.
        on_finished : callable
            Called with the number of a job and its answer, in the order in which they finish.
        on_report : callable, optional
            Called from time to time with the number of a job and its report.

        Raises
        ------
        FairleadError
            If a job raised one; other errors of jobs are raised as well.
        WorkerDiedError
            If a process ended without an answer.

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
    early: dict[int, Answer] = {}  # by job: answers that came before those of earlier jobs
    expected = 0

    def finish(number: int, answer: Answer) -> None:
        nonlocal expected
        early[number] = answer
        while expected in early:
            on_next(early.pop(expected))
            expected += 1

    executor.do_all(work, jobs, finish)

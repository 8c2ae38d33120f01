"""What does pieces of work, wherever that is; whoever has such work knows no more than this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from fairlead.errors import FairleadError

Answer = TypeVar("Answer")


class Executor(Protocol):
    """Does pieces of work, several at a time."""

    @property
    def is_here(self) -> bool:
        """Whether its processes are copies of this one."""

    def do_all(
        self,
        work: Callable[..., Answer],
        jobs: Sequence[Any],
        on_finished: Callable[[int, Answer], None],
        on_report: Callable[..., None] | None = None,
    ) -> None:
        """Do the same work for each of several jobs.

        Parameters
        ----------
        work : callable
            A function of a module, given a job, and, where anybody listens, a function by which
            it reports. It, jobs and answers travel pickled.
        jobs : sequence
        on_finished : callable
            Called with the number of a job and the answer, in the order in which they finish.
        on_report : callable, optional
            Called now and then with the number of a job and what it reports.

        Raises
        ------
        FairleadError
            What a job raised.
        WorkerDiedError
            When a process ended without an answer.

        Notes
        -----
        When it is left early, by an interruption or an error, what still runs is ended at once.
        """


class WorkerDiedError(FairleadError):
    """A process ended without an answer; `number` is that of its job."""

    def __init__(self, number: int, how: str) -> None:
        self.number = number
        super().__init__(f"a process ended without an answer ({how})")


def do_in_order(
    executor: Executor,
    work: Callable[..., Answer],
    jobs: Sequence[Any],
    on_next: Callable[[Answer], None],
) -> None:
    """Do all jobs, and hand over the answers in the order of the jobs."""
    early: dict[int, Answer] = {}
    expected = 0

    def finish(number: int, answer: Answer) -> None:
        nonlocal expected
        early[number] = answer
        while expected in early:
            on_next(early.pop(expected))
            expected += 1

    executor.do_all(work, jobs, finish)

"""Replays side by side, each in a process of its own."""

from __future__ import annotations

import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any

import numpy as np

from fairlead.errors import FairleadError
from fairlead.model.excerpt import excerpt
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.processes import interruptions_held, serve_parent
from fairlead.simulation.dedicated import replay_dedicated
from fairlead.simulation.journal_replay import is_of_requests, replay_journal
from fairlead.simulation.planned_run import PlannedRun
from fairlead.simulation.replay import replay

SECONDS_BETWEEN_REPORTS = 0.1
# Called with the number of a replay, the starts of tasks so far, and the moment in seconds.
Report = Callable[[int, int, float], None]


class ProcessDiedError(FairleadError):
    """The process of a run ended without an answer; an exit code below 0 is a signal."""

    def __init__(self, name: str, exit_code: int) -> None:
        super().__init__(
            f"{name}: its process ended without an answer (exit code {exit_code}; killed, or out "
            "of memory?)"
        )


@dataclass(frozen=True, eq=False)
class ReplayJob:
    """One replay, of the workload with the change that the run asks for."""

    run: PlannedRun
    workload: Workload
    seed: int = 0
    strict_fifo: bool = False

    def replay(self, on_progress: Callable[[int, float], None] | None = None) -> RunLog:
        """Replay it in this process; tell progress by starts so far and the moment in seconds."""
        if is_of_requests(self.workload, self.run.policy, self.strict_fifo):
            return replay_journal(self.workload, self.run.policy, on_progress)
        once = partial(replay, strict_fifo=self.strict_fifo, seed=self.seed)
        if self.run.dedicated:
            return replay_dedicated(self.workload, self.run.policy, once, on_progress=on_progress)
        return once(self.workload, self.run.policy, on_progress=on_progress)


def replay_all(
    jobs: Sequence[ReplayJob],
    processes: int,
    *,
    on_finished: Callable[[int, RunLog], None],
    on_progress: Report | None = None,
) -> None:
    """Replay jobs, as many at a time as there are processes.

    Parameters
    ----------
    jobs : sequence of ReplayJob
    processes : int
        Processes at a time; with one, everything happens in this process.
    on_finished : callable
        Called with the number of a replay and its log, in the order in which they finish.
    on_progress : callable, optional
        Called now and then with the number of a replay, the starts of tasks so far, and the moment
        in seconds.

    Raises
    ------
    FairleadError
        What a replay raised.
    ProcessDiedError
        When the process of a replay ended without an answer.

    Notes
    -----
    When it is left early, as by an interruption or an error of one replay, the other processes are
    ended at once; they leave interruptions to this process, and end with it if it is killed.
    """
    if processes == 1:
        for number, job in enumerate(jobs):
            on_finished(number, job.replay(_numbered(number, on_progress)))
        return
    # A forked process has the workload and the compiled code at no cost. It only computes, and
    # leaves what has threads of its own, such as writing files, to this process.
    compile_for(jobs)
    context: Any = get_context("fork" if sys.platform == "linux" else None)
    waiting = deque(enumerate(jobs))
    running: dict[Any, tuple[int, Any]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                number, job = waiting.popleft()
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(job, sender), daemon=True)
                with interruptions_held():
                    process.start()
                sender.close()
                running[receiver] = number, process
            ready: list[Any] = list(wait(list(running)))
            for receiver in ready:
                number, process = running[receiver]
                answer = _receive(receiver, process, jobs[number].run.name)
                if isinstance(answer, RunLog):
                    del running[receiver]
                    receiver.close()
                    process.join()
                    on_finished(number, answer)
                elif on_progress is not None:
                    on_progress(number, *answer)
    finally:
        for _, process in running.values():
            process.terminate()
        for _, process in running.values():
            process.join()


def compile_for(jobs: Sequence[ReplayJob]) -> None:
    """Compile, or load, what the replays need, so that not every process does that by itself.

    One replay of a small job for each policy: a gang if there is one, as others are compiled then.
    """
    for job in {job.run.policy: job for job in jobs}.values():
        workload = job.workload
        if is_of_requests(workload, job.run.policy, job.strict_fifo):
            continue
        tasks, gangs = workload.job_tasks, workload.job_gang & (workload.job_tasks > 1)
        least = np.argmin(np.where(gangs, tasks, tasks.max() + 1) if gangs.any() else tasks)
        smallest = workload.set_job == least
        everywhere = np.ones(workload.n_servers, dtype=bool)
        replay(excerpt(workload, smallest, everywhere).workload, job.run.policy)


def _numbered(number: int, on_progress: Report | None) -> Callable[[int, float], None] | None:
    return None if on_progress is None else partial(on_progress, number)


def _work(job: ReplayJob, sender: Connection) -> None:
    """Replay in this process, and send what happens to the one that asked."""
    serve_parent()
    next_report = 0.0

    def report(starts: int, moment: float) -> None:
        nonlocal next_report
        if monotonic() >= next_report:
            sender.send((starts, moment))
            next_report = monotonic() + SECONDS_BETWEEN_REPORTS

    answer: Any
    try:
        answer = job.replay(report)
    except FairleadError as error:
        answer = error
    except Exception:
        answer = RuntimeError(traceback.format_exc())
    # Nobody is there to be told when the other process has gone.
    with suppress(BrokenPipeError):
        sender.send(answer)


def _receive(receiver: Any, process: Any, name: str) -> RunLog | tuple[int, float]:
    try:
        answer: RunLog | tuple[int, float] | Exception = receiver.recv()
    except EOFError:
        process.join()
        raise ProcessDiedError(name, process.exitcode) from None
    if isinstance(answer, Exception):
        raise answer
    return answer

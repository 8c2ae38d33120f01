"""Replays side by side, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fairlead.executors.executor import Executor
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation.dedicated import replay_dedicated
from fairlead.simulation.journal_replay import is_of_requests, replay_journal
from fairlead.simulation.planned_run import PlannedRun
from fairlead.simulation.replay import replay

# Called with the number of a replay, the starts of tasks so far, and the moment in seconds.
Report = Callable[[int, int, float], None]


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
            return replay_journal(self.workload, self.run.policy, self.seed, on_progress)
        once = partial(replay, strict_fifo=self.strict_fifo, seed=self.seed)
        if self.run.dedicated:
            return replay_dedicated(self.workload, self.run.policy, once, on_progress=on_progress)
        return once(self.workload, self.run.policy, on_progress=on_progress)


def replay_all(
    jobs: Sequence[ReplayJob],
    executor: Executor,
    *,
    on_finished: Callable[[int, RunLog], None],
    on_progress: Report | None = None,
) -> None:
    """Replay jobs, as many at a time as there is room for.

    Parameters
    ----------
    jobs : sequence of ReplayJob
    executor : Executor
        What does them.
    on_finished : callable
        Called with the number of a replay and its log, in the order in which they finish.
    on_progress : callable, optional
        Called now and then with the number of a replay, the starts of tasks so far, and the moment
        in seconds.

    Raises
    ------
    FairleadError
        What a replay raised.
    WorkerDiedError
        When the process of a replay ended without an answer.
    """
    executor.do_all(ReplayJob.replay, jobs, on_finished, on_progress)

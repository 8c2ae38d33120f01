"""Replay a workload under a policy, to know what it would have done.

It pauses now and then, so that an interruption is heard and progress is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import numpy as np

from fairlead.core.policies import Policy, parse_policy
from fairlead.model.arguments import switch
from fairlead.model.cluster import BoolArray
from fairlead.model.quanta import to_quanta
from fairlead.model.run_log import RunLog
from fairlead.model.workload import DRAIN, JOIN, LEAVE, Workload
from fairlead.scheduler.arguments import positive
from fairlead.scheduler.loading import LoadedScheduler
from fairlead.scheduler.offering import REFUSE_SECONDS
from fairlead.scheduler.round_robin import no_takers
from fairlead.scheduler.slots import in_slots
from fairlead.simulation.events import IS_FULL, OVER, PAUSED, SERVERS_CHANGE, Replay, entry_of
from fairlead.simulation.kinds import kinds_of, unplaceable_sets
from fairlead.simulation.replay_state import ReplayState, begin_replay, with_longer

# Placements between two looks at whether to pause: the slowest policies take 25 ms for one.
PORTION = 2**6
# Between two returns of what is compiled, which hears of no interruption and reports nothing.
SECONDS_BETWEEN_PAUSES = 0.1

Progress = Callable[[int, float], None]


def replay(
    workload: Workload,
    policy: str | Policy,
    *,
    strict_fifo: bool = False,
    seed: int = 0,
    refuse_seconds: float = REFUSE_SECONDS,
    on_progress: Progress | None = None,
) -> RunLog:
    """Replay a workload until nothing runs any more and nothing is to come.

    At one moment tasks end first, then servers change, then jobs arrive, then jobs are withdrawn,
    and then tasks are placed until nothing more fits. A task that runs is never taken back; it is
    lost when its server leaves, with all that runs of its gang, and waits again. Of a job that is
    withdrawn, what runs may end.

    Parameters
    ----------
    workload : Workload
    policy : str or Policy
        Such as ``drf/best-fit`` or ``slots:14``; see `fairlead.core.policies`.
    strict_fifo : bool
        Whether nothing of a user passes over its first waiting set of tasks.
    seed : int
        For policies that are random.
    refuse_seconds : float
        How long an offer that was declined is not made again, where offers are oblivious.
    on_progress : callable, optional
        Called now and then with the starts so far and the moment in seconds.

    Raises
    ------
    InputError
        When the policy is none.
    RefusalError
        When the policy has no meaning.

    Notes
    -----
    O(T log T) and what the scheduler costs; memory for 48 bytes a task, beside the workload.
    """
    chosen = parse_policy(policy) if isinstance(policy, str) else policy
    switch(strict_fifo, "strict_fifo")
    positive(refuse_seconds, "refuse_seconds")
    return _Replay(workload, chosen, strict_fifo, seed, refuse_seconds).run(on_progress)


class _Replay:
    """A replay under way."""

    def __init__(
        self,
        workload: Workload,
        policy: Policy,
        strict_fifo: bool,
        seed: int,
        refuse_seconds: float,
    ) -> None:
        self.workload = workload
        self.policy = policy
        kinds = kinds_of(workload)
        self.unplaceable = unplaceable_sets(workload, kinds, policy.slots)
        problem = kinds.problem
        if policy.slots:
            problem = in_slots(problem, policy.slots)
        self.scheduler = LoadedScheduler(
            "drf/first-fit" if policy.slots else policy.name,
            problem,
            to_quanta(problem),
            kinds.owner,
            workload.there_at_start,
            portion=PORTION,
            strict_fifo=strict_fifo,
            shared=1 if policy.slots else None,
            refuse_seconds=refuse_seconds,
        )
        takers = no_takers(workload.n_servers, seed) if policy.is_random else None
        self.takers, self.placed = takers, np.empty(PORTION, dtype=np.int64)
        self.state: ReplayState = begin_replay(workload, kinds.of_set, self.unplaceable)
        of_gangs = np.diff(workload.first_set)[self.state.job_gang]
        self.most_sets = int(of_gangs.max(initial=0))
        if self.most_sets:
            self.scheduler.expect_gangs()
        self.next_change = 0

    def run(self, on_progress: Progress | None) -> RunLog:
        scheduler, reason = self.scheduler, IS_FULL
        advance = entry_of(scheduler.kernel)
        self._look_ahead()
        with paused_often(self.state.pause):
            while reason != OVER:
                if reason == IS_FULL:
                    self._make_room()
                reason = advance(
                    Replay(self.state, *scheduler.tables, self.takers, PORTION, self.placed)
                )
                if reason == SERVERS_CHANGE:
                    self._change_servers()
                elif reason == PAUSED:
                    self.state.pause[0] = False
                    self._report(on_progress)
        self._report(on_progress)
        return self._log()

    def _make_room(self) -> None:
        """Have room for more groups, more tasks that run, and more starts in the log.

        Or answer what fifo asks for.
        """
        if self.scheduler.answers():
            return
        lacking = int(self.scheduler.core.numbers[0].lacking)
        if lacking > len(self.placed):
            self.placed = np.empty(lacking + PORTION, dtype=np.int64)
        state, more = self.state, len(self.placed)
        self.scheduler.make_room(PORTION + self.most_sets, more)
        core = self.scheduler.core
        starts = len(state.task)
        if state.n_started[0] + more > starts:
            starts += starts // 2 + more
        self.state = with_longer(state, starts, len(core.groups), len(core.tasks))

    def _report(self, on_progress: Progress | None) -> None:
        if on_progress is not None:
            on_progress(int(self.state.n_started[0]), float(self.state.now[0]))

    def _log(self) -> RunLog:
        n, state = int(self.state.n_started[0]), self.state
        return RunLog(
            policy=self.policy.name,
            task=state.task[:n].copy(),
            server=state.server[:n].copy(),
            start=state.start[:n].copy(),
            end=state.end[:n].copy(),
            lost=state.lost[:n].copy(),
            set_unplaceable=self.unplaceable,
        )

    def _look_ahead(self) -> None:
        times = self.workload.server_time
        is_over = self.next_change == len(times)
        self.state.server_time[0] = np.inf if is_over else times[self.next_change]

    def _change_servers(self) -> None:
        """Let everything happen to servers that happens at this moment."""
        workload, now = self.workload, self.state.now[0]
        times = workload.server_time
        while self.next_change < len(times) and times[self.next_change] == now:
            server = int(workload.server[self.next_change])
            event = workload.server_event[self.next_change]
            if event == JOIN:
                self.scheduler.join(server)
            elif event == DRAIN:
                self.scheduler.close(server)
            elif event == LEAVE:
                self._lose(self.scheduler.leave(server))
            self.next_change += 1
        self._look_ahead()

    def _lose(self, rows: list[int]) -> None:
        """End what a server that left ran before it was done; ends in their order are a heap."""
        if not rows:
            return
        state = self.state
        running = state.ending_start[: state.n_running[0]]
        is_lost = np.isin(state.row[running], rows)
        lost, running = running[is_lost], running[~is_lost]
        state.end[lost], state.lost[lost] = state.now[0], True
        running = running[np.lexsort((running, state.end[running]))]
        state.ending[: len(running)] = state.end[running]
        state.ending_start[: len(running)] = running
        state.n_running[0] = len(running)


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

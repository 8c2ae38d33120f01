"""Replay a workload under a policy, to know what it would have done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import numpy as np

from fairlead.model.cluster import BoolArray, IntArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import DRAIN, JOIN, LEAVE, Workload
from fairlead.scheduler.jobs import REFUSE_SECONDS, JobScheduler
from fairlead.scheduler.online_policy import OnlinePolicy, parse_policy
from fairlead.scheduler.placing import room_for_starts
from fairlead.simulation.events import (
    LOG_IS_FULL,
    OVER,
    PAUSED,
    SERVERS_CHANGE,
    Replay,
    replay_by_key,
    replay_by_offers,
    replay_by_scan,
    replay_in_rounds,
)
from fairlead.simulation.kinds import Kinds, kinds_of, unplaceable_sets
from fairlead.simulation.replay_state import NONE, ReplayState, begin_replay, lengthen_log

# Between two returns of what is compiled, which hears of no interruption and reports nothing.
SECONDS_BETWEEN_PAUSES = 0.1
# Placements between two looks at whether to pause: the slowest policies take 25 ms for one.
PORTION = 2**6

Progress = Callable[[int, float], None]


def replay(
    workload: Workload,
    policy: str | OnlinePolicy,
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
    policy : str or OnlinePolicy
        Such as ``drf/best-fit`` or ``slots:14``; see `fairlead.scheduler.online_policy`.
    strict_fifo : bool
        Whether nothing of a user passes over its first waiting set of tasks.
    seed : int
        For policies that are random.
    refuse_seconds : float
        How long an offer that was declined is not made again, where offers are oblivious.
    on_progress : callable, optional
        Called now and then with the starts so far and the moment in seconds.

    Returns
    -------
    RunLog

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
    return _Replay(workload, chosen, strict_fifo, seed, refuse_seconds).run(on_progress)


def _advance_of(scheduler: JobScheduler) -> Callable[..., int]:
    if scheduler.policy.oblivious:
        return replay_by_offers
    if scheduler.policy.is_random:
        return replay_in_rounds
    return replay_by_key if scheduler.by_key else replay_by_scan


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


class _Replay:
    """A replay under way."""

    def __init__(
        self,
        workload: Workload,
        policy: OnlinePolicy,
        strict_fifo: bool,
        seed: int,
        refuse_seconds: float,
    ) -> None:
        self.workload = workload
        self.policy = policy
        self.kinds: Kinds = kinds_of(workload)
        self.unplaceable = unplaceable_sets(workload, self.kinds, policy)
        self.scheduler = JobScheduler(
            self.kinds.problem,
            self.kinds.owner,
            self.kinds.of_set,
            policy,
            set_gang=self.kinds.gang,
            strict_fifo=strict_fifo,
            there=workload.there_at_start,
            seed=seed,
            refuse_seconds=refuse_seconds,
        )
        gang_tasks = np.bincount(
            workload.set_job, np.where(self.kinds.gang >= 0, workload.set_tasks, 0)
        )
        self.starts = room_for_starts(PORTION, int(gang_tasks.max()))
        self.spare = len(self.starts.kind)
        self.state: ReplayState = begin_replay(workload, self.unplaceable, self.spare)
        self.next_change = 0

    def run(self, on_progress: Progress | None) -> RunLog:
        scheduler, reason = self.scheduler, -1
        advance = _advance_of(scheduler)
        self._look_ahead()
        with paused_often(self.state.pause):
            while reason != OVER:
                reason = advance(
                    Replay(
                        self.state,
                        scheduler.state,
                        scheduler.queue,
                        scheduler.index,
                        scheduler.select,
                        scheduler.round,
                        scheduler.refusals,
                        self.starts,
                    )
                )
                if reason == SERVERS_CHANGE:
                    self._change_servers()
                elif reason == LOG_IS_FULL:
                    self.state = lengthen_log(self.state, len(self.state.task) // 2 + self.spare)
                elif reason == PAUSED:
                    self.state.pause[0] = False
                    self._report(on_progress)
        self._report(on_progress)
        return self._log()

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
                self.scheduler.join(server, now)
            elif event == DRAIN:
                self.scheduler.drain(server)
            elif event == LEAVE:
                self._leave(server)
            self.next_change += 1
        self._look_ahead()

    def _leave(self, server: int) -> None:
        """Take a server away; what ran there is lost, and what ran of its gangs elsewhere."""
        self.scheduler.drain(server)
        state, running = self.state, self._running()
        hit = running[state.server[running] == server]
        if len(hit):
            gangs = self._gang(hit)
            with_gangs = np.isin(self._gang(running), gangs[gangs >= 0])
            lost = running[(state.server[running] == server) | with_gangs]
            self._lose(np.sort(lost))
        self.scheduler.leave(server)

    def _running(self) -> IntArray:
        running: IntArray = self.state.ending_start[: self.state.n_running[0]].astype(np.int64)
        return running

    def _gang(self, starts: IntArray) -> IntArray:
        gang: IntArray = self.kinds.gang[self._set(starts)]
        return gang

    def _set(self, starts: IntArray) -> IntArray:
        first = self.workload.first_task
        number: IntArray = np.searchsorted(first, self.state.task[starts], side="right") - 1
        return number

    def _lose(self, lost: IntArray) -> None:
        """End what started there before it was done, and have it wait again."""
        state, now = self.state, self.state.now[0]
        for start in lost.tolist():
            state.end[start], state.lost[start] = now, True
            self.scheduler.free(int(state.kind[start]), int(state.server[start]), now)
        numbers = self._set(lost)
        is_cancelled = self.workload.job_cancel[self.workload.set_job[numbers]] < now
        for start, number in zip(
            lost[~is_cancelled].tolist(), numbers[~is_cancelled].tolist(), strict=True
        ):
            self._requeue(number, int(state.task[start]))
            self.scheduler.submit(number, 1)
        self._forget_lost()

    def _requeue(self, number: int, task: int) -> None:
        state, before = self.state, NONE
        after = int(state.lost_task[number])
        while after != NONE and after < task:
            before, after = after, int(state.next_lost[after])
        state.next_lost[task] = after
        if before == NONE:
            state.lost_task[number] = task
        else:
            state.next_lost[before] = task

    def _forget_lost(self) -> None:
        """Take what was lost off what runs; ends in their order are a heap."""
        state, running = self.state, self._running()
        running = running[~state.lost[running]]
        running = running[np.lexsort((running, state.end[running]))]
        state.ending[: len(running)] = state.end[running]
        state.ending_start[: len(running)] = running
        state.n_running[0] = len(running)

"""Replays of gangs by policies that choose user and server together, on the scheduler of jobs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import DRAIN, JOIN, LEAVE, Workload
from fairlead.scheduler.jobs import JobScheduler
from fairlead.scheduler.online_policy import OnlinePolicy, parse_policy
from fairlead.scheduler.placing import room_for_starts
from fairlead.simulation.job_events import (
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
from fairlead.simulation.job_replay_state import NONE, ReplayState, begin_replay, lengthen_log
from fairlead.simulation.kinds import Kinds, kinds_of, unplaceable_sets
from fairlead.simulation.pauses import Progress, paused_often

# Placements between two looks at whether to pause: the slowest policies take 25 ms for one.
PORTION = 2**6


def replay_jobs(
    workload: Workload,
    name: str,
    strict_fifo: bool,
    seed: int,
    refuse_seconds: float,
    on_progress: Progress | None,
) -> RunLog:
    """Replay a workload; as `fairlead.simulation.replay.replay`, which takes what it can itself."""
    policy = parse_policy(name)
    return _Replay(workload, policy, strict_fifo, seed, refuse_seconds).run(on_progress)


def _advance_of(scheduler: JobScheduler) -> Callable[..., int]:
    if scheduler.policy.oblivious:
        return replay_by_offers
    if scheduler.policy.is_random:
        return replay_in_rounds
    return replay_by_key if scheduler.by_key else replay_by_scan


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
        self.kinds: Kinds = kinds_of(workload, gangs_apart=True)
        self.unplaceable = unplaceable_sets(workload, self.kinds, policy.slots or 0)
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

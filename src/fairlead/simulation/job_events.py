"""The events of a replay, one moment after the other; compiled.

At one moment first tasks end, in order of their ends' starts in the log; then servers change; then
jobs arrive, in their order; then jobs are withdrawn; and then tasks are placed until nothing more
fits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.optimize.compiling import inner_kernel, long_kernel, separate_kernel
from fairlead.scheduler.declining import (
    Refusals,
    note_more_to_offer,
    revive,
    serve_by_offers,
)
from fairlead.scheduler.offers import Round, serve_in_rounds
from fairlead.scheduler.placing import Starts
from fairlead.scheduler.queue import Queue
from fairlead.scheduler.ratio_index import RatioIndex
from fairlead.scheduler.serving import serve_by_key, serve_by_scan
from fairlead.scheduler.state import State
from fairlead.scheduler.submitting import finish_task, submit_set, withdraw_set
from fairlead.simulation.job_replay_state import (
    FINISHES,
    NONE,
    PLACEMENTS,
    SUBMISSIONS,
    ReplayState,
)

# Why a call returns, or what is to be done next.
OVER, SERVERS_CHANGE, LOG_IS_FULL, PAUSED, PLACE = 0, 1, 2, 3, 4


class Replay(NamedTuple):
    """All that a replay works on.

    Attributes
    ----------
    own : ReplayState
        What is to come, what runs, and the log.
    state, queue, servers, select, round, refusals
        The scheduler's; `servers` is the index in which best-fit searches.
    starts : Starts
        Room for the placements of one call.
    """

    own: ReplayState
    state: State
    queue: Queue
    servers: RatioIndex
    select: int
    round: Round
    refusals: Refusals
    starts: Starts


@long_kernel
def replay_by_key(replay: Replay) -> int:
    """Go on, by `serve_by_key`, until the end or a pause; return why it stopped.

    Notes
    -----
    O(log running) for what starts and ends, and what the scheduler costs.
    """
    r = replay
    while True:
        reason = _go_to_placements(r)
        if reason != PLACE:
            return reason
        n = serve_by_key(r.state, r.queue, r.servers, r.select, r.starts)
        _note_starts(r.own, r.starts, n)
        if r.own.pause[0]:
            return PAUSED


@long_kernel
def replay_by_scan(replay: Replay) -> int:
    """Go on, by `serve_by_scan`, until the end or a pause; return why it stopped."""
    r = replay
    while True:
        reason = _go_to_placements(r)
        if reason != PLACE:
            return reason
        _note_starts(
            r.own, r.starts, serve_by_scan(r.state, r.queue, r.servers, r.select, r.starts)
        )
        if r.own.pause[0]:
            return PAUSED


@long_kernel
def replay_in_rounds(replay: Replay) -> int:
    """Go on, by `serve_in_rounds`, until the end or a pause; return why it stopped."""
    r = replay
    while True:
        reason = _go_to_placements(r)
        if reason != PLACE:
            return reason
        _note_starts(
            r.own, r.starts, serve_in_rounds(r.state, r.queue, r.servers, r.round, r.starts)
        )
        if r.own.pause[0]:
            return PAUSED


@long_kernel
def replay_by_offers(replay: Replay) -> int:
    """Go on, by `serve_by_offers`, until the end or a pause; return why it stopped."""
    r = replay
    while True:
        reason = _go_to_placements(r)
        if reason != PLACE:
            return reason
        _note_starts(
            r.own,
            r.starts,
            serve_by_offers(
                r.state, r.queue, r.servers, r.round, r.refusals, r.starts, r.own.now[0]
            ),
        )
        if r.own.pause[0]:
            return PAUSED


@separate_kernel
def _go_to_placements(replay: Replay) -> int:
    """Go on to the next placements: `PLACE`, unless a call must return first."""
    own = replay.own
    if own.stage[0] != PLACEMENTS:
        if own.stage[0] == FINISHES:
            now = min(_next_moment(own), replay.refusals.next_time[0])
            if now == np.inf:
                return OVER
            _finish_tasks(replay, now)
            if own.server_time[0] == now:
                return SERVERS_CHANGE
        _submit_and_withdraw(own, replay.state, replay.queue, replay.refusals)
        own.stage[0] = PLACEMENTS
    is_full = own.n_started[0] + replay.starts.kind.size > own.task.size
    return LOG_IS_FULL if is_full else PLACE


@inner_kernel
def _finish_tasks(replay: Replay, now: float) -> None:
    """Come to a moment, and end the tasks that end then."""
    own, refusals = replay.own, replay.refusals
    own.now[0] = now
    while own.n_running[0] > 0 and own.ending[0] == now:
        start = _pop(own)
        # Numbers of 32 bits would be compiled for apart.
        kind, server = int(np.int64(own.kind[start])), int(np.int64(own.server[start]))
        finish_task(replay.state, replay.queue, replay.servers, replay.select, kind, server)
        if refusals.seconds >= 0.0:
            note_more_to_offer(refusals, replay.queue, server, now)
    own.stage[0] = SUBMISSIONS


@inner_kernel
def _next_moment(replay: ReplayState) -> float:
    now = replay.server_time[0]
    if replay.n_running[0] > 0:
        now = min(now, replay.ending[0])
    if replay.next_job[0] < replay.job_submit.size:
        now = min(now, replay.job_submit[replay.next_job[0]])
    if replay.next_cancel[0] < replay.cancel_time.size:
        now = min(now, replay.cancel_time[replay.next_cancel[0]])
    return float(now)


@inner_kernel
def _submit_and_withdraw(
    replay: ReplayState, state: State, queue: Queue, refusals: Refusals
) -> None:
    now = replay.now[0]
    while (
        replay.next_job[0] < replay.job_submit.size and replay.job_submit[replay.next_job[0]] == now
    ):
        job = replay.next_job[0]
        for number in range(replay.job_first_set[job], replay.job_first_set[job + 1]):
            if replay.set_tasks[number] > 0:
                submit_set(state, queue, number, replay.set_tasks[number])
                if refusals.seconds >= 0.0:
                    revive(refusals, state.owner[queue.backlog.kind[number]])
        replay.next_job[0] += 1
    while (
        replay.next_cancel[0] < replay.cancel_time.size
        and replay.cancel_time[replay.next_cancel[0]] == now
    ):
        job = replay.cancel_job[replay.next_cancel[0]]
        for number in range(replay.job_first_set[job], replay.job_first_set[job + 1]):
            withdraw_set(state, queue, number)
        replay.next_cancel[0] += 1


@separate_kernel
def _note_starts(replay: ReplayState, starts: Starts, n: int) -> None:
    """Put placements into the log, and their ends among what is to come."""
    now = replay.now[0]
    for k in range(n):
        task, start = _take_task(replay, starts.number[k]), replay.n_started[0]
        end = now + replay.duration[task]
        replay.task[start], replay.server[start] = task, starts.server[k]
        replay.kind[start] = starts.kind[k]
        replay.start[start], replay.end[start] = now, end
        replay.n_started[0] += 1
        _push(replay, end, start)
    if starts.is_over[0]:
        replay.stage[0] = FINISHES


@inner_kernel
def _take_task(replay: ReplayState, number: int) -> int:
    """Return the waiting task of a set that comes first, which are the lost ones if any."""
    task = replay.lost_task[number]
    if task != NONE:
        replay.lost_task[number] = replay.next_lost[task]
        return int(task)
    task = replay.next_task[number]
    replay.next_task[number] += 1
    return int(task)


@inner_kernel
def _ends_before(replay: ReplayState, a: int, b: int) -> bool:
    if replay.ending[a] != replay.ending[b]:
        return bool(replay.ending[a] < replay.ending[b])
    return bool(replay.ending_start[a] < replay.ending_start[b])


@inner_kernel
def _swap(replay: ReplayState, a: int, b: int) -> None:
    replay.ending[a], replay.ending[b] = replay.ending[b], replay.ending[a]
    other = replay.ending_start[a]
    replay.ending_start[a] = replay.ending_start[b]
    replay.ending_start[b] = other


@inner_kernel
def _push(replay: ReplayState, end: float, start: int) -> None:
    position = replay.n_running[0]
    replay.n_running[0] += 1
    replay.ending[position], replay.ending_start[position] = end, start
    while position > 0:
        parent = (position - 1) // 2
        if not _ends_before(replay, position, parent):
            break
        _swap(replay, position, parent)
        position = parent


@inner_kernel
def _pop(replay: ReplayState) -> int:
    """Take the task that ends first off what runs, and return its start in the log."""
    first = replay.ending_start[0]
    replay.n_running[0] -= 1
    size = replay.n_running[0]
    _swap(replay, 0, size)
    position = 0
    while True:
        child = 2 * position + 1
        if child >= size:
            return int(first)
        if child + 1 < size and _ends_before(replay, child + 1, child):
            child += 1
        if not _ends_before(replay, child, position):
            return int(first)
        _swap(replay, position, child)
        position = child

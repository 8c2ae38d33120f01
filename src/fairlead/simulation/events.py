"""The events of a replay, one moment after the other; compiled.

At one moment first tasks end, in order of their ends' starts in the log; then servers change; then
jobs arrive, in their order; then jobs are withdrawn; and then tasks are placed until nothing more
fits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel, long_kernel, separate_kernel
from fairlead.scheduler.cycle import Index, Kept, drop, place, stop, submit
from fairlead.scheduler.favourites import place_on_best
from fairlead.scheduler.fifo import place_oldest
from fairlead.scheduler.offering import make_offers, next_offer, place_by_offers
from fairlead.scheduler.placing_at_hand import (
    place_by_residual_drf,
    place_by_residual_tsf,
    place_jointly,
    place_on_best_by_residual_drf,
    place_on_best_by_residual_tsf,
)
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.round_robin import (
    place_in_rounds,
    place_in_rounds_by_residual,
    visit_by_residual,
    visit_servers,
)
from fairlead.simulation.replay_state import FINISHES, PLACEMENTS, SUBMISSIONS, ReplayState

# Why a call returns, or what is to be done next.
OVER, SERVERS_CHANGE, IS_FULL, PAUSED, PLACE = 0, 1, 2, 3, 4


class Replay(NamedTuple):
    """All that a replay works on.

    Attributes
    ----------
    own : ReplayState
        What is to come, what runs, and the log.
    core, index, at_hand, filters, takers
        The scheduler's: `Filters` and `Takers`, or None where the policy does without.
    placed : (P,) int
        Receives the placements of one call.
    """

    own: ReplayState
    core: Core
    index: Index
    at_hand: Kept
    filters: Any
    takers: Any
    placed: IntArray


# Each goes on until the end or a pause, and returns why it stopped. O(log running) for what starts
# and ends, and what the scheduler costs.


@long_kernel
def replay_in_turn(r: Replay) -> int:
    """Go on by `cycle.place`."""
    while (reason := _go_to_placements(r)) == PLACE:
        if _note_starts(r, place(r.core, r.index, r.placed.size, r.placed)):
            return PAUSED
    return reason


@long_kernel
def replay_oldest(r: Replay) -> int:
    """Go on by `fifo.place_oldest`."""
    while (reason := _go_to_placements(r)) == PLACE:
        if _note_starts(r, place_oldest(r.core, r.index, r.placed.size, r.placed)):
            return PAUSED
    return reason


@long_kernel
def replay_on_best(r: Replay) -> int:
    """Go on by `favourites.place_on_best`."""
    while (reason := _go_to_placements(r)) == PLACE:
        if _note_starts(r, place_on_best(r.core, r.index, r.placed.size, r.placed)):
            return PAUSED
    return reason


@long_kernel
def replay_in_rounds(r: Replay) -> int:
    """Go on by `round_robin.place_in_rounds`."""
    while (reason := _go_to_placements(r)) == PLACE:
        if _note_starts(r, place_in_rounds(r.core, r.takers, r.placed.size, r.placed)):
            return PAUSED
    return reason


@long_kernel
def replay_in_rounds_by_residual(r: Replay) -> int:
    """Go on by `round_robin.place_in_rounds_by_residual`."""
    while (reason := _go_to_placements(r)) == PLACE:
        n = place_in_rounds_by_residual(r.core, r.at_hand, r.takers, r.placed.size, r.placed)
        if _note_starts(r, n):
            return PAUSED
    return reason


@long_kernel
def replay_by_offers(r: Replay) -> int:
    """Go on by `offering.place_by_offers`."""
    while (reason := _go_to_placements(r)) == PLACE:
        if _note_starts(r, place_by_offers(r.core, r.filters, r.takers, r.placed.size, r.placed)):
            return PAUSED
    return reason


@long_kernel
def replay_jointly(r: Replay) -> int:
    """Go on by `placing_at_hand.place_jointly`."""
    while (reason := _go_to_placements(r)) == PLACE:
        if _note_starts(r, place_jointly(r.core, r.index, r.at_hand, r.placed.size, r.placed)):
            return PAUSED
    return reason


@long_kernel
def replay_by_residual_drf(r: Replay) -> int:
    """Go on by `placing_at_hand.place_by_residual_drf`."""
    while (reason := _go_to_placements(r)) == PLACE:
        if _note_starts(
            r, place_by_residual_drf(r.core, r.index, r.at_hand, r.placed.size, r.placed)
        ):
            return PAUSED
    return reason


@long_kernel
def replay_by_residual_tsf(r: Replay) -> int:
    """Go on by `placing_at_hand.place_by_residual_tsf`."""
    while (reason := _go_to_placements(r)) == PLACE:
        if _note_starts(
            r, place_by_residual_tsf(r.core, r.index, r.at_hand, r.placed.size, r.placed)
        ):
            return PAUSED
    return reason


@long_kernel
def replay_on_best_by_residual_drf(r: Replay) -> int:
    """Go on by `placing_at_hand.place_on_best_by_residual_drf`."""
    while (reason := _go_to_placements(r)) == PLACE:
        if _note_starts(
            r, place_on_best_by_residual_drf(r.core, r.index, r.at_hand, r.placed.size, r.placed)
        ):
            return PAUSED
    return reason


@long_kernel
def replay_on_best_by_residual_tsf(r: Replay) -> int:
    """Go on by `placing_at_hand.place_on_best_by_residual_tsf`."""
    while (reason := _go_to_placements(r)) == PLACE:
        if _note_starts(
            r, place_on_best_by_residual_tsf(r.core, r.index, r.at_hand, r.placed.size, r.placed)
        ):
            return PAUSED
    return reason


# By the kernel that places live.
ENTRIES = {
    place: replay_in_turn,
    place_oldest: replay_oldest,
    place_on_best: replay_on_best,
    visit_servers: replay_in_rounds,
    visit_by_residual: replay_in_rounds_by_residual,
    make_offers: replay_by_offers,
    place_jointly: replay_jointly,
    place_by_residual_drf: replay_by_residual_drf,
    place_by_residual_tsf: replay_by_residual_tsf,
    place_on_best_by_residual_drf: replay_on_best_by_residual_drf,
    place_on_best_by_residual_tsf: replay_on_best_by_residual_tsf,
}


@separate_kernel
def _note_starts(replay: Replay, n: int) -> bool:
    """Put placements into the log, and their ends among what is to come; whether to pause."""
    own = replay.own
    for p in range(n):
        _note_start(own, replay.core, replay.placed[p])
    if n < replay.placed.size:
        own.stage[0] = FINISHES
    return bool(own.pause[0])


@separate_kernel
def _go_to_placements(replay: Replay) -> int:
    """Go on to the next placements: `PLACE`, unless a call must return first."""
    own, core = replay.own, replay.core
    if own.stage[0] == FINISHES:
        now = _next_moment(own)
        if replay.filters is not None:
            now = min(now, next_offer(replay.filters))
        if now == np.inf:
            return OVER
        own.now[0] = core.numbers[0].now = now
        while own.n_running[0] > 0 and own.ending[0] == now:
            row = int(np.int64(own.row[_pop(own)]))  # 32 bits would be compiled for apart
            stop(core, replay.index, row, False, replay.at_hand)
        own.stage[0] = SUBMISSIONS
        if own.server_time[0] == now:
            return SERVERS_CHANGE
    if own.stage[0] == SUBMISSIONS:
        if not _submit_all(own, core):
            return IS_FULL
        _withdraw_all(own, core)
        own.stage[0] = PLACEMENTS
    has_room = own.n_started[0] + replay.placed.size <= own.task.size
    return PLACE if has_room and core.numbers[0].spare_tasks >= replay.placed.size else IS_FULL


@inner_kernel
def _next_moment(own: ReplayState) -> float:
    now = own.server_time[0]
    if own.n_running[0] > 0:
        now = min(now, own.ending[0])
    if own.next_job[0] < own.job_submit.size:
        now = min(now, own.job_submit[own.next_job[0]])
    if own.next_cancel[0] < own.cancel_time.size:
        now = min(now, own.cancel_time[own.next_cancel[0]])
    return float(now)


@inner_kernel
def _submit_all(own: ReplayState, core: Core) -> bool:
    """Submit the jobs of this moment; return whether there was room for all their groups."""
    now = own.now[0]
    while own.next_job[0] < own.job_submit.size and own.job_submit[own.next_job[0]] == now:
        while own.next_set[0] < own.job_first_set[own.next_job[0] + 1]:
            number = own.next_set[0]
            if own.set_tasks[number] > 0:
                if core.numbers[0].spare_group == NONE:
                    return False
                g = submit(core, own.set_line[number], own.set_tasks[number], 0, now, number)
                own.group_set[g] = number
                if own.set_group.size > 0:
                    own.set_group[number] = g
            own.next_set[0] += 1
        own.next_job[0] += 1
    return True


@inner_kernel
def _withdraw_all(own: ReplayState, core: Core) -> None:
    """Drop what waits of the jobs that are withdrawn at this moment."""
    now = own.now[0]
    while own.next_cancel[0] < own.cancel_time.size and own.cancel_time[own.next_cancel[0]] == now:
        job = own.cancel_job[own.next_cancel[0]]
        for number in range(own.job_first_set[job], own.job_first_set[job + 1]):
            g = own.set_group[number]
            # A group of which nothing waits or runs is over; another set may have its row.
            is_its = g != NONE and own.group_set[g] == number
            if is_its and (core.groups[g].waiting > 0 or core.groups[g].running > 0):
                drop(core, g)
        own.next_cancel[0] += 1


@inner_kernel
def _note_start(own: ReplayState, core: Core, t: int) -> None:
    """Put a placement into the log, and its end among what is to come."""
    started, start = core.tasks[t], own.n_started[0]
    task = own.set_first_task[own.group_set[started.group]] + started.index
    now = own.now[0]
    end = now + own.duration[task]
    own.task[start], own.server[start], own.row[start] = task, started.server, t
    own.start[start], own.end[start] = now, end
    own.n_started[0] += 1
    _push(own, end, start)


@inner_kernel
def _ends_before(own: ReplayState, a: int, b: int) -> bool:
    if own.ending[a] != own.ending[b]:
        return bool(own.ending[a] < own.ending[b])
    return bool(own.ending_start[a] < own.ending_start[b])


@inner_kernel
def _swap(own: ReplayState, a: int, b: int) -> None:
    own.ending[a], own.ending[b] = own.ending[b], own.ending[a]
    other = own.ending_start[a]
    own.ending_start[a] = own.ending_start[b]
    own.ending_start[b] = other


@inner_kernel
def _push(own: ReplayState, end: float, start: int) -> None:
    position = own.n_running[0]
    own.n_running[0] += 1
    own.ending[position], own.ending_start[position] = end, start
    while position > 0:
        parent = (position - 1) // 2
        if not _ends_before(own, position, parent):
            break
        _swap(own, position, parent)
        position = parent


@inner_kernel
def _pop(own: ReplayState) -> int:
    """Take the task that ends first off what runs, and return its start in the log."""
    first = own.ending_start[0]
    own.n_running[0] -= 1
    size = own.n_running[0]
    _swap(own, 0, size)
    position = 0
    while True:
        child = 2 * position + 1
        if child >= size:
            return int(first)
        if child + 1 < size and _ends_before(own, child + 1, child):
            child += 1
        if not _ends_before(own, child, position):
            return int(first)
        _swap(own, position, child)
        position = child

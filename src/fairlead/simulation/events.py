"""The events of a replay, one moment after the other; compiled.

At one moment first tasks end, in order of their ends' starts in the log; then servers change; then
jobs arrive, in their order; then jobs are withdrawn; and then tasks are placed until nothing more
fits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import inner_kernel, long_kernel, separate_kernel
from fairlead.scheduler.backfilling import place_or_backfill
from fairlead.scheduler.backlog import note_end, note_group, note_over
from fairlead.scheduler.choosing import Index, Kept
from fairlead.scheduler.cycle import drop, place, stop, submit, submit_member
from fairlead.scheduler.favourites import place_on_best
from fairlead.scheduler.fifo import place_oldest
from fairlead.scheduler.offering import next_offer, place_by_offers
from fairlead.scheduler.placing_at_hand import (
    place_by_residual_drf,
    place_by_residual_tsf,
    place_jointly,
    place_on_best_by_residual_drf,
    place_on_best_by_residual_tsf,
)
from fairlead.scheduler.records import NONE, Core, Switch
from fairlead.scheduler.round_robin import (
    place_in_rounds,
    place_in_rounds_by_residual,
)
from fairlead.scheduler.scanning import place_by_scan, place_on_best_by_scan
from fairlead.scheduler.spare_rows import has_groups, has_line, row_for_line, task_rows
from fairlead.simulation.replay_state import FINISHES, PLACEMENTS, SUBMISSIONS, ReplayState

# Why a call returns, or what is to be done next.
OVER, SERVERS_CHANGE, IS_FULL, PAUSED, PLACE = 0, 1, 2, 3, 4


@by_address
class Replay(NamedTuple):
    """All that a replay works on.

    Attributes
    ----------
    own : ReplayState
        What is to come, what runs, and the log.
    core, index, at_hand, filters, gangs, backlog
        The scheduler's, or None where there is nothing of it; `filters` are `Filters`, the backlog
        is a `Backlog`.
    limit : int
        Placements of one call, but for a gang, which is placed whole.
    placed : (P,) int
        Receives the placements of one call.
    """

    own: ReplayState
    core: Core
    index: Index
    at_hand: Kept
    filters: Any
    gangs: Switch
    backlog: Any
    takers: Any
    limit: int
    placed: IntArray


# Each goes on until the end or a pause, and returns why it stopped. O(log running) for what starts
# and ends, and what the scheduler costs.


@long_kernel
def replay_in_turn(r: Replay) -> int:
    """Go on by `cycle.place`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place(r.core, r.index, r.gangs, None, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_oldest(r: Replay) -> int:
    """Go on by `fifo.place_oldest`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_oldest(r.core, r.index, r.gangs, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_backfilling(r: Replay) -> int:
    """Go on by `backfilling.place_or_backfill`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_or_backfill(r.core, r.index, r.gangs, r.backlog, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_on_best(r: Replay) -> int:
    """Go on by `favourites.place_on_best`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_on_best(r.core, r.index, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_in_rounds(r: Replay) -> int:
    """Go on by `round_robin.place_in_rounds`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_in_rounds(r.core, r.gangs, r.takers, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_in_rounds_by_residual(r: Replay) -> int:
    """Go on by `round_robin.place_in_rounds_by_residual`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_in_rounds_by_residual(r.core, r.at_hand, r.gangs, r.takers, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_by_offers(r: Replay) -> int:
    """Go on by `offering.place_by_offers`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_by_offers(r.core, r.filters, r.gangs, r.takers, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_jointly(r: Replay) -> int:
    """Go on by `placing_at_hand.place_jointly`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_jointly(r.core, r.index, r.at_hand, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_by_residual_drf(r: Replay) -> int:
    """Go on by `placing_at_hand.place_by_residual_drf`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_by_residual_drf(r.core, r.index, r.at_hand, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_by_residual_tsf(r: Replay) -> int:
    """Go on by `placing_at_hand.place_by_residual_tsf`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_by_residual_tsf(r.core, r.index, r.at_hand, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_on_best_by_residual_drf(r: Replay) -> int:
    """Go on by `placing_at_hand.place_on_best_by_residual_drf`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_on_best_by_residual_drf(r.core, r.index, r.at_hand, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_on_best_by_residual_tsf(r: Replay) -> int:
    """Go on by `placing_at_hand.place_on_best_by_residual_tsf`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_on_best_by_residual_tsf(r.core, r.index, r.at_hand, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_by_scan(r: Replay) -> int:
    """Go on by `scanning.place_by_scan`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_by_scan(r.core, r.index, r.at_hand, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


@long_kernel
def replay_on_best_by_scan(r: Replay) -> int:
    """Go on by `scanning.place_on_best_by_scan`."""
    reason = _go_to_placements(r)
    while reason == PLACE:
        n = place_on_best_by_scan(r.core, r.index, r.at_hand, r.limit, r.placed)
        reason = _note_starts(r, n)
    return reason


# By the name of the kernel that places live.
ENTRIES = {
    "place": "replay_in_turn",
    "place_oldest": "replay_oldest",
    "place_or_backfill": "replay_backfilling",
    "place_on_best": "replay_on_best",
    "visit_servers": "replay_in_rounds",
    "visit_by_residual": "replay_in_rounds_by_residual",
    "make_offers": "replay_by_offers",
    "place_jointly": "replay_jointly",
    "place_by_residual_drf": "replay_by_residual_drf",
    "place_by_residual_tsf": "replay_by_residual_tsf",
    "place_on_best_by_residual_drf": "replay_on_best_by_residual_drf",
    "place_on_best_by_residual_tsf": "replay_on_best_by_residual_tsf",
    "place_by_scan": "replay_by_scan",
    "place_on_best_by_scan": "replay_on_best_by_scan",
}


def entry_of(kernel: Any) -> Any:
    """Return what replays by the policy that a kernel places by."""
    return globals()[ENTRIES[kernel.__name__]]


@separate_kernel
def _note_starts(r: Replay, n: int) -> int:
    """Put placements into the log, and their ends among what is to come; go on as that returns."""
    for p in range(n):
        _note_start(r.own, r.core, r.placed[p])
    if r.core.numbers[0].lacking > 0 or r.core.numbers[0].asked != NONE:
        return IS_FULL
    if n < r.limit:
        r.own.stage[0] = FINISHES
    return PAUSED if r.own.pause[0] else _go_to_placements(r)


@separate_kernel
def _go_to_placements(replay: Replay) -> int:
    """Go on to the next placements: `PLACE`, unless a call must return first."""
    own, core = replay.own, replay.core
    if own.stage[0] == FINISHES:
        now = _next_moment(own, replay.filters)
        if now == np.inf:
            return OVER
        own.now[0] = core.numbers[0].now = now
        while own.n_running[0] > 0 and own.ending[0] == now:
            row = int(np.int64(own.row[_pop(own)]))  # 32 bits would be compiled for apart
            _note_end(core, replay.backlog, row)
            stop(core, replay.index, replay.at_hand, replay.gangs, None, row, False)
        own.stage[0] = SUBMISSIONS
        if own.server_time[0] == now:
            return SERVERS_CHANGE
    if own.stage[0] == SUBMISSIONS:
        if not _submit_all(own, core, replay.gangs, replay.backlog):
            return IS_FULL
        _withdraw_all(own, core, replay.gangs, replay.backlog)
        own.stage[0] = PLACEMENTS
    has_room = own.n_started[0] + replay.placed.size <= own.task.size
    return PLACE if has_room and task_rows(core) >= replay.placed.size else IS_FULL


@inner_kernel
def _note_end(core: Core, backlog: Any, row: int) -> None:
    if backlog is not None:
        note_end(core, backlog, row)


@inner_kernel
def _next_moment(own: ReplayState, filters: Any) -> float:
    now = own.server_time[0]
    if filters is not None:
        now = min(now, next_offer(filters))
    if own.n_running[0] > 0:
        now = min(now, own.ending[0])
    if own.next_job[0] < own.job_submit.size:
        now = min(now, own.job_submit[own.next_job[0]])
    if own.next_cancel[0] < own.cancel_time.size:
        now = min(now, own.cancel_time[own.next_cancel[0]])
    return float(now)


@inner_kernel
def _submit_all(own: ReplayState, core: Core, gangs: Switch, backlog: Any) -> bool:
    """Submit the jobs of this moment; return whether there was room for all their groups."""
    now = own.now[0]
    while own.next_job[0] < own.job_submit.size and own.job_submit[own.next_job[0]] == now:
        if gangs is not None and own.job_gang[own.next_job[0]]:
            if not _submit_gang(own, core, backlog, own.next_job[0]):
                return False
            own.next_set[0] = own.job_first_set[own.next_job[0] + 1]
        while own.next_set[0] < own.job_first_set[own.next_job[0] + 1]:
            number = own.next_set[0]
            if own.set_tasks[number] > 0:
                if not has_groups(core, 1):
                    return False
                g = submit(core, None, own.set_line[number], own.set_tasks[number], 0, now, number)
                _note_group(own, number, g)
                if backlog is not None:
                    core.groups[g].limit = own.job_limit[own.next_job[0]]
                    note_group(core, backlog, g)
            own.next_set[0] += 1
        own.next_job[0] += 1
    return True


@inner_kernel
def _note_group(own: ReplayState, number: int, g: int) -> None:
    own.group_set[g] = number
    if own.set_group.size > 0:
        own.set_group[number] = g


@separate_kernel
def _submit_gang(own: ReplayState, core: Core, backlog: Any, job: int) -> bool:
    """Submit a job that is a gang; return whether there was room for all its groups."""
    begin, end = own.job_first_set[job], own.job_first_set[job + 1]
    if own.set_tasks[begin] == 0:  # none of it can be placed
        return True
    if not has_line(core) or not has_groups(core, end - begin):
        return False
    gang, number = NONE, row_for_line(core)
    line = core.lines[number]
    line.queue, line.task_shape = core.lines[own.set_line[begin]].queue, NONE
    line.first, line.parked = NONE, False
    for k in range(begin, end):
        tasks, key = own.set_tasks[k], (0, own.now[0], begin)
        g = submit_member(core, None, own.set_line[k], tasks, gang, number, 0, key)
        _note_group(own, k, g)
        core.groups[g].limit = own.job_limit[job]
        if gang == NONE:
            gang = g
    if backlog is not None:
        note_group(core, backlog, gang)
    return True


@inner_kernel
def _withdraw_all(own: ReplayState, core: Core, gangs: Switch, backlog: Any) -> None:
    """Drop what waits of the jobs that are withdrawn at this moment."""
    now = own.now[0]
    while own.next_cancel[0] < own.cancel_time.size and own.cancel_time[own.next_cancel[0]] == now:
        job = own.cancel_job[own.next_cancel[0]]
        for number in range(own.job_first_set[job], own.job_first_set[job + 1]):
            g = own.set_group[number]
            # A group is over once nothing of it waits or runs; another set may have its row.
            if g != NONE and own.group_set[g] == number and _is_there(core, g, gangs):
                if backlog is not None:
                    note_over(backlog, g)
                drop(core, gangs, None, g)
        own.next_cancel[0] += 1


@inner_kernel
def _is_there(core: Core, g: int, gangs: Switch) -> bool:
    """Return whether anything of a group waits or runs, or of the gang that it is the first of."""
    group = core.groups[g]
    if gangs is not None and group.gang != NONE:
        return bool(group.gang == g)
    return bool(group.waiting > 0 or group.running > 0)


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

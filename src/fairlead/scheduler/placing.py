"""Place what starts at once, a task of a set or all tasks of a gang; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import add
from fairlead.optimize.keyed_heap import raise_least
from fairlead.scheduler.backlog import NONE, line_up, step_out, take_from_set
from fairlead.scheduler.criteria import RESIDUAL_TSF
from fairlead.scheduler.freed import note_freed
from fairlead.scheduler.queue import MANY, Queue, dismiss, face_first, note_key, rank
from fairlead.scheduler.ratio_index import RatioIndex, enter, leave
from fairlead.scheduler.scoring import tasks_that_fit
from fairlead.scheduler.searching import (
    BEST_FIT,
    BEST_FIT_FIRST,
    JOINT,
    choose_server,
    share_of_server,
)
from fairlead.scheduler.state import State, fits, give_back, may_take, take

# Instead of where placements end.
FAILED, RAISED = -1, -2


class Starts(NamedTuple):
    """Room for the placements of one call, in their order, and for one gang more; P in all.

    Attributes
    ----------
    kind, server, number : (P,) int
        Kind of task, server, and set of each.
    is_over : (1,) bool
        Whether nothing more fits, or else the limit was reached.
    limit : int
        A call returns before it places anything more once it has placed so many. The rest of the
        room holds any gang, placed or tried.
    """

    kind: IntArray
    server: IntArray
    number: IntArray
    is_over: IntArray
    limit: int


def room_for_starts(limit: int, largest_gang: int = 0) -> Starts:
    """Return room for that many placements, and for what may be tried beyond them."""
    kind, server, number = np.empty((3, limit + largest_gang), dtype=np.int64)
    return Starts(kind, server, number, np.zeros(1, dtype=np.int64), limit)


@inner_kernel
def detach(state: State, queue: Queue, index: RatioIndex, select: int, server: int) -> None:
    """Forget what a server has free, before that changes."""
    if select in (BEST_FIT, BEST_FIT_FIRST):
        leave(state, index, server)
    if state.scoring == RESIDUAL_TSF:
        _count(state, queue, server, -1.0)


@inner_kernel
def attach(state: State, queue: Queue, index: RatioIndex, select: int, server: int) -> None:
    """Note what a server has free, after that changed."""
    if state.scoring == RESIDUAL_TSF:
        _count(state, queue, server, 1.0)
    if select in (BEST_FIT, BEST_FIT_FIRST):
        enter(state, index, server)


@inner_kernel
def _count(state: State, queue: Queue, server: int, sign: float) -> None:
    """Add what would fit on the server to the headroom of all counted kinds, or take it off."""
    for k in range(queue.n_counted[0]):
        kind = queue.counted[k]
        tasks, tasks_low = tasks_that_fit(state, kind, server)
        queue.headroom[kind], queue.headroom_low[kind] = add(
            queue.headroom[kind], queue.headroom_low[kind], sign * tasks, sign * tasks_low
        )


@separate_kernel
def release(
    state: State, queue: Queue, index: RatioIndex, select: int, kind: int, server: int
) -> None:
    """Free what one placed task of a kind holds on a server."""
    detach(state, queue, index, select, server)
    give_back(state, kind, server)
    attach(state, queue, index, select, server)


@inner_kernel
def place_at_hand(
    state: State,
    queue: Queue,
    index: RatioIndex,
    select: int,
    head: int,
    starts: Starts,
    n: int,
) -> int:
    """Place what is at hand, where the selection puts it, and return where `starts` ends then.

    `FAILED` if it does not fit, and `RAISED` if the score on the server is above the bound in the
    heap, which is raised instead.
    """
    gangs = queue.gangs
    if gangs.has_failed[head]:
        return FAILED
    end = place_unit(state, queue, index, select, head, -1, False, starts, n)
    if end == FAILED and gangs.is_head[head]:
        gangs.has_failed[head] = True
        gangs.failed[gangs.n_failed[0]] = head
        gangs.n_failed[0] += 1
    return end


@inner_kernel
def place_unit(
    state: State,
    queue: Queue,
    index: RatioIndex,
    select: int,
    head: int,
    first_server: int,
    only: bool,
    starts: Starts,
    n: int,
) -> int:
    """Place a task of a kind, or all of a gang one after the other, and return where it ends.

    Parameters
    ----------
    state, queue, index, select
        As for `choose_server`.
    head : int
        The kind, or the head of the gang.
    first_server : int
        Where the first task goes, or -1 for where the selection puts it.
    only : bool
        Whether all tasks go there.
    starts : Starts
        Receives the placements from `n` on.
    n : int

    Returns
    -------
    int
        The end of the placements; or `FAILED` or `RAISED`, when nothing is placed.
    """
    end, member, is_raised = n, head, False
    while member != NONE:
        number = queue.gangs.set_of[member]
        waiting = state.pending[member]
        if not queue.gangs.is_head[head]:
            number, waiting = queue.backlog.first_set[member], 1
        while waiting > 0:
            if first_server >= 0 and (only or end == n):
                server = first_server if may_take(state, member, first_server) else -1
            else:
                server = choose_server(state, queue, index, select, member)
                is_first = select == JOINT and end == n and server >= 0
                if is_first and _raises_bound(state, queue, member, server):
                    if not queue.gangs.is_head[head]:
                        return RAISED
                    is_raised = True  # if all of the gang fits
            if server < 0:
                take_back(state, queue, index, select, starts, n, end)
                return FAILED
            detach(state, queue, index, select, server)
            take(state, member, server)
            attach(state, queue, index, select, server)
            starts.kind[end], starts.server[end], starts.number[end] = member, server, number
            end += 1
            waiting -= 1
        member = queue.gangs.next_member[member]
    if is_raised:
        take_back(state, queue, index, select, starts, n, end)
        return RAISED
    return end


@inner_kernel
def _raises_bound(state: State, queue: Queue, kind: int, server: int) -> bool:
    """Return whether the owner's score on the server is not the key in the heap, but set it so."""
    heaps, owner = queue.heaps, state.owner[kind]
    key, key_low = share_of_server(state, kind, server)
    if key == heaps.key[owner] and key_low == heaps.key_low[owner]:
        return False
    raise_least(heaps, 0, state.placed_by.size, key, key_low)
    queue.aim[owner] = MANY if queue.gangs.set_of[kind] != NONE else server
    return True


@inner_kernel
def doubt_bounds(state: State, queue: Queue, starts: Starts, begin: int, end: int) -> None:
    """Forget bounds of owners whose task at hand may not fit any more: the next may score less.

    For what was placed from `begin` to `end`. O(U) for each.
    """
    backlog = queue.backlog
    for k in range(begin, end):
        server = starts.server[k]
        for owner in range(queue.aim.size):
            if queue.heaps.place[owner] < 0 or queue.aim[owner] not in (server, MANY):
                continue
            kind = backlog.first_kind[owner]
            if kind == backlog.last_kind[owner]:
                continue
            if queue.aim[owner] == MANY or not fits(state, kind, server):
                rank(state, queue, owner)


@inner_kernel
def take_back(
    state: State,
    queue: Queue,
    index: RatioIndex,
    select: int,
    starts: Starts,
    n: int,
    end: int,
) -> None:
    """Undo what was placed from `n` to `end`, before anything else is."""
    for k in range(end - 1, n - 1, -1):
        kind, server = starts.kind[k], starts.server[k]
        release(state, queue, index, select, kind, server)
        state.pending[kind] += 1
        if queue.gangs.set_of[kind] != NONE:  # first-fit may have gone past what a gang filled
            note_freed(queue.freed, server)


@inner_kernel
def first_member(state: State, queue: Queue, kind: int) -> int:
    """Return the kind of the task that is placed first of what is at hand."""
    while state.pending[kind] == 0:
        kind = queue.gangs.next_member[kind]
    return int(kind)


@inner_kernel
def note_placed(state: State, queue: Queue, kind: int) -> None:
    """Take in that what was at hand of a kind is placed."""
    backlog, owner = queue.backlog, state.owner[kind]
    number = backlog.first_set[kind]
    take_from_set(backlog, number, 1)
    if backlog.first_set[kind] == NONE:
        dismiss(state, queue, kind)
    elif backlog.first_set[kind] != number:
        step_out(backlog, owner, kind)
        line_up(backlog, owner, kind)
        face_first(queue, owner)
    if queue.heaps.place[owner] >= 0:
        rank(state, queue, owner)
    else:
        note_key(state, queue, kind)

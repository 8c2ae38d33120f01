"""Serve the owner with the least score until nothing more fits; compiled.

What is at hand of an owner is the first of its waiting sets of which a task fits somewhere (of a
gang: all of it), in order of arrival; sets before it are passed over. Where scores do not change
with what is free, or only rise while tasks are placed, owners are kept in a heap by a lower bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel, kernel
from fairlead.optimize.double_double import add, compare, divide, of_whole, times
from fairlead.optimize.keyed_heap import raise_least
from fairlead.scheduler.backlog import NONE, line_up, step_out, take_from_set
from fairlead.scheduler.criteria import FIXED, RESIDUAL_DRF, RESIDUAL_TSF
from fairlead.scheduler.freed import note_freed
from fairlead.scheduler.queue import (
    Queue,
    dismiss,
    end_round,
    note_key,
    rank,
    wake_all,
    wake_before,
)
from fairlead.scheduler.ratio_index import RatioIndex, enter, leave
from fairlead.scheduler.scoring import owners_score, tasks_that_fit
from fairlead.scheduler.searching import (
    BEST_FIT,
    BEST_FIT_FIRST,
    choose_server,
    share_of_server,
)
from fairlead.scheduler.state import LOW_BITS, State, give_back, take


class Starts(NamedTuple):
    """Room for the placements of one call, in their order; P of them.

    Attributes
    ----------
    kind, server, number : (P,) int
        Kind of task, server, and set of each.
    is_over : (1,) bool
        Whether nothing more fits, or else the room was used up.
    """

    kind: IntArray
    server: IntArray
    number: IntArray
    is_over: IntArray


def room_for_starts(length: int) -> Starts:
    """Return room for that many placements."""
    kind, server, number = np.empty((3, length), dtype=np.int64)
    return Starts(kind, server, number, np.zeros(1, dtype=np.int64))


@kernel
def detach(state: State, queue: Queue, index: RatioIndex, select: int, server: int) -> None:
    """Forget what a server has free, before that changes."""
    if select in (BEST_FIT, BEST_FIT_FIRST):
        leave(state, index, server)
    if state.scoring == RESIDUAL_TSF:
        _count(state, queue, server, -1.0)


@kernel
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


@inner_kernel
def hold(
    state: State, queue: Queue, index: RatioIndex, select: int, kind: int, server: int
) -> None:
    """Place a waiting task of a kind on a server."""
    detach(state, queue, index, select, server)
    take(state, kind, server)
    attach(state, queue, index, select, server)


@inner_kernel
def find_place(
    state: State,
    queue: Queue,
    index: RatioIndex,
    select: int,
    kind: int,
    starts: Starts,
    n: int,
) -> int:
    """Return the server of what is at hand (of a gang's first task), or -1 if it does not fit.

    Where all tasks of a gang would go is left in `starts` from `n` on.
    """
    if not queue.gangs.is_head[kind]:
        return choose_server(state, queue, index, select, kind)
    if queue.gangs.has_failed[kind]:
        return -1
    server = try_gang(state, queue, index, select, kind, -1, starts, n)
    if server < 0:
        queue.gangs.has_failed[kind] = True
        queue.gangs.failed[queue.gangs.n_failed[0]] = kind
        queue.gangs.n_failed[0] += 1
    return server


@inner_kernel
def try_gang(
    state: State,
    queue: Queue,
    index: RatioIndex,
    select: int,
    head: int,
    first_server: int,
    starts: Starts,
    n: int,
) -> int:
    """Return the first server of a gang, or -1 if its tasks do not all fit one after the other.

    Each goes where the selection puts it, the first on `first_server` unless that is -1. Nothing
    is placed in the end; `starts` receives the tasks from `n` on.
    """
    size, fitted, member = 0, True, head
    while fitted and member != NONE:
        waiting = state.pending[member]
        while fitted and waiting > 0:
            server = first_server
            if size > 0 or server < 0:
                server = choose_server(state, queue, index, select, member)
            fitted = server >= 0
            if fitted:
                hold(state, queue, index, select, member, server)
                starts.kind[n + size], starts.server[n + size] = member, server
                starts.number[n + size] = queue.gangs.set_of[member]
                size += 1
                waiting -= 1
        member = queue.gangs.next_member[member]
    for k in range(n + size - 1, n - 1, -1):
        server = starts.server[k]
        detach(state, queue, index, select, server)
        give_back(state, starts.kind[k], server)
        state.pending[starts.kind[k]] += 1
        attach(state, queue, index, select, server)
        note_freed(queue.freed, server)
    return int(starts.server[n]) if fitted else -1


@inner_kernel
def size_at_hand(state: State, queue: Queue, kind: int) -> int:
    """Return how many tasks start together with a task of the kind."""
    if not queue.gangs.is_head[kind]:
        return 1
    size, member = 0, kind
    while member != NONE:
        size += state.pending[member]
        member = queue.gangs.next_member[member]
    return size


@inner_kernel
def serve(
    state: State,
    queue: Queue,
    index: RatioIndex,
    select: int,
    kind: int,
    server: int,
    starts: Starts,
    n: int,
) -> int:
    """Place what is at hand where `find_place` found room; return how many are in `starts` then."""
    backlog, owner = queue.backlog, state.owner[kind]
    number = backlog.first_set[kind]
    if queue.gangs.is_head[kind]:
        end = n + size_at_hand(state, queue, kind)
        for k in range(n, end):
            hold(state, queue, index, select, starts.kind[k], starts.server[k])
    else:
        end = n + 1
        starts.kind[n], starts.server[n], starts.number[n] = kind, server, number
        hold(state, queue, index, select, kind, server)
    take_from_set(backlog, number, 1)
    if backlog.first_set[kind] == NONE:
        dismiss(state, queue, kind)
    elif backlog.first_set[kind] != number:
        step_out(backlog, owner, kind)
        line_up(backlog, owner, kind)
    if queue.heaps.place[owner] >= 0:
        rank(state, queue, owner)
    else:
        note_key(state, queue, kind)
    return end


@kernel
def serve_by_key(state: State, queue: Queue, index: RatioIndex, select: int, starts: Starts) -> int:
    """Place tasks until nothing more fits or the room is used up; return how many were placed.

    For scores that do not change with what is free, or that are the owner's on a server.

    Notes
    -----
    A placement costs O(log U) and what the search for a server costs; where scores depend on the
    server, once for each owner whose bound was below the least score.
    """
    n = 0
    while True:
        if queue.exact_keys:
            wake_before(state, queue)
        else:
            wake_all(state, queue)
        if queue.heaps.size[0] == 0:
            break
        owner = queue.heaps.item[0]
        kind = queue.backlog.first_kind[owner]
        if n + size_at_hand(state, queue, kind) > starts.kind.size:
            starts.is_over[0] = 0
            return n
        server = find_place(state, queue, index, select, kind, starts, n)
        if server < 0:
            dismiss(state, queue, kind)
            continue
        if not queue.exact_keys:
            key, key_low = share_of_server(state, kind, server)
            if key != queue.heaps.key[owner] or key_low != queue.heaps.key_low[owner]:
                raise_least(queue.heaps, 0, state.placed_by.size, key, key_low)
                continue
        n = serve(state, queue, index, select, kind, server, starts, n)
    end_round(queue)
    starts.is_over[0] = 1
    return n


@kernel
def serve_by_scan(
    state: State, queue: Queue, index: RatioIndex, select: int, starts: Starts
) -> int:
    """Place tasks until nothing more fits or the room is used up; return how many were placed.

    For scores that change for everybody with every placement, and for best-fit-first, where a task
    that did not fit on its best server may fit on the next best one, once others are better for it.

    Notes
    -----
    A placement costs, for each owner to be looked at, O(R) and what the search for a server costs;
    under residual tsf O(S R) once for each kind that is at hand.
    """
    n = 0
    wake_all(state, queue)
    while True:
        chosen, chosen_server, key, key_low = -1, -1, 0.0, 0.0
        for owner in range(state.placed_by.size):
            if queue.heaps.place[owner] < 0:
                continue
            kind, server = _look_along(state, queue, index, select, owner, starts, n)
            if kind == NONE:
                continue
            if n + size_at_hand(state, queue, kind) > starts.kind.size:
                starts.is_over[0] = 0
                return n
            high, low = score_at_hand(state, queue, kind)
            order = -1 if chosen < 0 else compare(high, low, key, key_low)
            if order < 0 or (order == 0 and select == BEST_FIT_FIRST):
                chosen, chosen_server, key, key_low = kind, server, high, low
        if chosen < 0:
            break
        if queue.gangs.is_head[chosen]:
            find_place(state, queue, index, select, chosen, starts, n)
        n = serve(state, queue, index, select, chosen, chosen_server, starts, n)
    end_round(queue)
    starts.is_over[0] = 1
    return n


@inner_kernel
def _look_along(
    state: State,
    queue: Queue,
    index: RatioIndex,
    select: int,
    owner: int,
    starts: Starts,
    n: int,
) -> tuple[int, int]:
    """Return the kind at hand of an owner and its server, or -1 twice."""
    backlog = queue.backlog
    kind = backlog.first_kind[owner]
    while kind != NONE:
        following = backlog.next_kind[kind]
        if n + size_at_hand(state, queue, kind) > starts.kind.size:
            return kind, -1
        server = find_place(state, queue, index, select, kind, starts, n)
        if server >= 0:
            return kind, server
        if select != BEST_FIT_FIRST:
            dismiss(state, queue, kind)
        if queue.strict:
            break
        kind = following
    return -1, -1


@inner_kernel
def score_at_hand(state: State, queue: Queue, kind: int) -> tuple[float, float]:
    """Return the score of a kind's owner with a task of the kind at hand, as a pair."""
    owner = state.owner[kind]
    if state.scoring == FIXED:
        return owners_score(state, owner)
    if state.scoring == RESIDUAL_TSF and queue.counted_in[kind] != queue.round[0]:
        _count_kind(state, queue, kind)
    largest, largest_low = 0.0, 0.0
    for r in range(state.free.shape[1]):
        if state.demand[kind, r] > 0 and state.held[owner, r] > 0:
            high, low = of_whole(state.held[owner, r])
            if state.scoring == RESIDUAL_DRF:
                over, over_low = of_whole(state.free_high[r])
                over, over_low = times(over, over_low, float(1 << LOW_BITS), 0.0)
                rest, rest_low = of_whole(state.free_low[r])
                over, over_low = add(over, over_low, rest, rest_low)
            else:
                over, over_low = of_whole(state.demand[kind, r])
            high, low = divide(high, low, over, over_low)
            if compare(high, low, largest, largest_low) > 0:
                largest, largest_low = high, low
    if state.scoring == RESIDUAL_TSF:
        largest, largest_low = divide(
            largest, largest_low, queue.headroom[kind], queue.headroom_low[kind]
        )
    return times(largest, largest_low, state.inverse_weight[kind], state.inverse_weight_low[kind])


@inner_kernel
def _count_kind(state: State, queue: Queue, kind: int) -> None:
    """Count the tasks of a kind that all free amounts would take, and keep that until the end."""
    total, total_low = 0.0, 0.0
    for server in range(state.free.shape[0]):
        tasks, tasks_low = tasks_that_fit(state, kind, server)
        total, total_low = add(total, total_low, tasks, tasks_low)
    queue.headroom[kind], queue.headroom_low[kind] = total, total_low
    queue.counted[queue.n_counted[0]] = kind
    queue.n_counted[0] += 1
    queue.counted_in[kind] = queue.round[0]

"""Serve the owner with the least score until nothing more fits; compiled.

What is at hand of an owner is the first of its waiting sets of which a task fits somewhere (of a
gang: all of it), in order of arrival; sets before it are passed over. Where scores do not change
with what is free, or only rise while tasks are placed, owners are kept in a heap by a lower bound.
"""

from __future__ import annotations

from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import add, compare, divide, of_whole, times
from fairlead.scheduler.backlog import NONE
from fairlead.scheduler.criteria import FIXED, RESIDUAL_DRF, RESIDUAL_TSF
from fairlead.scheduler.placing import (
    FAILED,
    RAISED,
    Starts,
    doubt_bounds,
    first_member,
    note_placed,
    place_at_hand,
    take_back,
)
from fairlead.scheduler.queue import Queue, dismiss
from fairlead.scheduler.ratio_index import RatioIndex
from fairlead.scheduler.scoring import owners_score, tasks_that_fit
from fairlead.scheduler.searching import BEST_FIT_FIRST
from fairlead.scheduler.state import LOW_BITS, State, held_by
from fairlead.scheduler.waking import end_round, wake_all, wake_before


@separate_kernel
def serve_by_key(state: State, queue: Queue, index: RatioIndex, select: int, starts: Starts) -> int:
    """Place tasks until nothing more fits or the room is used up; return how many were placed.

    For scores that do not change with what is free, or that are the owner's on a server.

    Notes
    -----
    A placement costs O(log U) and what the search for a server costs; where scores depend on the
    server, once for each owner whose bound was below the least score.
    """
    n = int(0)  # noqa: RUF046, UP018 (a plain 0 is compiled for apart)
    while True:
        if queue.exact_keys:
            wake_before(state, queue)
        else:
            wake_all(state, queue)
        if queue.heaps.size[0] == 0:
            break
        if n >= starts.limit:
            starts.is_over[0] = 0
            return n
        kind = queue.backlog.first_kind[queue.heaps.item[0]]
        end = place_at_hand(state, queue, index, select, kind, starts, n)
        if end == FAILED:
            dismiss(state, queue, kind)
        elif end != RAISED:
            note_placed(state, queue, kind)
            if not queue.exact_keys:
                doubt_bounds(state, queue, starts, n, end)
            n = end
    end_round(queue)
    starts.is_over[0] = 1
    return n


@separate_kernel
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
    n = int(0)  # noqa: RUF046, UP018 (a plain 0 is compiled for apart)
    wake_all(state, queue)
    while True:
        if n >= starts.limit:
            starts.is_over[0] = 0
            return n
        chosen, key, key_low = int(-1), 0.0, 0.0  # noqa: RUF046, UP018 (see best_fit)
        for owner in range(state.placed_by.size):
            if queue.heaps.place[owner] < 0:
                continue
            kind = _look_along(state, queue, index, select, owner, starts, n)
            if kind == NONE:
                continue
            high, low = score_at_hand(state, queue, first_member(state, queue, kind))
            order = -1 if chosen < 0 else compare(high, low, key, key_low)
            if order < 0 or (order == 0 and select == BEST_FIT_FIRST):
                chosen, key, key_low = kind, high, low
        if chosen < 0:
            break
        n = place_at_hand(state, queue, index, select, chosen, starts, n)
        note_placed(state, queue, chosen)
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
) -> int:
    """Return the kind at hand of an owner, or -1."""
    backlog = queue.backlog
    kind = backlog.first_kind[owner]
    while kind != NONE:
        following = backlog.next_kind[kind]
        end = place_at_hand(state, queue, index, select, kind, starts, n)
        if end != FAILED:
            take_back(state, queue, index, select, starts, n, end)
            return int(kind)
        if select != BEST_FIT_FIRST:
            dismiss(state, queue, kind)
        if queue.strict:
            break
        kind = following
    return -1


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
        high, low = held_by(state, owner, r)
        if state.demand[kind, r] > 0 and high > 0.0:
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

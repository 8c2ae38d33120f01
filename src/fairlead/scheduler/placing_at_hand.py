"""Placing by scores with a task at hand (`shares_at_hand`): joint, and the residual forms.

The heap of queues has keys that no score is below. They are found again at the top: while tasks are
placed, scores only rise. What makes a score fall has it found anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.optimize.double_double import divide
from fairlead.scheduler.at_hand import AtHand
from fairlead.scheduler.best_fitting import best_fit
from fairlead.scheduler.cycle import start
from fairlead.scheduler.kind_tree import KindTree, plant
from fairlead.scheduler.least_shares import (
    Bounds,
    bound_words,
    least_by_kind,
    least_fresh,
    least_of_free,
    rough_share,
)
from fairlead.scheduler.pool_shares import PoolShares, enter_pool, least_of_pool
from fairlead.scheduler.queues import UNKNOWN
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.rooms import Rooms, would_fit_anywhere
from fairlead.scheduler.servers import end_round, first_fit, may_take, wake_for_fresh
from fairlead.scheduler.shares_at_hand import share_of
from fairlead.scheduler.waiting import block, park
from fairlead.scheduler.watching import has_one_line, set_key, unwatch, watch_server

# Keys in plain floats that differ by more than this, relative, differ in truth.
ROUGH = 1e-13
# Where more servers than this were freed, all scores are found anew.
MANY = 64


@entry_kernel
def place_jointly(core: Core, index: Any, at_hand: AtHand, limit: int, out: IntArray) -> int:
    """Place each task where its queue's share is least; return how many were placed.

    Parameters
    ----------
    core : Core
    index : FitIndex or None
        For residual shares.
    at_hand : AtHand
    limit : int
        At most so many are placed; another call goes on from there.
    out : (P,) int
        Receives the numbers of the tasks, in their order.

    Returns
    -------
    int
        How many were placed: until nothing more fits, or the limit is reached.
    """
    wake_for_fresh(core)
    if at_hand.n_freed[0] > 0:
        _doubt_for_freed(core, at_hand, index is not None)
    return _place_jointly(core, index, at_hand, at_hand.tree, at_hand.bounds, limit, out)


@separate_kernel
def _place_jointly(
    core: Core,
    index: Any,
    at_hand: AtHand,
    tree: KindTree | None,
    bounds: Bounds | None,
    limit: int,
    out: IntArray,
) -> int:
    n, watch = 0, at_hand.watch
    if tree is not None and tree.stale[0]:
        plant(core, tree)
    while n < limit:
        if core.numbers[0].turn == 0:
            end_round(core)
            break
        q = core.turn[0]
        queue = core.queues[q]
        number, s = queue.first, watch.server[q]
        k = core.lines[number].task_shape
        if core.shapes[k].blocked:
            park(core, number)
            continue
        if queue.key >= 0.0 and s != NONE:
            if index is None and may_take(core, k, s):
                out[n] = start(core, index, core.lines[number].first, s, at_hand)
                n += 1
                continue
            if index is not None and at_hand.changes[s] == at_hand.seen[q]:
                out[n] = start(core, index, core.lines[number].first, s, at_hand)
                n += 1
                continue
        if not _holds(core, q, k):
            s = first_fit(core, k)
        elif core.shapes[k].woken_in == core.numbers[0].epoch:
            s = least_fresh(core, index is not None, q, k)
        elif tree is not None:
            s = least_by_kind(core, tree, q, k)
        else:
            s = _least_or_later(core, index, at_hand, bounds, q, k)
            if s == _LATER:
                continue
        if s == NONE:
            block(core, k)
            park(core, number)
            continue
        watch_server(watch, q, s)
        at_hand.seen[q] = at_hand.changes[s]
        if index is None:
            high, low = share_of(core, core.capacity, s, q, k)
        else:
            high, low = share_of(core, core.free, s, q, k)
        set_key(core, q, high, low)
    return n


_LATER = -2


@separate_kernel
def _least_or_later(core: Core, index: Any, at_hand: AtHand, bounds: Any, q: int, k: int) -> int:
    """Return the server with the least share of what is free, or NONE.

    A bound on the share is cheap. Where it is above another queue's key already, the search is put
    off, but for a queue that may have to turn to its next line.
    """
    if bounds is None:
        return NONE
    least = bound_words(core, index, bounds, q, k)
    if least == np.inf:
        return NONE
    if has_one_line(core, q):
        second = np.inf
        for position in range(1, min(3, core.numbers[0].turn)):
            second = min(second, core.queues[core.turn[position]].key)
        least = least / core.queues[q].weight * (1.0 - ROUGH)
        if least > second:
            unwatch(at_hand.watch, q)
            set_key(core, q, least, 0.0)
            return _LATER
    return least_of_free(core, index, bounds, q, k)


@inner_kernel
def _holds(core: Core, q: int, k: int) -> bool:
    """Return whether a queue holds anything of what a task of a shape takes."""
    holds = False
    for r in range(core.held.shape[1]):
        holds |= core.demand[k, r] > 0 and core.held[q, r] > 0
    return bool(holds)


@separate_kernel
def _doubt_for_freed(core: Core, at_hand: AtHand, residual: bool) -> None:
    """Have queues be looked at again whose share of a freed server may be less than their key."""
    n_freed = at_hand.n_freed[0]
    for position in range(core.numbers[0].turn):  # those that rise past others were looked at
        q = core.turn[position]
        queue = core.queues[q]
        if queue.key < 0.0:
            continue
        k = core.lines[queue.first].task_shape
        most = queue.key * queue.weight * (1.0 + ROUGH)
        doubted = n_freed > MANY
        for f in range(0 if doubted else n_freed):
            s = at_hand.freed[f]
            doubted |= may_take(core, k, s) and rough_share(core, residual, q, k, s) <= most
        if doubted:
            set_key(core, q, UNKNOWN, 0.0)
    for f in range(n_freed):
        at_hand.is_freed[at_hand.freed[f]] = 0
    at_hand.n_freed[0] = 0


@entry_kernel
def place_by_residual(core: Core, index: Any, at_hand: AtHand, limit: int, out: IntArray) -> int:
    """Place a task of the queue with the least residual score; return how many were placed.

    Parameters
    ----------
    core : Core
    index : FitIndex or None
        For best-fit.
    at_hand : AtHand
    limit : int
        At most so many are placed; another call goes on from there.
    out : (P,) int
        Receives the numbers of the tasks, in their order.

    Returns
    -------
    int
        How many were placed: until nothing more fits, or the limit is reached.
    """
    wake_for_fresh(core)
    return _place_by_residual(core, index, at_hand, at_hand.shares, at_hand.rooms, limit, out)


@separate_kernel
def _place_by_residual(
    core: Core,
    index: Any,
    at_hand: AtHand,
    shares: PoolShares | None,
    rooms: Rooms | None,
    limit: int,
    out: IntArray,
) -> int:
    n, numbers = 0, core.numbers[0]
    if rooms is not None and rooms.rises[0]:
        rooms.rises[0] = 0
        for position in range(numbers.turn):
            set_key(core, core.turn[position], UNKNOWN, 0.0)
    while n < limit:
        if numbers.turn == 0:
            end_round(core)
            break
        q = core.turn[0]
        if core.queues[q].key >= 0.0 and shares is not None:
            q = least_of_pool(core, shares)
        queue = core.queues[q]
        number = queue.first
        k = core.lines[number].task_shape
        s = NONE
        if core.shapes[k].blocked:
            park(core, number)
            continue
        if queue.key < 0.0 and not has_one_line(core, q):
            s = first_fit(core, k)
            if s == NONE:
                block(core, k)
                park(core, number)
                continue
            watch_server(at_hand.watch, q, s)
        if shares is not None and queue.key < 0.0:
            enter_pool(core, shares, q)
            set_key(core, q, 0.0, 0.0)
            continue
        if rooms is not None and (queue.key < 0.0 or at_hand.seen[q] != rooms.changes[0]):
            at_hand.seen[q] = rooms.changes[0]
            high, low = share_of(core, core.demand, k, q, k)
            total, total_low = would_fit_anywhere(core, rooms, k)
            if total > 0.0:
                high, low = divide(high, low, total, total_low)
            set_key(core, q, high, low)
            continue
        s = first_fit(core, k) if index is None else _best_fit(core, index, k)
        if s == NONE:
            block(core, k)
            park(core, number)
            continue
        out[n] = start(core, index, core.lines[number].first, s, at_hand)
        n += 1
    return n


@inner_kernel
def _best_fit(core: Core, index: Any, k: int) -> int:
    if index is None:
        return NONE
    return best_fit(core, index, k)

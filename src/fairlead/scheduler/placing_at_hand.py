"""Placing by scores with a task at hand (`shares_at_hand`): joint, and the residual forms.

The heap of queues has keys that no score is below. They are found again at the top: while tasks are
placed, scores only rise. What makes a score fall has it found anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare, divide
from fairlead.scheduler.at_hand import AtHand
from fairlead.scheduler.best_fitting import best_fit
from fairlead.scheduler.cycle import start
from fairlead.scheduler.favourites import best_or_block, reconsider, reconsider_fresh
from fairlead.scheduler.kind_tree import plant
from fairlead.scheduler.least_shares import (
    least_by_kind,
    least_fresh,
    rough_share,
)
from fairlead.scheduler.pool_shares import enter_pool, least_of_pool
from fairlead.scheduler.queues import UNKNOWN
from fairlead.scheduler.ratio_tree import LATER, least_of_free
from fairlead.scheduler.records import NONE, Core, Switch
from fairlead.scheduler.rooms import CLOSE, about_room, would_fit_anywhere
from fairlead.scheduler.servers import end_round, first_fit, may_take, wake_for_fresh
from fairlead.scheduler.shares_at_hand import holds_any, share_of
from fairlead.scheduler.waiting import block, park
from fairlead.scheduler.watching import has_one_line, lower_first, set_key, unwatch, watch_server

# Keys in plain floats that differ by more than this, relative, differ in truth.
ROUGH = 1e-13
# How far above the next key a search is not put off yet.
PATIENCE = 1.003
# Up to this number of queues, the least is looked for among all.
FEW = 64
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
        How many are placed at most; another call goes on from there.
    out : (P,) int
        Receives the numbers of the tasks, in their order.

    Returns
    -------
    int
        How many were placed: until nothing more fits, or the limit is reached.
    """
    wake_for_fresh(core, None)
    if at_hand.n_freed[0] > 0:
        _doubt_for_freed(core, at_hand, core.capacity if index is None else core.free)
    n, watch = 0, at_hand.watch
    plant(core, at_hand.tree)
    while n < limit:
        if core.numbers[0].turn == 0:
            end_round(core)
            break
        q = core.turn[0]
        queue = core.queues[q]
        number, s = queue.first, watch.server[q]
        k = core.lines[number].task_shape
        if core.shapes[k].blocked:
            park(core, number, None)
            continue
        if queue.key >= 0.0 and s != NONE:
            if index is None:
                is_least = may_take(core, k, s)
            else:
                is_least = at_hand.changes[s] == at_hand.seen[q]
            if is_least:
                least = 0.0 if index is None else _least_with_one_more(core, q, k)
                out[n] = start(core, index, at_hand, None, None, core.lines[number].first, s)
                n += 1
                if least > 0.0 and core.turn[0] == q and core.queues[q].first == number:
                    lower_first(core, least, 0.0)
                continue
        high, low = UNKNOWN, 0.0
        if not holds_any(core, q, k):
            s, high = first_fit(core, k), 0.0
        elif core.shapes[k].woken_in == core.numbers[0].epoch:
            s = least_fresh(core, core.capacity if index is None else core.free, q, k)
        elif index is None:
            s, high, low = least_by_kind(core, at_hand.tree, q, k)
        else:
            s = _least_or_later(core, index, at_hand, at_hand.ratios, q, k)
        if s == NONE:
            block(core, k)
            park(core, number, None)
        elif s != LATER:
            watch_server(watch, q, s)
            at_hand.seen[q] = at_hand.changes[s]
            if high < 0.0:
                high, low = share_of(core, core.capacity if index is None else core.free, s, q, k)
            lower_first(core, high, low)
    return n


@inner_kernel
def _least_with_one_more(core: Core, q: int, k: int) -> float:
    """Bound the key that a queue will have from below, once one more task of a shape runs.

    What it holds grows by that factor at least, and no server will have more free; 0 where other
    shapes may come first.
    """
    if not has_one_line(core, q):
        return 0.0
    growth = np.inf
    for r in range(core.held.shape[1]):
        if core.demand[k, r] > 0 and core.held[q, r] > 0:
            growth = min(growth, float(core.demand[k, r]) / float(core.held[q, r]))
    return core.queues[q].key * (1.0 + growth) * (1.0 - ROUGH) if growth < np.inf else 0.0


@inner_kernel
def _least_or_later(core: Core, index: Any, at_hand: AtHand, ratios: Any, q: int, k: int) -> int:
    """Return the server with the least share of what is free, NONE, or LATER.

    The search is put off where the share turns out to be above another queue's key, but for a queue
    that may have to turn to its next line.
    """
    if ratios is None:
        return NONE
    limit, weight = np.inf, core.queues[q].weight
    if has_one_line(core, q) and core.numbers[0].turn > 1:
        limit = max(_next_key(core), 0.0) * weight * PATIENCE
    s, above = least_of_free(core, index, ratios, q, k, limit)
    if s == LATER:
        unwatch(at_hand.watch, q)
        lower_first(core, above / weight * (1.0 - ROUGH), 0.0)
    return s


@separate_kernel
def _doubt_for_freed(core: Core, at_hand: AtHand, amounts: IntArray) -> None:
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
            doubted |= may_take(core, k, s) and rough_share(core, amounts, q, k, s) <= most
        if doubted:
            set_key(core, q, UNKNOWN, 0.0)
    for f in range(n_freed):
        at_hand.is_freed[at_hand.freed[f]] = 0
    at_hand.n_freed[0] = 0


@entry_kernel
def place_by_residual_drf(
    core: Core, index: Any, at_hand: AtHand, limit: int, out: IntArray
) -> int:
    """Place a task of the queue with the least share of what is free, as `place_jointly` does.

    With an index servers are chosen by best-fit.
    """
    return _place_by_pool(core, index, at_hand, None, limit, out)


@entry_kernel
def place_on_best_by_residual_drf(
    core: Core, index: Any, at_hand: AtHand, limit: int, out: IntArray
) -> int:
    """Do as `place_by_residual_drf` does, on the best servers alone."""
    return _place_by_pool(core, index, at_hand, 1, limit, out)


@inner_kernel
def _place_by_pool(
    core: Core, index: Any, at_hand: AtHand, on_best: Switch, limit: int, out: IntArray
) -> int:
    """Place by the heaps of `pool_shares`; keys only tell which queues are in them as they are."""
    n, numbers = 0, core.numbers[0]
    _take_in_fresh(core, index, on_best)
    while n < limit:
        if numbers.turn == 0:
            end_round(core)
            break
        q = core.turn[0]
        if core.queues[q].key < 0.0:
            if _is_settled(core, q) or _settle_first(core, index, at_hand, on_best, q):
                enter_pool(core, at_hand.shares, q)
                lower_first(core, 1.0 / (1.0 + n), 0.0)  # the last one stays first: nobody moves
            continue
        q = least_of_pool(core, at_hand.shares)
        n += _place_one(core, index, at_hand, on_best, q, n, out)
    return n


@entry_kernel
def place_by_residual_tsf(
    core: Core, index: Any, at_hand: AtHand, limit: int, out: IntArray
) -> int:
    """Place a task of the queue that has the fewest for the room there is, as `place_jointly` does.

    With an index servers are chosen by best-fit.
    """
    return _place_by_rooms(core, index, at_hand, None, limit, out)


@entry_kernel
def place_on_best_by_residual_tsf(
    core: Core, index: Any, at_hand: AtHand, limit: int, out: IntArray
) -> int:
    """Do as `place_by_residual_tsf` does, on the best servers alone."""
    return _place_by_rooms(core, index, at_hand, 1, limit, out)


@inner_kernel
def _place_by_rooms(
    core: Core, index: Any, at_hand: AtHand, on_best: Switch, limit: int, out: IntArray
) -> int:
    n, numbers, rooms = 0, core.numbers[0], at_hand.rooms
    _take_in_fresh(core, index, on_best)
    if rooms.rises[0]:
        rooms.rises[0] = 0
        for position in range(numbers.turn):
            set_key(core, core.turn[position], UNKNOWN, 0.0)
    while n < limit:
        if numbers.turn == 0:
            end_round(core)
            break
        q = core.turn[0]
        is_new = core.queues[q].key < 0.0
        is_settled = not is_new or _is_settled(core, q)
        if not is_settled and not _settle_first(core, index, at_hand, on_best, q):
            continue
        if is_new:
            _note_share(core, rooms, q)
        elif numbers.turn <= FEW:
            q = _least_of_few(core, rooms)
            n += _place_one(core, index, at_hand, on_best, q, n, out)
            continue
        if is_new or at_hand.seen[q] != rooms.changes[0]:
            least, most = _bounds_of_share(core, rooms, q)
            others = _next_key(core) if numbers.turn > 1 else np.inf
            if least > others:
                lower_first(core, least, 0.0)
                continue
            if most < others:
                n += _place_one(core, index, at_hand, on_best, q, n, out)
                continue
            at_hand.seen[q] = rooms.changes[0]
            high, low = _share_of_room(core, rooms, q)
            lower_first(core, high, low)
            continue
        n += _place_one(core, index, at_hand, on_best, q, n, out)
    return n


@inner_kernel
def _note_share(core: Core, rooms: Any, q: int) -> None:
    """Note a queue's first shape, and the most it holds of what that takes, over it, by weight."""
    k = core.lines[core.queues[q].first].task_shape
    rooms.task_shape[q], share = k, 0.0
    for r in range(core.held.shape[1]):
        if core.demand[k, r] > 0:
            share = max(share, float(core.held[q, r]) / float(core.demand[k, r]))
    rooms.share[q] = share / core.queues[q].weight


@inner_kernel
def _bounds_of_share(core: Core, rooms: Any, q: int) -> tuple[float, float]:
    """Bound from below and above what a queue has for the room there is, by weight."""
    room, doubt = about_room(core, rooms, rooms.task_shape[q])
    if room <= 2.0 * doubt:
        return 0.0, np.inf
    inverse = 1.0 / room
    share, error = rooms.share[q] * inverse, doubt * inverse + ROUGH
    return share * (1.0 - error), share * (1.0 + 2.0 * error)


@separate_kernel
def _share_of_room(core: Core, rooms: Any, q: int) -> tuple[float, float]:
    """Return what a queue has for the room there is, by weight, as a pair."""
    k = rooms.task_shape[q]
    high, low = share_of(core, core.demand, k, q, k)
    total, total_low = would_fit_anywhere(core, rooms, k)
    if total > 0.0:
        high, low = divide(high, low, total, total_low)
    return high, low


@inner_kernel
def _least_of_few(core: Core, rooms: Any) -> int:
    """Return the queue that has the least for the room there is, where few take their turn."""
    best, least, others, most_doubt = NONE, np.inf, np.inf, 0.0
    for position in range(core.numbers[0].turn):
        q = core.turn[position]
        room, doubt = about_room(core, rooms, rooms.task_shape[q])
        share = rooms.share[q] / room
        most_doubt = max(most_doubt, doubt - CLOSE * room)
        if share < least:
            best, least, others = q, share, least
        elif share < others:
            others = share
    if most_doubt > 0.0 or not others > least * (1.0 + 4.0 * CLOSE):
        best = _least_of_close(core, rooms, least if most_doubt <= 0.0 else np.inf)
    return best


@separate_kernel
def _least_of_close(core: Core, rooms: Any, least: float) -> int:
    """Return it exactly, of those whose share may be as low as that."""
    best, key, key_low = NONE, 0.0, 0.0
    for position in range(core.numbers[0].turn):
        q = core.turn[position]
        room, _ = about_room(core, rooms, rooms.task_shape[q])
        if rooms.share[q] / room > least * (1.0 + 4.0 * CLOSE):
            continue
        high, low = _share_of_room(core, rooms, q)
        order = -1 if best == NONE else compare(high, low, key, key_low)
        if order < 0 or (order == 0 and core.queues[q].serial < core.queues[best].serial):
            best, key, key_low = q, high, low
    return int(best)


@inner_kernel
def _next_key(core: Core) -> float:
    """Return the least key but that of the queue that comes first."""
    key = core.queues[core.turn[1]].key
    if core.numbers[0].turn > 2:
        key = min(key, core.queues[core.turn[2]].key)
    return float(key)


@inner_kernel
def _take_in_fresh(core: Core, index: Any, on_best: Switch) -> None:
    if on_best is None:
        wake_for_fresh(core, None)
    else:
        reconsider_fresh(core, index)
        _doubt_mixed(core)


@separate_kernel
def _doubt_mixed(core: Core) -> None:
    """Have queues of several shapes be looked at again: the best server of the first may be full.

    Any server that changes may be its best one now.
    """
    for position in range(core.numbers[0].turn):  # those that rise past others were looked at
        if not has_one_line(core, core.turn[position]):
            set_key(core, core.turn[position], UNKNOWN, 0.0)


@inner_kernel
def _is_settled(core: Core, q: int) -> bool:
    """Return whether nothing is behind the first task of a queue, which may fit somewhere."""
    k = core.lines[core.queues[q].first].task_shape
    return not core.shapes[k].blocked and has_one_line(core, q)


@separate_kernel
def _settle_first(core: Core, index: Any, at_hand: AtHand, on_best: Switch, q: int) -> bool:
    """Return whether the first task of a queue fits somewhere, or nothing is behind it; or park."""
    number = core.queues[q].first
    k = core.lines[number].task_shape
    if on_best is not None:
        if best_or_block(core, index, k) != NONE:
            return True
    elif not core.shapes[k].blocked:
        if has_one_line(core, q):
            return True
        s = first_fit(core, k)
        if s != NONE:
            watch_server(at_hand.watch, q, s)
            return True
        block(core, k)
    park(core, number, None)
    return False


@inner_kernel
def _place_one(
    core: Core, index: Any, at_hand: AtHand, on_best: Switch, q: int, n: int, out: IntArray
) -> int:
    """Place the first task of a queue, or park it; return how many are placed."""
    number, s = core.queues[q].first, NONE
    k = core.lines[number].task_shape
    if on_best is not None:
        s = best_or_block(core, index, k)
    elif not core.shapes[k].blocked:
        s = first_fit(core, k) if index is None else best_fit(core, index, k)
        if s == NONE:
            block(core, k)
    if s == NONE:
        park(core, number, None)
        return 0
    out[n] = start(core, index, at_hand, None, None, core.lines[number].first, s)
    if on_best is not None:
        if core.numbers[0].blocked > 0:
            reconsider(core, index, s)
        _doubt_mixed(core)
    return 1

"""Placing by looking at every queue for each task, where gangs wait and more than keys decides.

That is: where scores relate to the task at hand, or a shape's best server is another one with each
placement. What a queue has at hand is the first task in its order that fits, or gang that fits as a
whole; a gang that failed is parked (`gang_waiting`). Whose score with it is least is served.
"""

from __future__ import annotations

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare, divide
from fairlead.scheduler.choosing import Index, Kept, find_for
from fairlead.scheduler.cycle import book_gang, start
from fairlead.scheduler.gang_trials import give_back, try_first, try_gang
from fairlead.scheduler.gang_waiting import hearten_gangs
from fairlead.scheduler.kind_tree import KindTree, plant
from fairlead.scheduler.pool_shares import PoolShares
from fairlead.scheduler.ratio_tree import RatioTree
from fairlead.scheduler.records import NONE, Core, Switch
from fairlead.scheduler.rooms import Rooms, would_fit_anywhere
from fairlead.scheduler.servers import end_round, wake_for_fresh
from fairlead.scheduler.shares_at_hand import share_of
from fairlead.scheduler.waiting import block, park, shape_at_hand, wake


@entry_kernel
def place_by_scan(core: Core, index: Index, at_hand: Kept, limit: int, out: IntArray) -> int:
    """Place by joint, or by residual scores; see `cycle.place`. O(Q) searches for each task."""
    return _place(core, index, at_hand, None, limit, out)


@entry_kernel
def place_on_best_by_scan(
    core: Core, index: Index, at_hand: Kept, limit: int, out: IntArray
) -> int:
    """Place by best-fit-first, as `place_by_scan` does."""
    return _place(core, index, at_hand, 1, limit, out)


@inner_kernel
def _place(
    core: Core, index: Index, at_hand: Kept, favourite: Switch, limit: int, out: IntArray
) -> int:
    n, numbers = 0, core.numbers[0]
    numbers.lacking = 0
    hearten_gangs(core)
    wake_for_fresh(core, None)
    if at_hand is not None:
        plant(core, at_hand.tree)
    while n < limit:
        q, s = _least(core, index, at_hand, favourite, out, n)
        if numbers.lacking > 0:
            break
        if q == NONE:
            end_round(core)
            break
        number = core.queues[q].first
        g = core.lines[number].first
        if core.lines[number].task_shape == NONE:
            end = try_gang(core, index, at_hand, favourite, None, g, NONE, out, n)
            n = book_gang(core, 1, None, g, out, n, end)
        else:
            out[n] = start(core, index, at_hand, 1, None, g, s)
            n += 1
    return n


@separate_kernel
def _least(
    core: Core, index: Index, at_hand: Kept, favourite: Switch, out: IntArray, n: int
) -> tuple[int, int]:
    """Return the queue whose score with what it has at hand is least, and where that goes first.

    Lines of what does not fit are parked until something is freed; under best-fit-first those of
    tasks until something is placed.
    """
    numbers = core.numbers[0]
    if favourite is not None:
        while numbers.blocked > 0:
            wake(core, core.blocked[numbers.blocked - 1], None)
    best, server, key, key_low = NONE, NONE, 0.0, 0.0
    for q in range(numbers.queues):
        s = NONE
        while s == NONE and core.queues[q].place != NONE:
            s = _look_at_first(core, index, at_hand, favourite, q, out, n)
            if numbers.lacking > 0:
                return NONE, NONE
        if s == NONE:
            continue
        high, low = core.queues[q].key, core.queues[q].key_low
        if at_hand is not None:
            k = shape_at_hand(core, 1, core.queues[q].first)
            parts = (at_hand.tree, at_hand.ratios, at_hand.shares, at_hand.rooms)
            high, low = _score(core, *parts, q, k, s)
        order = -1 if best == NONE else compare(high, low, key, key_low)
        if order < 0 or (order == 0 and core.queues[q].serial < core.queues[best].serial):
            best, server, key, key_low = q, s, high, low
    return best, server


@inner_kernel
def _look_at_first(
    core: Core, index: Index, at_hand: Kept, favourite: Switch, q: int, out: IntArray, n: int
) -> int:
    """Return where what is in the first line of a queue goes first, or NONE; then it is parked."""
    number, s = core.queues[q].first, NONE
    k = core.lines[number].task_shape
    if k == NONE:
        end = try_first(core, index, at_hand, favourite, number, out, n)
        if end > n:
            s = out[n]
            give_back(core, index, at_hand, core.lines[number].first, out, n, end)
        return s
    if not core.shapes[k].blocked:
        s = find_for(core, index, at_hand, favourite, q, k)
        if s == NONE:
            block(core, k)
    if s == NONE:
        park(core, number, None)
    return s


@separate_kernel
def _score(
    core: Core,
    tree: KindTree | None,
    ratios: RatioTree | None,
    shares: PoolShares | None,
    rooms: Rooms | None,
    q: int,
    k: int,
    s: int,
) -> tuple[float, float]:
    """Return a queue's score with a task of a shape at hand that goes to a server."""
    if tree is not None:
        return share_of(core, core.capacity, s, q, k)
    if ratios is not None:
        return share_of(core, core.free, s, q, k)
    if shares is not None:
        return share_of(core, shares.free, 0, q, k)
    high, low = share_of(core, core.demand, k, q, k)
    if rooms is not None:
        fit, fit_low = would_fit_anywhere(core, rooms, k)
        high, low = divide(high, low, fit, fit_low)
    return high, low

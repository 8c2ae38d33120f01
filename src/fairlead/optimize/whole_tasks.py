"""Serve whole tasks by turns from one pool, without a loop over them.

All tasks below a feasible level are taken in one jump (`find_level`); the few about the first one
that does not fit are taken turn by turn, from a heap that compares levels exactly. Why the result
is that of turns from the beginning: docs/design/whole-tasks-on-one-pool.md.

The functions run compiled on int64, and as plain Python on arrays of Python's integers.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.whole_pool import WholeArray, WholePool
from fairlead.optimize.compiling import compiled
from fairlead.optimize.level_search import ROUNDING, find_level
from fairlead.optimize.turns import fits, precedes, sort_roughly, sort_turns


@register_jitable
def _sink(
    heap: IntArray,
    size: int,
    k: int,
    taken: WholeArray,
    numerator: WholeArray,
    denominator: WholeArray,
    step: FloatArray,
) -> None:
    """Move the user at place `k` of the heap down to where it belongs."""
    n = heap[k]
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size:
            left, right = heap[child], heap[child + 1]
            if precedes(right, taken[right], left, taken[left], numerator, denominator, step):
                child += 1
        m = heap[child]
        if not precedes(m, taken[m], n, taken[n], numerator, denominator, step):
            break
        heap[k] = m
        k = child
    heap[k] = n


@register_jitable
def _take_turns(
    demand: WholeArray,
    limit: FloatArray,
    numerator: WholeArray,
    denominator: WholeArray,
    step: FloatArray,
    stops: bool,
    heap: IntArray,
    room: WholeArray,
    taken: WholeArray,
) -> int:
    """Serve these users by turns, a few each; return how many of them, in front, are to go on."""
    size = heap.size
    most = 2 * size + 64
    for k in range(size // 2 - 1, -1, -1):
        _sink(heap, size, k, taken, numerator, denominator, step)
    while size > 0 and most > 0:
        most -= 1
        n = heap[0]
        stays = fits(n, demand, room)
        if stays:
            taken[n] += 1
            for r in range(room.size):
                room[r] -= demand[n, r]
            stays = taken[n] < limit[n]
        elif stops:
            return 0
        if not stays:
            size -= 1
            heap[0] = heap[size]
        _sink(heap, size, 0, taken, numerator, denominator, step)
    return size


@register_jitable
def _top_up(
    demand: WholeArray,
    numerator: WholeArray,
    denominator: WholeArray,
    step: FloatArray,
    order: IntArray,
    room: WholeArray,
    taken: WholeArray,
) -> None:
    """Give one more task to each of these users that it fits, in the order of turns."""
    sort_turns(order, taken, numerator, denominator, step)
    for n in order:
        if fits(n, demand, room):
            taken[n] += 1
            for r in range(room.size):
                room[r] -= demand[n, r]


_take_turns_compiled = compiled(_take_turns)
_top_up_compiled = compiled(_top_up)


def serve_by_turns(pool: WholePool, *, stops: bool) -> WholeArray:
    """Give the next task always to the user with the least weighted dominant share.

    Parameters
    ----------
    pool : WholePool
        Nobody in it can run more than 2**53 tasks.
    stops : bool
        Whether the first user that does not fit ends it all. Otherwise it leaves, and the others
        go on.

    Returns
    -------
    (N,) int64 or object
        Tasks of each user.

    Notes
    -----
    O(N R) for each time that floats probe a level, as a rule fewer than ten times, and O(N log N)
    for the turns; that as often as users leave at levels far apart, N times at worst. The number
    of tasks does not matter.
    """
    room, taken = pool.capacity.copy(), np.zeros(len(pool.step), dtype=pool.demand.dtype)
    rate, whole = 1.0 / pool.step, np.where(pool.capacity > 0, pool.capacity, 1)
    take_turns = _take_turns_compiled if pool.fits_words else _take_turns
    users = np.flatnonzero(pool.limit >= 1)
    while users.size:
        if not stops:
            # Room only shrinks: who does not fit now would leave when its turn comes.
            users = users[(pool.demand[users] <= room).all(axis=1)]
            if not users.size:
                break
        level = find_level(
            taken[users].astype(np.float64),
            pool.limit[users],
            rate[users],
            pool.share[users],
            (room / whole).astype(np.float64),
        )
        if level >= 0.0:
            _jump(level, pool, rate, users, room, taken)
            users = users[taken[users] < pool.limit[users]]
        left = take_turns(
            pool.demand,
            pool.limit,
            pool.numerator,
            pool.denominator,
            pool.step,
            stops,
            users,
            room,
            taken,
        )
        users = np.sort(users[:left])
    return taken


def _jump(
    level: float,
    pool: WholePool,
    rate: FloatArray,
    users: IntArray,
    room: WholeArray,
    taken: WholeArray,
) -> None:
    """Take all tasks of these users that are surely below a level."""
    reached = np.floor(level * (1.0 - ROUNDING) * rate[users]) + 1.0
    count = np.minimum(reached, pool.limit[users]).astype(np.int64).astype(taken.dtype)
    more = np.maximum(count - taken[users], 0)
    taken[users] += more
    room -= more @ pool.demand[users]


def top_up(pool: WholePool, taken: WholeArray) -> WholeArray:
    """Return tasks with one more for each user that it fits, from the least served upward.

    `taken` is (N,) int64 or object, and fits. Metin, Section 5. O(N (log N + R)).
    """
    room, more = pool.capacity - taken @ pool.demand, taken.copy()
    finish = _top_up_compiled if pool.fits_words else _top_up
    order = sort_roughly(np.flatnonzero(taken < pool.limit), taken, pool.step)
    finish(pool.demand, pool.numerator, pool.denominator, pool.step, order, room, more)
    return more

"""Whose share of what is free is least, whatever is free.

A queue's share is the largest of a[r] / F[r], with what it holds by weight, a, and what all servers
have free, F. It stands in the heap of the resource that was its largest, ordered by a[r] alone. So
no heap changes with what is free. Whose a[r] / F[r] is least in its heap has the least share there,
if r is still its largest; otherwise it moves to the heap of what is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare, divide, of_whole
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.shares_at_hand import ROUGH


@by_address
class PoolShares(NamedTuple):
    """Heaps of Q queues, one for each of R resources.

    Attributes
    ----------
    free : (1, R) int
        What all servers that are there have free together.
    heap : (R, Q) int
        Queues, by what they hold of the resource.
    size : (R,) int
    resource, place : (Q,) int
        The heap that each queue is in, or NONE, and where.
    key, key_low : (Q,) float
        What it holds of that resource, by weight.
    serial : (Q,) int
        Tells equal ones apart.
    """

    free: IntArray
    heap: IntArray
    size: IntArray
    resource: IntArray
    place: IntArray
    key: FloatArray
    key_low: FloatArray
    serial: IntArray


def no_shares(core: Core) -> PoolShares:
    """Return heaps without queues. Cost O(S R + Q R)."""
    queues, resources = core.held.shape
    there = core.sequence[: core.numbers[0].servers]
    free = np.maximum(core.free.take(there, axis=0), 0)
    return PoolShares(
        free=np.ascontiguousarray(free.T).sum(axis=1)[np.newaxis],  # ten times as fast as by rows
        heap=np.zeros((resources, queues), dtype=np.int64),
        size=np.zeros(resources, dtype=np.int64),
        resource=np.full(queues, NONE),
        place=np.zeros(queues, dtype=np.int64),
        key=np.zeros(queues),
        key_low=np.zeros(queues),
        serial=np.zeros(queues, dtype=np.int64),
    )


@inner_kernel
def count_pool(core: Core, shares: PoolShares, s: int, sign: int) -> None:
    """Count what a server has free."""
    for r in range(core.free.shape[1]):
        shares.free[0, r] += sign * max(core.free[s, r], 0)


@inner_kernel
def _is_less(shares: PoolShares, a: int, b: int) -> bool:
    x, y = shares.key[a], shares.key[b]
    if abs(x - y) > ROUGH * (x + y):
        return bool(x < y)
    order = compare(x, shares.key_low[a], y, shares.key_low[b])
    return order < 0 or (order == 0 and shares.serial[a] < shares.serial[b])


@separate_kernel
def _settle(shares: PoolShares, r: int, q: int, position: int) -> None:
    """Put a queue where it belongs, from an open position."""
    heap, size = shares.heap, shares.size[r]
    while position > 0:
        above = heap[r, (position - 1) // 2]
        if not _is_less(shares, q, above):
            break
        heap[r, position] = above
        shares.place[above] = position
        position = (position - 1) // 2
    while True:
        child = 2 * position + 1
        if child >= size:
            break
        if child + 1 < size and _is_less(shares, heap[r, child + 1], heap[r, child]):
            child += 1
        if not _is_less(shares, heap[r, child], q):
            break
        heap[r, position] = heap[r, child]
        shares.place[heap[r, child]] = position
        position = child
    heap[r, position] = q
    shares.place[q] = position


@inner_kernel
def leave_pool(shares: PoolShares, q: int) -> None:
    """Take a queue out of its heap."""
    r = shares.resource[q]
    if r == NONE:
        return
    shares.resource[q] = NONE
    shares.size[r] -= 1
    last = shares.heap[r, shares.size[r]]
    if last != q:
        _settle(shares, r, last, shares.place[q])


@inner_kernel
def _largest(core: Core, shares: PoolShares, q: int) -> tuple[int, float]:
    """Return the resource where a queue's share is largest, and that share times its weight.

    In plain floats.
    """
    k = core.lines[core.queues[q].first].task_shape
    most, share, second = core.shapes[k].lead, 0.0, 0.0
    for r in range(core.held.shape[1]):
        if core.demand[k, r] > 0 and core.held[q, r] > 0:
            part = float(core.held[q, r]) / float(max(shares.free[0, r], 1))
            if part > share:
                most, share, second = r, part, share
            elif part > second:
                second = part
    if second >= share * (1.0 - ROUGH):
        most, _, _ = _exactly_largest(core, shares, q)
    return most, share


@separate_kernel
def _exactly_largest(core: Core, shares: PoolShares, q: int) -> tuple[int, float, float]:
    """Return the resource where a queue's share is largest, and that share times its weight."""
    k = core.lines[core.queues[q].first].task_shape
    most, share, share_low = core.shapes[k].lead, 0.0, 0.0
    if shares.resource[q] != NONE:  # of equals, where it is
        most = shares.resource[q]
    for turn in range(2):
        for r in range(core.held.shape[1]):
            if (r == most) == (turn == 0) and core.demand[k, r] > 0 and core.held[q, r] > 0:
                high, low = of_whole(core.held[q, r])
                over, over_low = of_whole(max(shares.free[0, r], 1))
                high, low = divide(high, low, over, over_low)
                if compare(high, low, share, share_low) > 0:
                    most, share, share_low = r, high, low
    return most, share, share_low


@separate_kernel
def _comes_first(core: Core, shares: PoolShares, q: int, other: int) -> bool:
    """Return whether a queue's share is less than another one's, or the same and it is earlier."""
    queue, best = core.queues[q], core.queues[other]
    _, high, low = _exactly_largest(core, shares, q)
    high, low = divide(high, low, queue.weight, queue.weight_low)
    _, least, least_low = _exactly_largest(core, shares, other)
    least, least_low = divide(least, least_low, best.weight, best.weight_low)
    order = compare(high, low, least, least_low)
    return order < 0 or (order == 0 and queue.serial < best.serial)


@inner_kernel
def enter_pool(core: Core, shares: PoolShares, q: int) -> None:
    """Put a queue where it belongs, after its first shape, what it holds or its weight changed."""
    queue = core.queues[q]
    r, share = _largest(core, shares, q)
    high, low = of_whole(core.held[q, r] if share > 0.0 else 0)
    high, low = divide(high, low, queue.weight, queue.weight_low)
    shares.key[q], shares.key_low[q], shares.serial[q] = high, low, queue.serial
    if shares.resource[q] != r:
        leave_pool(shares, q)
        shares.resource[q], shares.place[q] = r, shares.size[r]
        shares.size[r] += 1
    _settle(shares, r, q, shares.place[q])


@inner_kernel
def least_of_pool(core: Core, shares: PoolShares) -> int:
    """Return the queue with the least share, of equals the first, or NONE. Amortised O(R^2)."""
    best, least = NONE, 0.0
    again = True
    while again:
        again, best = False, NONE
        for r in range(core.held.shape[1]):
            while shares.size[r] > 0:
                q = shares.heap[r, 0]
                if core.queues[q].place == NONE:
                    leave_pool(shares, q)
                    continue
                most, share = _largest(core, shares, q)
                if most != r:
                    again = True
                    enter_pool(core, shares, q)
                    continue
                share /= core.queues[q].weight
                is_less = best == NONE or share < least
                if best != NONE and abs(share - least) <= 4.0 * ROUGH * (share + least):
                    is_less = _comes_first(core, shares, q, best)
                if is_less:
                    best, least = q, share
                break
    return best

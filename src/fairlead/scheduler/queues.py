"""Whose turn it is: the scores of queues, and a heap of those that have something to place."""

from __future__ import annotations

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import add, compare, divide, of_whole, times
from fairlead.scheduler.policies import AT_HAND, FIFO, SUMMED
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.shape_units import count_joined

UNKNOWN = -1.0  # the key of a queue whose score has to be found: those come first

ROUGH = 1e-14  # keys in plain floats that differ by more than this, relative, differ in truth


@inner_kernel
def rescore(core: Core, q: int) -> None:
    """Compute a queue's key: its dominant share, or the sum of its tasks' scores, by weight.

    Under fifo it is when its first group was submitted; there is none where servers matter.
    """
    queue = core.queues[q]
    high, low = 0.0, 0.0
    if core.numbers[0].criterion == AT_HAND:
        queue.key, queue.key_low = UNKNOWN, 0.0
        return
    if core.numbers[0].criterion >= FIFO:
        if core.numbers[0].criterion == FIFO and queue.first != NONE:
            first = core.line_node[queue.first]
            queue.key, queue.serial = first.time, first.serial
        return
    if core.numbers[0].criterion == SUMMED:
        high, low = queue.total, queue.total_low
    else:
        for r in range(core.held.shape[1]):
            if core.held[q, r] > 0:
                part, part_low = of_whole(core.held[q, r])
                part, part_low = times(part, part_low, core.share[r].high, core.share[r].low)
                if compare(part, part_low, high, low) > 0:
                    high, low = part, part_low
    queue.key, queue.key_low = divide(high, low, queue.weight, queue.weight_low)


@inner_kernel
def is_before(core: Core, a: int, b: int) -> bool:
    """Return whether a queue is served before another one."""
    x, y = core.queues[a], core.queues[b]
    if abs(x.key - y.key) > ROUGH * (abs(x.key) + abs(y.key)):
        return bool(x.key < y.key)
    order = compare(x.key, x.key_low, y.key, y.key_low)
    return order < 0 or (order == 0 and x.serial < y.serial)


@inner_kernel
def next_queue(core: Core) -> int:
    """Return whose turn it is: from the root down, the least child, which takes tasks."""
    q = core.turn[0]
    while core.queues[q].standing > 0:
        q = core.below[core.queues[q].segment]
    return int(q)


@inner_kernel
def settle(core: Core, q: int, position: int) -> None:
    """Put a queue where it belongs in the heap that it takes its turn in, from an open position."""
    above = core.queues[q].above
    if above == NONE:
        _settle(core, core.turn, 0, core.numbers[0].turn, q, position)
    else:
        node = core.queues[above]
        _settle(core, core.below, node.segment, node.standing, q, position)


@separate_kernel
def _settle(core: Core, heap: IntArray, base: int, size: int, q: int, position: int) -> None:
    """Put a queue where it belongs in a heap, which begins at a base."""
    while position > 0:
        other = heap[base + (position - 1) // 2]
        if not is_before(core, q, other):
            break
        heap[base + position] = other
        core.queues[other].place = position
        position = (position - 1) // 2
    while True:
        child = 2 * position + 1
        if child >= size:
            break
        if child + 1 < size and is_before(core, heap[base + child + 1], heap[base + child]):
            child += 1
        least = heap[base + child]
        if not is_before(core, least, q):
            break
        heap[base + position] = least
        core.queues[least].place = position
        position = child
    heap[base + position] = q
    core.queues[q].place = position


@inner_kernel
def next_in_heap(position: int, size: int, goes_down: bool) -> int:
    """Return where a walk through a heap goes on: below a position or not; the size at its end."""
    if goes_down and 2 * position + 1 < size:
        return 2 * position + 1
    while position > 0 and (position % 2 == 0 or position + 1 >= size):
        position = (position - 1) // 2
    return position + 1 if position > 0 else size


@inner_kernel
def enqueue(core: Core, q: int) -> None:
    """Have a queue take its turn, if it does not yet."""
    if core.queues[q].place == NONE:
        if core.queues[q].above == NONE:
            core.numbers[0].turn += 1
            settle(core, q, core.numbers[0].turn - 1)
        else:
            _enqueue_below(core, q)


@separate_kernel
def _enqueue_below(core: Core, q: int) -> None:
    """Have a queue with a parent take its turn, and so its parent."""
    while q != NONE and core.queues[q].place == NONE:
        above = core.queues[q].above
        if above == NONE:
            core.numbers[0].turn += 1
            settle(core, q, core.numbers[0].turn - 1)
        else:
            core.queues[above].standing += 1
            settle(core, q, core.queues[above].standing - 1)
        q = above


@inner_kernel
def dequeue(core: Core, q: int) -> None:
    """Have a queue take no turn."""
    position = core.queues[q].place
    if position != NONE:
        if core.queues[q].above != NONE:
            _dequeue_below(core, q)
            return
        core.numbers[0].turn -= 1
        core.queues[q].place = NONE
        last = core.turn[core.numbers[0].turn]
        if last != q:
            settle(core, last, position)


@separate_kernel
def _dequeue_below(core: Core, q: int) -> None:
    """Have a queue with a parent take no turn, nor its parent if nobody below it does."""
    is_empty = True
    while is_empty and q != NONE:
        above, position = core.queues[q].above, core.queues[q].place
        core.queues[q].place = NONE
        if above == NONE:
            core.numbers[0].turn -= 1
            last = core.turn[core.numbers[0].turn]
        else:
            core.queues[above].standing -= 1
            is_empty = core.queues[above].standing == 0
            last = core.below[core.queues[above].segment + core.queues[above].standing]
        if last != q:
            settle(core, last, position)
        q = above


@inner_kernel
def rerank(core: Core, q: int) -> None:
    """Take in that a queue's score may have changed, and those of the queues above it."""
    rescore(core, q)
    if core.queues[q].place != NONE:
        settle(core, q, core.queues[q].place)
    if core.queues[q].above != NONE:
        _rerank_above(core, core.queues[q].above)


@separate_kernel
def _rerank_above(core: Core, q: int) -> None:
    while q != NONE:
        rescore(core, q)
        if core.queues[q].place != NONE:
            settle(core, q, core.queues[q].place)
        q = core.queues[q].above


@inner_kernel
def rehead(core: Core, q: int) -> None:
    """Take in that what a queue has to place is not what it was."""
    if core.numbers[0].criterion == AT_HAND:
        rerank(core, q)


@inner_kernel
def count_held(core: Core, q: int, k: int, sign: int) -> None:
    """Count what a task that starts (1) or ends (-1) takes as held by its queue."""
    queue = core.queues[q]
    queue.running += sign
    for r in range(core.held.shape[1]):
        core.held[q, r] += sign * core.demand[k, r]
    if queue.parent != NONE:
        _hold_above(core, queue.parent, k, sign)
    if core.numbers[0].criterion == SUMMED:
        unit = core.units[k]
        if unit.joined < core.numbers[0].joined:
            count_joined(core, k)
        high, low = add(queue.total, queue.total_low, sign * unit.unit, sign * unit.unit_low)
        if queue.running == 0:  # what is left is rounding
            high, low = 0.0, 0.0
        queue.total, queue.total_low = high, low


@separate_kernel
def _hold_above(core: Core, q: int, k: int, sign: int) -> None:
    """Count it as held by the queues above, too."""
    while q != NONE:
        for r in range(core.held.shape[1]):
            core.held[q, r] += sign * core.demand[k, r]
        q = core.queues[q].parent

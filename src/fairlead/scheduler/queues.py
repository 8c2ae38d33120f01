"""Whose turn it is: the scores of queues, and a heap of those that have something to place."""

from __future__ import annotations

from fairlead.optimize.compiling import inner_kernel
from fairlead.optimize.double_double import add, compare, divide, of_whole, times
from fairlead.scheduler.policies import AT_HAND, FIFO, SUMMED
from fairlead.scheduler.records import NONE, Core

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
def _rise(core: Core, q: int, position: int) -> int:
    """Move a queue up from an open position, as far as it goes, and return where that is."""
    while position > 0:
        above = core.turn[(position - 1) // 2]
        if not is_before(core, q, above):
            break
        core.turn[position] = above
        core.queues[above].place = position
        position = (position - 1) // 2
    return position


@inner_kernel
def settle(core: Core, q: int, position: int) -> None:
    """Put a queue where it belongs, from an open position."""
    position = _rise(core, q, position)
    size = core.numbers[0].turn
    while True:
        child = 2 * position + 1
        if child >= size:
            break
        if child + 1 < size and is_before(core, core.turn[child + 1], core.turn[child]):
            child += 1
        least = core.turn[child]
        if not is_before(core, least, q):
            break
        core.turn[position] = least
        core.queues[least].place = position
        position = child
    core.turn[position] = q
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
        core.numbers[0].turn += 1
        settle(core, q, core.numbers[0].turn - 1)


@inner_kernel
def dequeue(core: Core, q: int) -> None:
    """Have a queue take no turn."""
    position = core.queues[q].place
    if position != NONE:
        core.numbers[0].turn -= 1
        core.queues[q].place = NONE
        last = core.turn[core.numbers[0].turn]
        if last != q:
            settle(core, last, position)


@inner_kernel
def rerank(core: Core, q: int) -> None:
    """Take in that a queue's score may have changed."""
    rescore(core, q)
    if core.queues[q].place != NONE:
        settle(core, q, core.queues[q].place)


@inner_kernel
def rehead(core: Core, q: int) -> None:
    """Take in that what a queue has to place is not what it was."""
    if core.numbers[0].criterion == AT_HAND:
        rerank(core, q)


@inner_kernel
def count_held(core: Core, q: int, k: int, sign: int) -> None:
    """Count what a task that starts (1) or ends (-1) takes as held by its queue."""
    queue, shape = core.queues[q], core.shapes[k]
    queue.running += sign
    for r in range(core.held.shape[1]):
        core.held[q, r] += sign * core.demand[k, r]
    if core.numbers[0].criterion == SUMMED:
        high, low = add(queue.total, queue.total_low, sign * shape.unit, sign * shape.unit_low)
        if queue.running == 0:  # what is left is rounding
            high, low = 0.0, 0.0
        queue.total, queue.total_low = high, low

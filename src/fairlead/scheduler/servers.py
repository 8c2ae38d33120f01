"""Servers: what fits on them, and which were freed since one last looked."""

from __future__ import annotations

from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.scheduler.order_heaps import precedes
from fairlead.scheduler.records import NONE, Core, Switch
from fairlead.scheduler.waiting import wake


@inner_kernel
def fits(core: Core, k: int, s: int) -> bool:
    """Return whether one more task of a shape fits on a server, wherever it may run."""
    for r in range(core.free.shape[1]):  # noqa: SIM110 (numba knows no generators)
        if core.free[s, r] < core.demand[k, r]:
            return False
    return True


@inner_kernel
def may_take(core: Core, k: int, s: int) -> bool:
    """Return whether a server is open to a shape and one more of its tasks fits there."""
    if not fits(core, k, s):  # what fails most, and is nearest in memory
        return False
    server = core.servers[s]
    return bool(server.open and core.may[core.shapes[k].where, server.klass])


@inner_kernel
def note_freed(core: Core, s: int) -> None:
    """Note that a server has more to offer than before. Amortised O(1).

    Of the positions that were freed those without meaning are dropped: an earlier entry of a later
    position says nothing that a later entry does not say better.
    """
    numbers, server = core.numbers[0], core.servers[s]
    size = numbers.freed
    while size > 0 and core.freed[size - 1] >= server.position:
        size -= 1
    core.freed[size], core.freed_at[size] = server.position, numbers.moment
    server.freed_at = numbers.moment
    numbers.freed = size + 1
    server.refused_at = 0
    numbers.moment += 1
    if server.fresh_in != numbers.epoch:
        server.fresh_in = numbers.epoch
        core.fresh[numbers.fresh] = s
        numbers.fresh += 1


@inner_kernel
def _first_freed_since(core: Core, moment: int) -> int:
    """Return the first position that was freed at that moment or later. O(log S)."""
    low, high = 0, core.numbers[0].freed
    while low < high:
        middle = (low + high) // 2
        if core.freed_at[middle] >= moment:
            high = middle
        else:
            low = middle + 1
    return low


@inner_kernel
def first_fit(core: Core, k: int) -> int:
    """Return the first server in order that takes a task of a shape, or NONE, and point at it."""
    numbers, shape = core.numbers[0], core.shapes[k]
    if shape.woken_in == numbers.epoch:
        best = NONE
        for f in range(numbers.fresh):
            s = core.fresh[f]
            if may_take(core, k, s) and (best == NONE or precedes(core.server_node, s, best)):
                best = s
        return best
    position = shape.pointer
    freed = _first_freed_since(core, shape.looked)
    if freed < numbers.freed:
        position = min(position, core.freed[freed])
    shape.looked = numbers.moment
    while position < numbers.servers and not may_take(core, k, core.sequence[position]):
        position += 1
    shape.pointer = position
    return core.sequence[position] if position < numbers.servers else NONE


@separate_kernel
def wake_for_fresh(core: Core, trees: Switch) -> None:
    """Wake the blocked shapes that have a task that fits on a server freed since the last time."""
    numbers, new = core.numbers[0], 0
    for f in range(numbers.fresh):
        s = core.fresh[f]
        if core.servers[s].freed_at >= numbers.woken_at:
            core.fresh[f], core.fresh[new] = core.fresh[new], s
            new += 1
    numbers.woken_at = numbers.moment
    b = numbers.blocked - 1
    while b >= 0 and new > 0:
        k = core.blocked[b]
        for f in range(new):
            if may_take(core, k, core.fresh[f]):
                core.shapes[k].woken_in = numbers.epoch
                wake(core, k, trees)
                break
        b -= 1


@inner_kernel
def end_round(core: Core) -> None:
    """Forget which servers were freed: nothing fits on them any more."""
    core.numbers[0].fresh = 0
    core.numbers[0].epoch += 1

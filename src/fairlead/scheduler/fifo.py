"""Fifo: the group that was submitted first, of all queues, is placed first.

Nothing passes over the first group that could be placed at all, if nothing ran: that is, of whose
shape some open server can take a task. Inside a queue priorities go before times. A queue's key is
when its first group was submitted; lines of shapes that no open server can take are parked.
"""

from __future__ import annotations

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import entry_kernel, separate_kernel
from fairlead.scheduler.choosing import Index, find
from fairlead.scheduler.cycle import start
from fairlead.scheduler.queues import rerank
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.servers import end_round
from fairlead.scheduler.waiting import block, park, wake


@entry_kernel
def place_oldest(core: Core, index: Index, limit: int, out: IntArray) -> int:
    """Place tasks until the first group in order does not fit; see `cycle.place`."""
    n = 0
    while n < limit:
        if core.numbers[0].turn == 0:
            break
        q = core.turn[0]
        number = core.queues[q].first
        s = find(core, index, core.lines[number].task_shape)
        if s == NONE:
            break
        out[n] = start(core, index, None, None, None, core.lines[number].first, s)
        n += 1
    end_round(core)
    return n


@separate_kernel
def _is_large_enough(core: Core, k: int, c: int) -> bool:
    """Return whether servers of a kind would take a task of a shape if they were empty."""
    if not core.may[core.shapes[k].where, core.kinds[c].klass]:
        return False
    for r in range(core.demand.shape[1]):  # noqa: SIM110 (numba knows no generators)
        if core.kind_capacity[c, r] < core.demand[k, r]:
            return False
    return True


@entry_kernel
def count_open(core: Core, c: int, servers: int) -> None:
    """Take in that more servers of a kind are open, or fewer; O(K), and O(Q) if that wakes any."""
    core.kinds[c].opened += servers
    is_any_woken = is_any_lost = False
    for k in range(core.numbers[0].shapes):
        if _is_large_enough(core, k, c):
            shape = core.shapes[k]
            shape.able += servers
            if shape.able > 0 and shape.blocked:
                wake(core, k, None)
                is_any_woken = True
            is_any_lost |= shape.able == 0
    if is_any_lost:
        _park_lost(core)
    if is_any_woken or is_any_lost:
        for q in range(core.numbers[0].queues):
            rerank(core, q)


@separate_kernel
def _park_lost(core: Core) -> None:
    """Park the lines of shapes that no open server takes any more. O(L)."""
    for number in range(core.numbers[0].lines):
        line = core.lines[number]
        shape = core.shapes[line.task_shape]
        if shape.able == 0 and line.first != NONE and not line.parked:
            if not shape.blocked:
                block(core, line.task_shape)
            park(core, number, None)


@entry_kernel
def count_able(core: Core, k: int, kinds: int) -> None:
    """Count the open servers, of so many kinds, that can take a task of a new shape."""
    core.shapes[k].able = 0
    for c in range(kinds):
        if _is_large_enough(core, k, c):
            core.shapes[k].able += core.kinds[c].opened

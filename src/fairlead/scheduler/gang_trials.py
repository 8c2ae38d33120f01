"""The trial of a gang: its tasks go one after the other where the selection puts them, or none."""

from __future__ import annotations

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import separate_kernel
from fairlead.scheduler.choosing import Index, change_free, find
from fairlead.scheduler.gang_waiting import has_room, park_gang
from fairlead.scheduler.queues import dequeue
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.servers import may_take
from fairlead.scheduler.spare_rows import task_rows
from fairlead.scheduler.waiting import waiting_of_gang


@separate_kernel
def try_first(core: Core, index: Index, number: int, out: IntArray, n: int) -> int:
    """Try the gang in the first line of a queue, and park it if it fails; see `try_gang`.

    Where rows or the buffer are too few for all of it, `lacking` says how many it takes.
    """
    numbers, line = core.numbers[0], core.lines[number]
    if line.parked:  # under strict order
        dequeue(core, line.queue)
        return n
    gang, end = line.first, n
    tasks = waiting_of_gang(core, gang)
    if tasks <= out.size - n and tasks <= task_rows(core):
        end = try_gang(core, index, gang, NONE, out, n)
    elif has_room(core, gang, False):
        numbers.lacking = tasks
        return n
    if end == n:
        park_gang(core, gang)
    return end


@separate_kernel
def try_gang(core: Core, index: Index, gang: int, first: int, out: IntArray, n: int) -> int:
    """Take what the waiting tasks of a gang take, all or nothing, the first on a server if given.

    Their servers go to `out` from `n` on; return where they end, or `n` when not all of it fits.
    """
    numbers, end, g, fits_all = core.numbers[0], n, gang, True
    while g != NONE:
        k = core.lines[core.groups[g].line].task_shape
        shape = core.shapes[k]
        shape.kept_pointer, shape.kept_looked = shape.pointer, shape.looked
        if shape.blocked and core.groups[g].waiting > 0:  # it fits on fresh servers, if anywhere
            shape.woken_in = numbers.epoch
            fits_all &= numbers.fresh > 0
        g = core.groups[g].member
    g = gang
    while fits_all and g != NONE:
        k = core.lines[core.groups[g].line].task_shape
        waiting = core.groups[g].waiting
        while fits_all and waiting > 0:
            if first != NONE and end == n:
                s = first if may_take(core, k, first) else NONE
            else:
                s = find(core, index, k)
            fits_all = s != NONE
            if fits_all:
                change_free(core, index, None, k, s, -1)
                out[end] = s
                end += 1
                waiting -= 1
        g = core.groups[g].member
    if fits_all:
        return end
    _undo(core, index, gang, out, n, end)
    return n


@separate_kernel
def _undo(core: Core, index: Index, gang: int, out: IntArray, n: int, end: int) -> None:
    """Give back what was taken, and have first-fit look from where it did."""
    g = gang
    while g != NONE:
        k = core.lines[core.groups[g].line].task_shape
        shape = core.shapes[k]
        shape.pointer, shape.looked = shape.kept_pointer, shape.kept_looked
        stop = min(end, n + core.groups[g].waiting)
        while n < stop:
            change_free(core, index, None, k, out[n], 1)
            n += 1
        g = core.groups[g].member

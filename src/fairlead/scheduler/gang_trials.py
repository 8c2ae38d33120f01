"""The trial of a gang: its tasks go one after the other where the selection puts them, or none."""

from __future__ import annotations

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.scheduler.choosing import Index, Kept, change_free, find_for
from fairlead.scheduler.gang_waiting import has_room, park_gang
from fairlead.scheduler.queues import dequeue
from fairlead.scheduler.records import NONE, Core, Switch
from fairlead.scheduler.servers import may_take
from fairlead.scheduler.spare_rows import task_rows
from fairlead.scheduler.waiting import waiting_of_gang


@separate_kernel
def try_first(
    core: Core, index: Index, at_hand: Kept, favourite: Switch, number: int, out: IntArray, n: int
) -> int:
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
        end = try_gang(core, index, at_hand, favourite, None, gang, NONE, out, n)
    elif has_room(core, gang, False):
        numbers.lacking = tasks
        return n
    if end == n:
        park_gang(core, gang)
    return end


@separate_kernel
def try_gang(
    core: Core,
    index: Index,
    at_hand: Kept,
    favourite: Switch,
    only: Switch,
    gang: int,
    first: int,
    out: IntArray,
    n: int,
) -> int:
    """Take what the waiting tasks of a gang take, all or nothing.

    The first one goes on a server, if that is given, or all of them (`only`). Their servers go to
    `out` from `n` on; return where they end, or `n` when not all of it fits.
    """
    numbers, end, g, fits_all = core.numbers[0], n, gang, True
    q = core.lines[core.groups[gang].line].queue
    while g != NONE:
        k = core.lines[core.groups[g].line].task_shape
        shape = core.shapes[k]
        shape.kept_pointer, shape.kept_looked = shape.pointer, shape.looked
        if favourite is None and shape.blocked and core.groups[g].waiting > 0:
            shape.woken_in = numbers.epoch  # it fits on fresh servers, if anywhere
            fits_all &= numbers.fresh > 0
        g = core.groups[g].member
    g = gang
    while fits_all and g != NONE:
        k = core.lines[core.groups[g].line].task_shape
        waiting = core.groups[g].waiting
        while fits_all and waiting > 0:
            is_given = first != NONE and end == n
            if only is not None:
                is_given = True
            if is_given:
                s = first if may_take(core, k, first) else NONE
            else:
                s = find_for(core, index, at_hand, favourite, q, k)  # 4. where
            fits_all = s != NONE
            if fits_all:
                change_free(core, index, at_hand, k, s, -1)
                _hold(core, q, k, 1)
                out[end] = s
                end += 1
                waiting -= 1
        g = core.groups[g].member
    g, left = gang, end - n
    while left > 0:  # scores went by what is held so far; `book_gang` counts it when they run
        tasks = min(left, core.groups[g].waiting)
        _hold(core, q, core.lines[core.groups[g].line].task_shape, -tasks)
        left -= tasks
        g = core.groups[g].member
    if fits_all:
        return end  # the amounts stay taken; `book_gang` does the rest
    give_back(core, index, at_hand, gang, out, n, end)
    return n


@inner_kernel
def _hold(core: Core, q: int, k: int, tasks: int) -> None:
    for r in range(core.held.shape[1]):
        core.held[q, r] += tasks * core.demand[k, r]


@separate_kernel
def give_back(
    core: Core, index: Index, at_hand: Kept, gang: int, out: IntArray, n: int, end: int
) -> None:
    """Give back what a trial took, and have first-fit look from where it did."""
    g = gang
    while g != NONE:
        k = core.lines[core.groups[g].line].task_shape
        shape = core.shapes[k]
        shape.pointer, shape.looked = shape.kept_pointer, shape.kept_looked
        stop = min(end, n + core.groups[g].waiting)
        while n < stop:
            change_free(core, index, at_hand, k, out[n], 1)
            n += 1
        g = core.groups[g].member

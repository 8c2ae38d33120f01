"""Fifo: the group that was submitted first, of all queues, is placed first.

Nothing passes over the first group that could be placed at all, if nothing ran: that is, of whose
shape some open server can take a task; or a gang that could start on empty servers. Inside a queue
priorities go before times. A queue's key is when its first group was submitted; what could not be
placed at all is parked until servers change.
"""

from __future__ import annotations

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.scheduler.arguments import LARGEST
from fairlead.scheduler.choosing import Index, find
from fairlead.scheduler.cycle import book_gang, start
from fairlead.scheduler.gang_trials import give_back, try_gang
from fairlead.scheduler.gang_waiting import has_room, park_gang, wake_gang
from fairlead.scheduler.queues import rerank
from fairlead.scheduler.records import NONE, Core, Switch
from fairlead.scheduler.servers import end_round
from fairlead.scheduler.spare_rows import task_rows
from fairlead.scheduler.waiting import block, park, waiting_of_gang, wake


@entry_kernel
def place_oldest(core: Core, index: Index, gangs: Switch, limit: int, out: IntArray) -> int:
    """Place tasks until the first group in order does not fit; see `cycle.place`.

    It also stops where it must be known of a gang, `asked`, whether it could start at all.
    """
    n, numbers = 0, core.numbers[0]
    numbers.lacking = 0
    if gangs is not None and _asks(core):
        return 0
    while n < limit:
        if numbers.turn == 0:
            break
        q = core.turn[0]
        number = core.queues[q].first
        before = n
        if gangs is not None and core.lines[number].task_shape == NONE:
            n = _place_gang(core, index, number, out, n)
        else:
            s = find(core, index, core.lines[number].task_shape)
            if s != NONE:
                out[n] = start(core, index, None, gangs, None, core.lines[number].first, s)
                n += 1
        if n == before:
            break
        if gangs is not None and _asks_of(core, q):
            return n
    if numbers.lacking == 0:
        end_round(core)
    return n


@separate_kernel
def _place_gang(core: Core, index: Index, number: int, out: IntArray, n: int) -> int:
    """Place the gang of a line, if all of it fits; return where `out` ends then."""
    gang = core.lines[number].first
    tasks = waiting_of_gang(core, gang)
    if tasks > out.size - n or tasks > task_rows(core):
        if has_room(core, gang, False):
            core.numbers[0].lacking = tasks
        return n
    end = try_gang(core, index, None, None, None, gang, NONE, out, n)
    return book_gang(core, 1, None, gang, out, n, end)


@separate_kernel
def _asks(core: Core) -> bool:
    """Return whether it must be known of the first gang of any queue if it could start."""
    position = 0
    while position < core.numbers[0].turn:
        q = core.turn[position]
        if _asks_of(core, q):
            return True
        position += 1
        if position > core.numbers[0].turn or core.turn[position - 1] != q:
            position = 0  # queues have moved
    return False


@inner_kernel
def _asks_of(core: Core, q: int) -> bool:
    """Park the first gangs of a queue that could not start; return whether one must be known."""
    numbers = core.numbers[0]
    while core.queues[q].place != NONE:
        number = core.queues[q].first
        if core.lines[number].task_shape != NONE:
            break
        gang = core.lines[number].first
        if not knows_gang(core, gang):
            numbers.asked = gang
            return True
        if core.groups[gang].able:
            break
        park_gang(core, gang)
        rerank(core, q)
    return False


@separate_kernel
def knows_gang(core: Core, gang: int) -> bool:
    """Return whether it is known if a gang could start on empty servers; of one shape it is."""
    group, openings = core.groups[gang], core.numbers[0].openings
    if group.known == openings:
        return True
    if group.member != NONE:
        return False
    k, tasks = core.lines[group.line].task_shape, 0
    for c in range(core.kinds.size):
        if core.kinds[c].opened > 0 and _is_large_enough(core, k, c):
            on_each = LARGEST
            for r in range(core.demand.shape[1]):
                if core.demand[k, r] > 0:
                    on_each = min(on_each, core.kind_capacity[c, r] // core.demand[k, r])
            if on_each >= group.waiting:  # a product might wrap
                tasks = group.waiting
                break
            tasks += on_each * core.kinds[c].opened
    group.able, group.known = tasks >= group.waiting, openings
    return True


@entry_kernel
def may_have_room(core: Core, gang: int) -> bool:
    """Return whether servers have room for each shape of a gang alone."""
    return has_room(core, gang, False)


@entry_kernel
def could_start(core: Core, index: Index, gang: int, out: IntArray) -> bool:
    """Return whether all of a gang fits on servers as they are. `out` has room for it."""
    end = try_gang(core, index, None, None, None, gang, NONE, out, 0)
    if end == 0:
        return False
    give_back(core, index, None, gang, out, 0, end)
    return True


@separate_kernel
def _stand_all(core: Core) -> None:
    """Have all gangs that are parked stand again. O(L)."""
    for number in range(core.numbers[0].lines):
        line = core.lines[number]
        if line.task_shape == NONE and line.parked and line.first != NONE:
            wake_gang(core, line.first)


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
    """Take in that more servers of a kind are open, or fewer.

    O(1) where some are open before and after; else O(K), and O(Q) if that wakes any or loses any.
    """
    kind, was_open = core.kinds[c], core.kinds[c].opened > 0
    kind.opened += servers
    core.numbers[0].openings += 1
    is_any_woken = is_any_lost = False
    if core.numbers[0].watched > 0:
        _stand_all(core)
        is_any_woken = True
    if was_open != (kind.opened > 0):
        for k in range(core.numbers[0].shapes):
            shape = core.shapes[k]
            if shape.able == was_open and _is_large_enough(core, k, c):
                shape.able = _is_any_large_enough(core, k)
                is_any_lost |= not shape.able
                if shape.able and shape.blocked:
                    wake(core, k, None)
                    is_any_woken = True
    if is_any_lost:
        _park_lost(core)
    if is_any_woken or is_any_lost:
        for q in range(core.numbers[0].queues):
            rerank(core, q)


@inner_kernel
def _is_any_large_enough(core: Core, k: int) -> bool:
    """Return whether any open server would take a task of a shape if it were empty. O(C R)."""
    for c in range(core.kinds.size):
        if core.kinds[c].opened > 0 and _is_large_enough(core, k, c):
            return True
    return False


@separate_kernel
def _park_lost(core: Core) -> None:
    """Park the lines of shapes that no open server takes any more. O(L)."""
    for number in range(core.numbers[0].lines):
        line = core.lines[number]
        if line.task_shape == NONE:
            continue
        shape = core.shapes[line.task_shape]
        if not shape.able and line.first != NONE and not line.parked:
            if not shape.blocked:
                block(core, line.task_shape)
            park(core, number, None)


@entry_kernel
def note_shape(core: Core, k: int) -> None:
    """Take in a new shape."""
    core.shapes[k].able = _is_any_large_enough(core, k)

"""Easy: fifo, and what would not delay the first group that does not fit goes before it.

Groups come in the order of their submission (`backlog`). The first one that does not fit, of those
that could be placed at all, has a reservation: the earliest time at which it would fit if running
tasks ended at their limits, and the servers that the selection names then. What should have ended
ends now; what has no limit never does. A group behind it is placed on servers where each task would
be over by then, or fits beside what is reserved there.

Each placement is the first that the state at hand allows: nothing is remembered of those before.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.scheduler.arguments import LARGEST
from fairlead.scheduler.backlog import (
    ONE_BY_ONE,
    Backlog,
    leave_backlog,
    note_start,
    precedes,
)
from fairlead.scheduler.best_fitting import is_nearer, rough_misfit
from fairlead.scheduler.choosing import Index, change_free, find
from fairlead.scheduler.cycle import book_gang, start
from fairlead.scheduler.fifo import knows_gang
from fairlead.scheduler.gang_trials import give_back, try_gang
from fairlead.scheduler.gang_waiting import tasks_that_fit
from fairlead.scheduler.records import NONE, Core, Switch
from fairlead.scheduler.servers import end_round, may_take
from fairlead.scheduler.spare_rows import task_rows
from fairlead.scheduler.waiting import waiting_of_gang

_MANY_AT_ONCE = 32  # kinds that a look at all passes over in the time that one takes alone


@entry_kernel
def place_or_backfill(
    core: Core, index: Index, gangs: Switch, backlog: Backlog, limit: int, out: IntArray
) -> int:
    """Place tasks until neither the first group fits nor another beside it; see `cycle.place`.

    It stops early where a gang is `asked` for, as fifo does, or the order is stale.
    """
    numbers, state, n = core.numbers[0], backlog.state[0], 0
    numbers.lacking = 0
    state.change += 1
    state.is_over, state.held_for = False, NONE
    while n < limit and not state.is_over:
        first = _first_able(core, gangs, backlog)
        if numbers.asked != NONE:
            return n
        if first == NONE:
            state.is_over = True
            break
        before, n = n, _place_first(core, index, gangs, backlog, first, out, n)
        if n == before and numbers.lacking == 0:
            _reserve(core, index, gangs, backlog, first)
            n = _place_others(core, index, gangs, backlog, first, limit, out, n)
        if numbers.lacking > 0 or numbers.asked != NONE or state.stale:
            return n
    if state.is_over:
        end_round(core)
        state.round_at = numbers.moment
    return n


@separate_kernel
def _first_able(core: Core, gangs: Switch, backlog: Backlog) -> int:
    """Return the first group that could be placed at all, or NONE. O(kinds before it)."""
    first, i, n = NONE, 0, backlog.state[0].met
    while i < n:
        c = backlog.met[i]
        g, may_be_below = backlog.kinds[c].first, True
        while g != NONE and (first == NONE or precedes(backlog, g, first)):
            if _is_able(core, gangs, g):
                first, may_be_below = g, g != backlog.kinds[c].first
                break
            if core.numbers[0].asked != NONE:
                return NONE
            # Those of a kind are alike.
            g = backlog.entries[g].after if c == ONE_BY_ONE else NONE
        else:
            may_be_below = first == NONE or precedes(backlog, backlog.kinds[c].first, first)
        i = _next_in_heap(i, n, may_be_below)
    return first


@inner_kernel
def _next_in_heap(i: int, n: int, goes_down: bool) -> int:
    """Return the place after one in a heap of `n`, with what is below that or without; or `n`."""
    if goes_down and 2 * i + 1 < n:
        return 2 * i + 1
    while i > 0:
        if i % 2 == 1 and i + 1 < n:
            return i + 1
        i = (i - 1) // 2
    return n


@inner_kernel
def _is_able(core: Core, gangs: Switch, g: int) -> bool:
    """Return whether a group could be placed at all; of a gang that may have to be asked."""
    if gangs is not None and core.groups[g].gang != NONE:
        if not knows_gang(core, g):
            core.numbers[0].asked = g
            return False
        return bool(core.groups[g].able)
    return bool(core.shapes[core.lines[core.groups[g].line].task_shape].able)


@inner_kernel
def _is_full(core: Core, backlog: Backlog, k: int) -> bool:
    """Return whether it is known that no server takes a task of a shape now. O(freed servers)."""
    full_at, numbers = backlog.shapes[k].full_at, core.numbers[0]
    if full_at == numbers.moment + 1:
        return True
    if full_at <= backlog.state[0].round_at:
        return False
    for f in range(numbers.fresh):
        s = core.fresh[f]
        if core.servers[s].freed_at >= full_at - 1 and may_take(core, k, s):
            return False
    backlog.shapes[k].full_at = numbers.moment + 1
    return True


@inner_kernel
def _find_now(core: Core, index: Index, backlog: Backlog, k: int) -> int:
    """Return the server for a task of a shape, or NONE."""
    if _is_full(core, backlog, k):
        return NONE
    s = find(core, index, k)
    if s == NONE:
        backlog.shapes[k].full_at = core.numbers[0].moment + 1
    return s


@separate_kernel
def _room(core: Core, backlog: Backlog, k: int) -> int:
    """Return how many tasks of a shape fit together now. O(S R) where anything changed."""
    shape, state = backlog.shapes[k], backlog.state[0]
    if shape.room_in != state.change:
        room = 0
        for position in range(core.numbers[0].servers):
            room += tasks_that_fit(core, k, core.sequence[position])
        shape.room, shape.room_in = room, state.change
    return int(shape.room)


@separate_kernel
def _room_beside(core: Core, backlog: Backlog, k: int) -> int:
    """Return how many tasks of a shape fit together now, beside what is reserved."""
    shape, state = backlog.shapes[k], backlog.state[0]
    if shape.beside_at != state.change:
        room = _room(core, backlog, k)
        for i in range(state.touched):
            s = backlog.touched[i]
            if backlog.servers[s].held_in == state.stamp:
                now = tasks_that_fit(core, k, s)
                room -= now - min(now, _tasks_then(core, backlog, k, s))
        shape.beside, shape.beside_at = room, state.change
    return int(shape.beside)


@inner_kernel
def _tasks_then(core: Core, backlog: Backlog, k: int, s: int) -> int:
    """Return how many tasks of a shape a server takes at the reserved time."""
    if not (core.servers[s].open and core.may[core.shapes[k].where, core.servers[s].klass]):
        return 0
    tasks = LARGEST
    for r in range(core.free.shape[1]):
        if backlog.then[s, r] < core.demand[k, r]:
            return 0
        if core.demand[k, r] > 0:
            tasks = min(tasks, backlog.then[s, r] // core.demand[k, r])
    return int(tasks)


# Those that start


@inner_kernel
def _start(
    core: Core, index: Index, gangs: Switch, backlog: Backlog, g: int, s: int, out: IntArray, n: int
) -> int:
    """Have a task of a group run on a server; return where `out` ends then."""
    out[n] = start(core, index, None, gangs, None, g, s)
    note_start(core, backlog, out[n])
    _note_placed(backlog, g, core.groups[g].waiting == 0)
    return n + 1


@inner_kernel
def _note_placed(backlog: Backlog, g: int, is_over: bool) -> None:
    state = backlog.state[0]
    state.change += 1
    state.stale |= state.has_priorities
    if is_over:
        leave_backlog(backlog, g)


@separate_kernel
def _start_gang(
    core: Core, gangs: Switch, backlog: Backlog, gang: int, out: IntArray, n: int, end: int
) -> int:
    """Have a gang run on servers that `out` names from `n` on, where its amounts are taken."""
    end = book_gang(core, gangs, None, gang, out, n, end)
    for i in range(n, end):
        note_start(core, backlog, out[i])
    _note_placed(backlog, gang, True)
    return end


@inner_kernel
def _lacks_rows(core: Core, tasks: int, out: IntArray, n: int) -> bool:
    """Return whether rows or the buffer are too few for a number of tasks, and say so."""
    if tasks <= out.size - n and tasks <= task_rows(core):
        return False
    core.numbers[0].lacking = tasks
    return True


@inner_kernel
def _has_room(core: Core, backlog: Backlog, gang: int) -> bool:
    """Return whether there is room now for all tasks of each shape of a gang alone."""
    g = gang
    while g != NONE:
        group = core.groups[g]
        k = core.lines[group.line].task_shape
        if group.waiting > 0 and (
            _is_full(core, backlog, k) or group.waiting > _room(core, backlog, k)
        ):
            return False
        g = group.member
    return True


@separate_kernel
def _place_first(
    core: Core, index: Index, gangs: Switch, backlog: Backlog, g: int, out: IntArray, n: int
) -> int:
    """Place a task of a group, or a gang, if it fits; return where `out` ends then."""
    if gangs is not None and core.groups[g].gang != NONE:
        if not _has_room(core, backlog, g):
            return n
        if _lacks_rows(core, waiting_of_gang(core, g), out, n):
            return n
        end = try_gang(core, index, None, None, None, g, NONE, out, n)
        return _start_gang(core, gangs, backlog, g, out, n, end) if end > n else n
    s = _find_now(core, index, backlog, core.lines[core.groups[g].line].task_shape)
    return n if s == NONE else _start(core, index, gangs, backlog, g, s, out, n)


# The reservation


@inner_kernel
def _touch(core: Core, backlog: Backlog, s: int) -> None:
    """Have a server have amounts of its own at the reserved time."""
    state = backlog.state[0]
    if backlog.servers[s].touched_in != state.stamp:
        backlog.servers[s].touched_in = state.stamp
        backlog.touched[state.touched] = s
        state.touched += 1
        for r in range(core.free.shape[1]):
            backlog.then[s, r] = core.free[s, r]


@separate_kernel
def _reserve(core: Core, index: Index, gangs: Switch, backlog: Backlog, g: int) -> None:
    """Find when a group fits at the earliest, and where. O(ends until then), and O(S) of a gang.

    A gang of several shapes is tried whenever the first of them has room.
    """
    state, now, e = backlog.state[0], core.numbers[0].now, 0
    state.stamp += 1
    state.touched, state.at, state.held_for = 0, np.inf, g
    is_gang, tasks, room = core.groups[g].gang != NONE, 1, 0
    while core.groups[g].waiting == 0:
        g = core.groups[g].member
    k = core.lines[core.groups[g].line].task_shape
    if gangs is not None and is_gang:
        tasks, room = core.groups[g].waiting, _room(core, backlog, k)
    while e < state.ends:
        time = max(backlog.ends[e].end, now)
        while e < state.ends and backlog.ends[e].end <= time:
            task = core.tasks[backlog.ends[e].task]
            _touch(core, backlog, task.server)
            room -= _tasks_then(core, backlog, k, task.server)
            ended = core.lines[core.groups[task.group].line].task_shape
            for r in range(core.free.shape[1]):
                backlog.then[task.server, r] += core.demand[ended, r]
            room += _tasks_then(core, backlog, k, task.server)
            e += 1
        if room >= tasks and _reserve_then(core, index, gangs, backlog, g):
            state.at = time
            return


@inner_kernel
def _swap(core: Core, backlog: Backlog) -> None:
    """Have what is free be what is free at the reserved time, or the other way."""
    for i in range(backlog.state[0].touched):
        s = backlog.touched[i]
        for r in range(core.free.shape[1]):
            free = core.free[s, r]
            core.free[s, r] = backlog.then[s, r]
            backlog.then[s, r] = free


@separate_kernel
def _reserve_then(core: Core, index: Index, gangs: Switch, backlog: Backlog, g: int) -> bool:
    """Reserve, at the time that servers have come to, what a task or a gang takes, if it fits."""
    state, fits_all, is_gang = backlog.state[0], True, core.groups[g].gang != NONE
    _swap(core, backlog)
    while fits_all and g != NONE:
        k, position = core.lines[core.groups[g].line].task_shape, 0
        left = core.groups[g].waiting if is_gang else 1
        while left > 0:
            s = NONE
            if not is_gang:  # only where something ends has it room
                s = _best_of(core, index, k, backlog.touched, state.touched)
            if gangs is not None and is_gang:
                if index is None:
                    s, position = _next_fit(core, k, position)
                else:
                    s = _best_of(core, index, k, core.sequence, core.numbers[0].servers)
            if s == NONE:
                fits_all = False
                break
            if backlog.servers[s].touched_in != state.stamp:
                _touch(core, backlog, s)
            if backlog.servers[s].held_in != state.stamp:
                backlog.servers[s].held_in = state.stamp
                backlog.reserved[s, :] = 0
            at_once = 1
            if index is None:
                at_once = min(left, tasks_that_fit(core, k, s))
            for r in range(core.free.shape[1]):
                core.free[s, r] -= at_once * core.demand[k, r]
                backlog.reserved[s, r] += at_once * core.demand[k, r]
            left -= at_once
        g = core.groups[g].member if is_gang else NONE
    for i in range(state.touched):
        s = backlog.touched[i]
        if not fits_all and backlog.servers[s].held_in == state.stamp:
            backlog.servers[s].held_in = 0
            for r in range(core.free.shape[1]):
                core.free[s, r] += backlog.reserved[s, r]
    _swap(core, backlog)
    return fits_all


@inner_kernel
def _next_fit(core: Core, k: int, position: int) -> tuple[int, int]:
    """Return the first server from a position on that takes a task, or NONE, and where it is."""
    while position < core.numbers[0].servers:
        if may_take(core, k, core.sequence[position]):
            return int(core.sequence[position]), position
        position += 1
    return NONE, position


@inner_kernel
def _best_of(core: Core, index: Index, k: int, servers: IntArray, n: int) -> int:
    """Return the server of some that the selection names, or NONE."""
    best, least, size = NONE, np.inf, 0.0
    for i in range(n):
        s = servers[i]
        if not may_take(core, k, s):
            continue
        if index is None:
            if best == NONE or core.servers[s].position < core.servers[best].position:
                best = s
        else:
            misfit, its = rough_misfit(core, k, s)
            if best == NONE or is_nearer(core, k, s, misfit, its, best, least, size):
                best, least, size = s, misfit, its
    return best


# Those that go before


@inner_kernel
def _delays(core: Core, backlog: Backlog, k: int, s: int) -> bool:
    """Return whether a task that still runs at the reserved time would take what is reserved."""
    if backlog.servers[s].held_in != backlog.state[0].stamp:
        return False
    for r in range(core.free.shape[1]):  # noqa: SIM110 (numba knows no generators)
        if backlog.then[s, r] < core.demand[k, r]:
            return True
    return False


@separate_kernel
def _find_beside(core: Core, index: Index, backlog: Backlog, k: int) -> int:
    """Return the server for a task that is not over by then, or NONE. O(S) at the worst."""
    s = find(core, index, k)
    if s == NONE or not _delays(core, backlog, k, s):
        return s
    best, least, size = NONE, np.inf, 0.0
    begin = core.servers[s].position + 1 if index is None else 0
    for position in range(begin, core.numbers[0].servers):
        s = core.sequence[position]
        if not may_take(core, k, s) or _delays(core, backlog, k, s):
            continue
        if index is None:
            return int(s)
        misfit, its = rough_misfit(core, k, s)
        if best == NONE or is_nearer(core, k, s, misfit, its, best, least, size):
            best, least, size = s, misfit, its
    return best


@inner_kernel
def _take_then(core: Core, backlog: Backlog, k: int, s: int, sign: int) -> None:
    """Take what a task takes at the reserved time, too, where it matters (-1), or give it back."""
    if backlog.servers[s].held_in == backlog.state[0].stamp:
        for r in range(core.free.shape[1]):
            backlog.then[s, r] += sign * core.demand[k, r]


@separate_kernel
def _try_beside(
    core: Core, index: Index, backlog: Backlog, gang: int, out: IntArray, n: int
) -> int:
    """Take what a gang takes that is not over by then, all or nothing; see `try_gang`."""
    g, end = gang, n
    while g != NONE:
        shape = core.shapes[core.lines[core.groups[g].line].task_shape]
        shape.kept_pointer, shape.kept_looked = shape.pointer, shape.looked
        g = core.groups[g].member
    g, fits_all = gang, True
    while fits_all and g != NONE:
        k = core.lines[core.groups[g].line].task_shape
        for _ in range(core.groups[g].waiting):
            s = _find_beside(core, index, backlog, k)
            fits_all = s != NONE
            if not fits_all:
                break
            change_free(core, index, None, k, s, -1)
            _take_then(core, backlog, k, s, -1)
            out[end] = s
            end += 1
        g = core.groups[g].member
    if fits_all:
        return end
    g, i = gang, n
    while g != NONE:
        k = core.lines[core.groups[g].line].task_shape
        for _ in range(min(core.groups[g].waiting, end - i)):
            _take_then(core, backlog, k, out[i], 1)
            i += 1
        g = core.groups[g].member
    give_back(core, index, None, gang, out, n, end)
    return n


@inner_kernel
def _next_candidate(core: Core, gangs: Switch, backlog: Backlog, c: int, g: int, first: int) -> int:
    """Return the group of a kind, that one or a later one, that may start beside the first."""
    kind, now, at = backlog.kinds[c], core.numbers[0].now, backlog.state[0].at
    if c == ONE_BY_ONE:
        return backlog.entries[g].after if g == first else g
    k = kind.task_shape
    if not core.shapes[k].able or _is_full(core, backlog, k):
        return NONE
    fits_beside = backlog.shapes[k].beside_in != backlog.state[0].stamp
    if gangs is not None and kind.tasks > 0:
        if kind.tasks > _room(core, backlog, k):
            return NONE
        fits_beside = kind.tasks <= _room_beside(core, backlog, k)
    if fits_beside:
        return g
    if now + kind.least_limit > at:
        return NONE
    least, is_all = np.inf, g == kind.first
    while g != NONE and now + backlog.entries[g].limit > at:
        least = min(least, backlog.entries[g].limit)
        g = backlog.entries[g].after
    if g == NONE and is_all:
        kind.least_limit = least
    return g


@inner_kernel
def _sink(backlog: Backlog, size: int, i: int) -> None:
    """Bring a kind down to its place in the heap of those looked at, by who is next of each."""
    looked, kinds = backlog.looked, backlog.kinds
    c = looked[i]
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and precedes(
            backlog, kinds[looked[child + 1]].cursor, kinds[looked[child]].cursor
        ):
            child += 1
        if precedes(backlog, kinds[c].cursor, kinds[looked[child]].cursor):
            break
        looked[i], i = looked[child], child
    looked[i] = c


@inner_kernel
def _look(core: Core, gangs: Switch, backlog: Backlog, first: int, n: int) -> int:
    """Leave, of the kinds looked at, a heap of those that may start; return how many these are."""
    size = 0
    for i in range(n):
        c = backlog.looked[i]
        g = _next_candidate(core, gangs, backlog, c, backlog.kinds[c].cursor, first)
        if g != NONE:
            if backlog.kinds[c].cursor != g:  # where somebody asks, a write costs a page
                backlog.kinds[c].cursor = g
            backlog.looked[size] = c
            size += 1
    for i in range(size // 2 - 1, -1, -1):
        _sink(backlog, size, i)
    return size


@separate_kernel
def _place_others(
    core: Core,
    index: Index,
    gangs: Switch,
    backlog: Backlog,
    first: int,
    limit: int,
    out: IntArray,
    n: int,
) -> int:
    """Place those behind the first group that do not delay it; return where `out` ends then.

    Under first-fit what is reserved stays where it is, whatever starts, unless a gang has several
    shapes; otherwise one must look again after each placement.
    """
    numbers, state = core.numbers[0], backlog.state[0]
    looks_again = index is not None or core.groups[first].member != NONE
    for i in range(state.met):
        c = backlog.met[i]
        backlog.looked[i] = c
        if backlog.kinds[c].cursor != backlog.kinds[c].first:
            backlog.kinds[c].cursor = backlog.kinds[c].first
    size, failed = _look(core, gangs, backlog, first, state.met), 0
    while size > 0 and n < limit:
        c = backlog.looked[0]
        g = backlog.kinds[c].cursor
        after, before = _next_candidate(core, gangs, backlog, c, g, first), n
        if after == g:
            after = backlog.entries[g].after
            n = _place_beside(core, index, gangs, backlog, g, out, n)
            if numbers.lacking > 0 or numbers.asked != NONE:
                return n
            if n > before and (looks_again or state.stale):
                return n
            if c == ONE_BY_ONE:
                looks_again = True  # with less room it may fit where it did not
            elif backlog.entries[g].kind == c and (n > before or backlog.kinds[c].tasks == 0):
                after = _next_candidate(core, gangs, backlog, c, g, first)
        backlog.kinds[c].cursor = after
        if after == NONE:
            size -= 1
            backlog.looked[0] = backlog.looked[size]
            failed += before == n
            if failed * _MANY_AT_ONCE > size:  # many others have no room left, either
                size, failed = _look(core, gangs, backlog, first, size), 0
                continue
        _sink(backlog, size, 0)
    state.is_over = size == 0
    return n


@separate_kernel
def _place_beside(
    core: Core, index: Index, gangs: Switch, backlog: Backlog, g: int, out: IntArray, n: int
) -> int:
    """Place a task of a group, or a gang, if it delays nobody; return where `out` ends then."""
    in_time = core.numbers[0].now + backlog.entries[g].limit <= backlog.state[0].at
    if gangs is not None and core.groups[g].gang != NONE:
        if not _has_room(core, backlog, g) or not _is_able(core, gangs, g):
            return n
        if _lacks_rows(core, waiting_of_gang(core, g), out, n):
            return n
        if in_time:
            end = try_gang(core, index, None, None, None, g, NONE, out, n)
        else:
            end = _try_beside(core, index, backlog, g, out, n)
        return _start_gang(core, gangs, backlog, g, out, n, end) if end > n else n
    k = core.lines[core.groups[g].line].task_shape
    if in_time:
        s = _find_now(core, index, backlog, k)
    else:
        s = _find_beside(core, index, backlog, k)
        if s == NONE:
            backlog.shapes[k].beside_in = backlog.state[0].stamp
        else:
            _take_then(core, backlog, k, s, -1)
    return n if s == NONE else _start(core, index, gangs, backlog, g, s, out, n)

"""What a running task adds to its queue's score under tsf and ps-dsf, by the servers there are.

tsf: one over the tasks that all servers would take. ps-dsf: the sum of a task's dominant shares of
each server where it may run. Servers that join or leave are noted in a log, by kind. A shape counts
what it has not counted yet when its unit is wanted: mostly of few shapes. All do once the log is
full. Changes are counted one by one and in their order, so units do not tell when.
"""

from __future__ import annotations

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.optimize.double_double import add, compare, divide, of_whole, times
from fairlead.scheduler.records import Core


@entry_kernel
def note_kind(core: Core, c: int, servers: int) -> None:
    """Take in that more servers of a kind are there, or fewer. O(K) once in a while."""
    numbers = core.numbers[0]
    if numbers.joined == core.joined.size:
        count_all(core)
    entry = core.joined[numbers.joined]
    entry.kind, entry.servers = c, servers
    numbers.joined += 1


@entry_kernel
def count_all(core: Core) -> None:
    """Have all shapes count what is in the log, and empty it. O(K log)."""
    for k in range(core.numbers[0].shapes):
        count_joined(core, k)
        core.units[k].joined = 0
    core.numbers[0].joined = 0


@separate_kernel
def count_joined(core: Core, k: int) -> None:
    """Have a shape count what it has not counted yet."""
    servers, high, low = _counted(core, k)
    _take(core, k, servers, high, low)


@inner_kernel
def _take(core: Core, k: int, servers: int, high: float, low: float) -> None:
    """Have a shape have counted everything."""
    unit = core.units[k]
    unit.joined = core.numbers[0].joined
    unit.servers, unit.alone, unit.alone_low = servers, high, low
    unit.unit, unit.unit_low = _unit(core, high, low)


@inner_kernel
def _unit(core: Core, high: float, low: float) -> tuple[float, float]:
    """Return what a task adds, from the tasks that all servers would take or its shares of them."""
    if core.numbers[0].by_place:
        return high, low
    return divide(1.0, 0.0, high, low) if high > 0.0 else (0.0, 0.0)


@inner_kernel
def _counted(core: Core, k: int) -> tuple[int, float, float]:
    """Return what a shape would have counted: servers, and tasks or shares."""
    unit = core.units[k]
    servers, high, low = unit.servers, unit.alone, unit.alone_low
    for i in range(unit.joined, core.numbers[0].joined):
        entry = core.joined[i]
        servers, high, low = _count(core, k, entry.kind, entry.servers, servers, high, low)
    return servers, high, low


@entry_kernel
def count_kinds(core: Core, k: int, kinds: int) -> None:
    """Take in a new shape."""
    servers, high, low = 0, 0.0, 0.0
    for c in range(kinds):
        if core.kinds[c].count > 0:
            servers, high, low = _count(core, k, c, core.kinds[c].count, servers, high, low)
    _take(core, k, servers, high, low)


@separate_kernel
def _count(
    core: Core, k: int, c: int, more: int, servers: int, high: float, low: float
) -> tuple[int, float, float]:
    """Return what a shape has counted once more servers of a kind are there, or fewer."""
    by_place = core.numbers[0].by_place
    if by_place and not core.may[core.shapes[k].where, core.kinds[c].klass]:
        return servers, high, low
    of_one, of_one_low = _dominant_share(core, k, c)
    if of_one == 0.0:
        return servers, high, low
    if not by_place:
        of_one, of_one_low = divide(1.0, 0.0, of_one, of_one_low)
    of_one, of_one_low = times(float(more), 0.0, of_one, of_one_low)
    servers += more
    if servers == 0:  # what is left is rounding
        return servers, 0.0, 0.0
    high, low = add(high, low, of_one, of_one_low)
    return servers, high, low


@inner_kernel
def _dominant_share(core: Core, k: int, c: int) -> tuple[float, float]:
    """Return the largest share of a kind of server that a task takes; 0 if it lacks a resource."""
    share, share_low = 0.0, 0.0
    for r in range(core.demand.shape[1]):
        if core.demand[k, r] > 0:
            if core.kind_capacity[c, r] == 0:
                return 0.0, 0.0
            high, low = of_whole(core.demand[k, r])
            over, over_low = of_whole(core.kind_capacity[c, r])
            high, low = divide(high, low, over, over_low)
            if compare(high, low, share, share_low) > 0:
                share, share_low = high, low
    return share, share_low


@entry_kernel
def sum_all(core: Core, asks: bool) -> None:
    """Sum the scores of running tasks afresh, queue by queue. O(L log).

    Who only asks has no shape count: each page with one that is written would be copied first.
    """
    for q in range(core.numbers[0].queues):
        core.queues[q].total = core.queues[q].total_low = 0.0
    for number in range(core.numbers[0].lines):
        line = core.lines[number]
        if line.running > 0:
            k, queue = line.task_shape, core.queues[line.queue]
            if not asks:
                count_joined(core, k)
            _, high, low = _counted(core, k)
            high, low = _unit(core, high, low)
            high, low = times(float(line.running), 0.0, high, low)
            queue.total, queue.total_low = add(queue.total, queue.total_low, high, low)


@entry_kernel
def sum_with(core: Core, kinds: IntArray, high: FloatArray, low: FloatArray) -> None:
    """Sum them as they would be once one server more of each kind joins, (C, Q). O(C L log)."""
    for number in range(core.numbers[0].lines):
        line = core.lines[number]
        if line.running > 0:
            k, q = line.task_shape, line.queue
            servers, alone, alone_low = _counted(core, k)
            for i in range(kinds.size):
                _, unit, unit_low = _count(core, k, kinds[i], 1, servers, alone, alone_low)
                unit, unit_low = _unit(core, unit, unit_low)
                unit, unit_low = times(float(line.running), 0.0, unit, unit_low)
                high[i, q], low[i, q] = add(high[i, q], low[i, q], unit, unit_low)

"""What a running task adds to its queue's score under tsf and ps-dsf, by the servers there are.

tsf: one over the tasks that all servers would take. ps-dsf: the sum of a task's shares of the
servers where it may run. Servers that join or leave are noted in a log, by kind. A shape counts
what it has not counted yet when its unit is wanted: mostly of few shapes. All do once the log is
full. Changes are counted one by one and in their order, so units do not tell when.
"""

from __future__ import annotations

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
    unit = core.units[k]
    for i in range(unit.joined, core.numbers[0].joined):
        _count(core, k, core.joined[i].kind, core.joined[i].servers)
    unit.joined = core.numbers[0].joined


@entry_kernel
def count_kinds(core: Core, k: int, kinds: int) -> None:
    """Take in a new shape."""
    for c in range(kinds):
        if core.kinds[c].count > 0:
            _count(core, k, c, core.kinds[c].count)
    core.units[k].joined = core.numbers[0].joined


@separate_kernel
def _count(core: Core, k: int, c: int, servers: int) -> None:
    """Have a shape count that more servers of a kind are there, or fewer."""
    unit, by_place = core.units[k], core.numbers[0].by_place
    if by_place and not core.may[core.shapes[k].where, core.kinds[c].klass]:
        return
    high, low = _dominant_share(core, k, c)
    if high == 0.0:
        return
    if not by_place:
        high, low = divide(1.0, 0.0, high, low)
    high, low = times(float(servers), 0.0, high, low)
    unit.servers += servers
    high, low = add(unit.alone, unit.alone_low, high, low)
    if unit.servers == 0:  # what is left is rounding
        high, low = 0.0, 0.0
    unit.alone, unit.alone_low = high, low
    unit.unit, unit.unit_low = unit.alone, unit.alone_low
    if not by_place:
        unit.unit = unit.unit_low = 0.0
        if unit.alone > 0.0:
            unit.unit, unit.unit_low = divide(1.0, 0.0, unit.alone, unit.alone_low)


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
def sum_all(core: Core) -> None:
    """Sum the scores of running tasks afresh, queue by queue. O(L)."""
    for q in range(core.numbers[0].queues):
        core.queues[q].total = core.queues[q].total_low = 0.0
    for number in range(core.numbers[0].lines):
        line = core.lines[number]
        if line.running > 0:
            count_joined(core, line.task_shape)
            queue, unit = core.queues[line.queue], core.units[line.task_shape]
            high, low = times(float(line.running), 0.0, unit.unit, unit.unit_low)
            queue.total, queue.total_low = add(queue.total, queue.total_low, high, low)

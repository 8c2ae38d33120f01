"""The scheduling cycle, the numbered way of a task, and the events that change what it sees."""

from __future__ import annotations

from typing import Any

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.optimize.double_double import add, compare, divide, of_whole, times
from fairlead.scheduler.best_fitting import best_fit
from fairlead.scheduler.fit_index import enter, leave
from fairlead.scheduler.policies import FIFO
from fairlead.scheduler.queues import count_held, rerank
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.servers import end_round, first_fit, note_freed, wake_for_fresh
from fairlead.scheduler.waiting import block, leave_line, line_up, park

Index = Any  # FitIndex, or None for first-fit: then nothing of best-fit is compiled


@entry_kernel
def place(core: Core, index: Index, limit: int, out: IntArray) -> int:
    """Place tasks until nothing more fits or the limit is reached; return how many.

    `out` receives the numbers of the tasks in their order.
    """
    n = 0
    wake_for_fresh(core)  # 1. who is woken by what was freed
    while n < limit:
        if core.numbers[0].turn == 0:
            end_round(core)
            break
        q = core.turn[0]  # 2. whose turn it is
        number = core.queues[q].first  # 3. what: the first group of its first line
        k = core.lines[number].task_shape
        s = NONE
        if not core.shapes[k].blocked:
            s = find(core, index, k)  # 4. where
            if s == NONE:
                block(core, k)
        if s == NONE:
            park(core, number)
            continue
        out[n] = start(core, index, core.lines[number].first, s)  # 5. book
        n += 1
    return n


@inner_kernel
def find(core: Core, index: Index, k: int) -> int:
    """Return the server for a task of a shape, or NONE."""
    if index is None:
        return first_fit(core, k)
    return best_fit(core, index, k)


@inner_kernel
def _change_free(core: Core, index: Index, k: int, s: int, sign: int) -> None:
    """Take what a task of a shape takes from a server (-1), or give it back (1)."""
    if index is not None:
        leave(core, index, s)
    for r in range(core.free.shape[1]):
        core.free[s, r] += sign * core.demand[k, r]
    if index is not None:
        enter(core, index, s)


@separate_kernel
def start(core: Core, index: Index, g: int, s: int) -> int:
    """Have a waiting task of a group run on a server, and return its number."""
    numbers, group, server = core.numbers[0], core.groups[g], core.servers[s]
    line = core.lines[group.line]
    t = group.ended
    if t != NONE:  # one that ran before
        group.ended = core.tasks[t].after
    else:
        t = numbers.spare_task
        numbers.spare_task = core.tasks[t].after
        numbers.spare_tasks -= 1
        core.tasks[t].group, core.tasks[t].index, core.tasks[t].attempt = g, group.fresh, 0
        group.fresh += 1
    task = core.tasks[t]
    task.server, task.started, task.runs = s, numbers.started, True
    task.attempt += 1
    numbers.started += 1
    task.before, task.after = NONE, server.tasks
    if server.tasks != NONE:
        core.tasks[server.tasks].before = t
    server.tasks = t
    task.older, task.newer = NONE, group.tasks
    if group.tasks != NONE:
        core.tasks[group.tasks].older = t
    group.tasks = t
    server.running += 1
    group.running += 1
    line.running += 1
    _change_free(core, index, line.task_shape, s, -1)
    count_held(core, line.queue, line.task_shape, 1)
    group.waiting -= 1
    line.waiting -= 1
    core.queues[line.queue].waiting -= 1
    if group.waiting == 0:
        leave_line(core, g)
    rerank(core, line.queue)
    return int(t)


@entry_kernel
def stop(core: Core, index: Index, t: int, again: bool) -> None:
    """Take a running task off its server; it waits again, or is gone."""
    task = core.tasks[t]
    g, s = task.group, task.server
    group, server, line = core.groups[g], core.servers[s], core.lines[core.groups[g].line]
    if task.before == NONE:
        server.tasks = task.after
    else:
        core.tasks[task.before].after = task.after
    if task.after != NONE:
        core.tasks[task.after].before = task.before
    if task.older == NONE:
        group.tasks = task.newer
    else:
        core.tasks[task.older].newer = task.newer
    if task.newer != NONE:
        core.tasks[task.newer].older = task.older
    server.running -= 1
    group.running -= 1
    line.running -= 1
    task.generation += 1
    task.runs = False
    _change_free(core, index, line.task_shape, s, 1)
    count_held(core, line.queue, line.task_shape, -1)
    if again:
        _return(core, t)
        _wait(core, g, 1)
    else:
        _spare(core, t)
        _forget_ended(core, g)
    rerank(core, line.queue)
    note_freed(core, s)


@inner_kernel
def _return(core: Core, t: int) -> None:
    """Put a task that stopped among those of its group that run first again, lowest index first."""
    group = core.groups[core.tasks[t].group]
    before, after = NONE, group.ended
    while after != NONE and core.tasks[after].index < core.tasks[t].index:
        before, after = after, core.tasks[after].after
    core.tasks[t].after = after
    if before == NONE:
        group.ended = t
    else:
        core.tasks[before].after = t


@inner_kernel
def _spare(core: Core, t: int) -> None:
    """Free the row of a task."""
    core.tasks[t].after, core.numbers[0].spare_task = core.numbers[0].spare_task, t
    core.numbers[0].spare_tasks += 1


@inner_kernel
def _wait(core: Core, g: int, tasks: int) -> None:
    """Have so many more tasks of a group wait."""
    numbers, group = core.numbers[0], core.groups[g]
    queue = core.queues[core.lines[group.line].queue]
    group.waiting += tasks
    core.lines[group.line].waiting += tasks
    queue.waiting += tasks
    numbers.revivals += 1
    numbers.moment += 1
    queue.revived_at = numbers.moment  # what it declined before it hears of again
    if group.waiting == tasks:
        line_up(core, g)
        k = core.lines[group.line].task_shape
        if numbers.criterion == FIFO and core.shapes[k].able == 0:
            if not core.shapes[k].blocked:
                block(core, k)
            if not core.lines[group.line].parked:
                park(core, group.line)


@inner_kernel
def _forget_ended(core: Core, g: int) -> None:
    """Have a group of which nothing waits or runs make room."""
    group = core.groups[g]
    if group.waiting == 0 and group.running == 0:
        group.generation += 1
        group.line, core.numbers[0].spare_group = core.numbers[0].spare_group, g


@entry_kernel
def submit(core: Core, number: int, tasks: int, rank: int, time: float, serial: int) -> int:
    """Have a group of tasks wait in a line, and return its number."""
    g = core.numbers[0].spare_group
    group, node = core.groups[g], core.group_node[g]
    core.numbers[0].spare_group = group.line
    group.line, group.over, group.fresh = number, False, 0
    group.waiting, group.running, group.ended, group.tasks = 0, 0, NONE, NONE
    node.rank, node.time, node.serial = rank, time, serial
    _wait(core, g, tasks)
    if core.numbers[0].criterion == FIFO:
        rerank(core, core.lines[number].queue)
    return int(g)


@entry_kernel
def drop(core: Core, g: int) -> None:
    """Have no task of a group wait any more."""
    group = core.groups[g]
    line = core.lines[group.line]
    line.waiting -= group.waiting
    core.queues[line.queue].waiting -= group.waiting
    if group.waiting > 0:
        group.waiting = 0
        leave_line(core, g)
        if core.numbers[0].criterion == FIFO:
            rerank(core, line.queue)
    while group.ended != NONE:
        t = group.ended
        group.ended = core.tasks[t].after
        _spare(core, t)
    group.over = True
    _forget_ended(core, g)


@entry_kernel
def assume(core: Core, index: Index, g: int, s: int) -> int:
    """Have a waiting task of a group run on a server, whatever fits there."""
    core.numbers[0].changed = 1
    return start(core, index, g, s)


@entry_kernel
def rank_all(core: Core) -> None:
    """Take in that the pool changed."""
    for q in range(core.numbers[0].queues):
        rerank(core, q)


@entry_kernel
def rank_one(core: Core, q: int) -> None:
    """Take in that a weight changed."""
    rerank(core, q)


@entry_kernel
def change_server(core: Core, index: Index, s: int, opened: bool) -> None:
    """Take in that a server opens, or (before that changes anything else) closes."""
    if index is not None:
        leave(core, index, s)
    core.servers[s].open = opened
    core.numbers[0].changed = 1
    if opened:
        if index is not None:
            enter(core, index, s)
        note_freed(core, s)


@separate_kernel
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
def count_kind(core: Core, c: int, servers: int, begin: int, by_place: bool) -> None:
    """Take in that more servers of a kind are there, for shapes from `begin` on; for tsf, ps-dsf.

    tsf: one over the tasks that all servers would take. ps-dsf (`by_place`): the sum of a task's
    shares of the servers where it may run.
    """
    for k in range(begin, core.numbers[0].shapes):
        shape = core.shapes[k]
        if by_place and not core.may[shape.where, core.kinds[c].klass]:
            continue
        high, low = _dominant_share(core, k, c)
        if high == 0.0:
            continue
        if not by_place:
            high, low = divide(1.0, 0.0, high, low)
        high, low = times(float(servers), 0.0, high, low)
        shape.able += servers
        high, low = add(shape.alone, shape.alone_low, high, low)
        if shape.able == 0:  # what is left is rounding
            high, low = 0.0, 0.0
        shape.alone, shape.alone_low = high, low
        shape.unit, shape.unit_low = shape.alone, shape.alone_low
        if not by_place:
            shape.unit = shape.unit_low = 0.0
            if shape.alone > 0.0:
                shape.unit, shape.unit_low = divide(1.0, 0.0, shape.alone, shape.alone_low)


@entry_kernel
def sum_all(core: Core) -> None:
    """Sum the scores of running tasks afresh, queue by queue."""
    for q in range(core.numbers[0].queues):
        core.queues[q].total = core.queues[q].total_low = 0.0
    for number in range(core.numbers[0].lines):
        line = core.lines[number]
        if line.running > 0:
            queue, shape = core.queues[line.queue], core.shapes[line.task_shape]
            high, low = times(float(line.running), 0.0, shape.unit, shape.unit_low)
            queue.total, queue.total_low = add(queue.total, queue.total_low, high, low)


@entry_kernel
def enter_all(core: Core, index: Index) -> None:
    """Put all open servers into an index that has none."""
    for position in range(core.numbers[0].servers):
        s = core.sequence[position]
        node = core.server_node[s]
        node.child = node.sibling = node.before = NONE
        enter(core, index, s)

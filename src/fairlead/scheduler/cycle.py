"""The scheduling cycle, the numbered way of a task, and the events that change what it sees."""

from __future__ import annotations

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.scheduler.at_hand import before_opening, note_opening
from fairlead.scheduler.choosing import Index, Kept, change_free, find
from fairlead.scheduler.fit_index import enter, leave
from fairlead.scheduler.gang_trials import try_first
from fairlead.scheduler.gang_waiting import hearten_gangs, stand_again, unpark_gang, wake_gang
from fairlead.scheduler.order_heaps import precedes
from fairlead.scheduler.parked_lines import (
    FEW_FRESH,
    MANY_PARKED,
    first_parked,
    grow_trees,
    rank_queues,
    sink_queue,
)
from fairlead.scheduler.policies import FIFO
from fairlead.scheduler.queues import count_held, enqueue, is_before, next_queue, rerank
from fairlead.scheduler.records import NONE, Core, Switch
from fairlead.scheduler.servers import end_round, note_freed, wake_for_fresh
from fairlead.scheduler.spare_rows import free_group, free_task, row_for_group, row_for_task
from fairlead.scheduler.waiting import block, leave_line, line_up, park, stand, step_out

SERVER_BITS = 32


@entry_kernel
def place(core: Core, index: Index, gangs: Switch, trees: Switch, limit: int, out: IntArray) -> int:
    """Place tasks until nothing more fits or the limit is reached; return how many.

    `out` receives the numbers of the tasks in their order. A gang is placed whole, beyond the limit
    too; it stops short of one for which there is no room in `out` or the rows of tasks, `lacking`.
    """
    n, numbers, parked = 0, core.numbers[0], NONE
    numbers.lacking = 0
    if gangs is not None:
        hearten_gangs(core)  # 1. who is woken by what was freed
    looks_up = has_ranks = False
    if trees is not None:
        looks_up = _looks_up(core)
        has_ranks = looks_up and numbers.fresh > 0
        if has_ranks:
            rank_queues(core)
    if not looks_up:
        wake_for_fresh(core, trees)
    is_known = not looks_up
    while n < limit:
        if trees is not None and not is_known:  # or who would be, and is served first
            parked, is_known = first_parked(core), True
        if numbers.turn == 0 and parked == NONE:
            end_round(core)
            break
        is_parked = False
        if trees is not None and parked != NONE:
            is_parked = numbers.turn == 0 or _passes(core, parked)
        number = parked
        if not is_parked:
            q = next_queue(core)  # 2. whose turn it is
            number = core.queues[q].first  # 3. what: the first group of its first line
        k = core.lines[number].task_shape
        if gangs is not None and k == NONE:  # a gang, all of it or nothing
            end = try_first(core, index, None, None, number, out, n)  # 4. where, task by task
            if numbers.lacking > 0:
                break
            if end > n:
                q = core.lines[number].queue
                n = book_gang(core, gangs, trees, core.lines[number].first, out, n, end)  # 5. book
                is_known = not looks_up
                if trees is not None and has_ranks:
                    sink_queue(core, q)
            continue
        if is_parked:
            core.shapes[k].woken_in = numbers.epoch  # what it fits on is fresh
        s = NONE
        if is_parked or not core.shapes[k].blocked:
            s = find(core, index, k)  # 4. where
            if s == NONE:
                block(core, k)
        elif looks_up:
            is_known = False
        if s == NONE:
            park(core, number, trees)
            continue
        q = core.lines[number].queue
        out[n] = start(core, index, None, gangs, trees, core.lines[number].first, s)  # 5. book
        n += 1
        is_known = not looks_up
        if trees is not None and has_ranks:
            sink_queue(core, q)
    return n


@inner_kernel
def _looks_up(core: Core) -> bool:
    """Return whether parked lines are looked up instead of woken; all exact, a matter of speed."""
    numbers = core.numbers[0]
    many = MANY_PARKED // 2 if numbers.has_trees else MANY_PARKED
    if numbers.strict or numbers.has_depth or numbers.parked <= many:
        numbers.has_trees = 0
        return False
    if numbers.fresh > FEW_FRESH:
        return False
    if numbers.fresh > 0 and not numbers.has_trees:
        grow_trees(core)
    return True


@inner_kernel
def _passes(core: Core, number: int) -> bool:
    """Return whether a parked line is served before all that stand."""
    q, its = core.turn[0], core.lines[number].queue
    if q == its:
        return precedes(core.line_node, number, core.queues[q].first)
    return is_before(core, its, q)


@inner_kernel
def start(
    core: Core, index: Index, at_hand: Kept, gangs: Switch, trees: Switch, g: int, s: int
) -> int:
    """Have a waiting task of a group run on a server, and return its number.

    Where tasks have no rows, it is that of the group, above `SERVER_BITS` for that of the server.
    """
    change_free(core, index, at_hand, core.lines[core.groups[g].line].task_shape, s, -1)
    return _book(core, gangs, trees, g, s)


@separate_kernel
def book_gang(
    core: Core, gangs: Switch, trees: Switch, gang: int, out: IntArray, n: int, end: int
) -> int:
    """Have a gang's tasks run on the servers in `out`, if any; the trial took the amounts."""
    g = gang
    while n < end:
        while core.groups[g].waiting == 0:
            g = core.groups[g].member
        out[n] = _book(core, gangs, trees, g, out[n])
        n += 1
    return n


@inner_kernel
def _book(core: Core, gangs: Switch, trees: Switch, g: int, s: int) -> int:
    """Note that a waiting task of a group runs on a server, which it was taken from."""
    group = core.groups[g]
    line = core.lines[group.line]
    t = g << SERVER_BITS | s
    if core.numbers[0].keeps_tasks:
        t = _run_task(core, g, s)
    line.running += 1
    count_held(core, line.queue, line.task_shape, 1)
    group.waiting -= 1
    line.waiting -= 1
    core.queues[line.queue].waiting -= 1
    if group.waiting == 0:
        leave_line(core, g, gangs, trees)
    rerank(core, line.queue)
    return int(t)


@inner_kernel
def _run_task(core: Core, g: int, s: int) -> int:
    """Have a task of a group run on a server, in the lists of both, and return its number."""
    numbers, group, server = core.numbers[0], core.groups[g], core.servers[s]
    t = group.ended
    if t != NONE:  # one that ran before
        group.ended = core.tasks[t].after
    else:
        t = row_for_task(core)
        core.tasks[t].group, core.tasks[t].index, core.tasks[t].attempt = g, group.fresh, 0
        group.fresh += 1
    task = core.tasks[t]
    task.server, task.started, task.runs = s, numbers.started, True
    task.since = numbers.now
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
    return int(t)


@entry_kernel
def stop(
    core: Core, index: Index, at_hand: Kept, gangs: Switch, trees: Switch, t: int, again: bool
) -> None:
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
    change_free(core, index, at_hand, line.task_shape, s, 1)
    count_held(core, line.queue, line.task_shape, -1)
    if again:
        _return(core, t)
        _wait(core, g, 1, gangs, trees)
    else:
        free_task(core, t)
        _forget_ended(core, g, gangs)
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
def _wait(core: Core, g: int, tasks: int, gangs: Switch, trees: Switch) -> None:
    """Have more tasks of a group wait."""
    numbers, group = core.numbers[0], core.groups[g]
    queue = core.queues[core.lines[group.line].queue]
    group.waiting += tasks
    core.lines[group.line].waiting += tasks
    queue.waiting += tasks
    numbers.revivals += 1
    numbers.moment += 1
    queue.revived_at = numbers.moment  # what it declined before it hears of again
    if group.waiting == tasks:
        _line_up(core, g, gangs, trees)
    if gangs is not None and numbers.criterion == FIFO and group.gang != NONE:
        _doubt_gang(core, group.gang)


@inner_kernel
def _line_up(core: Core, g: int, gangs: Switch, trees: Switch) -> None:
    """Have a group stand in its line; under fifo one that nothing open takes is parked at once."""
    line_up(core, g, gangs, trees)
    line = core.lines[core.groups[g].line]
    is_lost = core.numbers[0].criterion == FIFO and not core.shapes[line.task_shape].able
    if is_lost and core.groups[g].gang == NONE:
        if not core.shapes[line.task_shape].blocked:
            block(core, line.task_shape)
        if not line.parked:
            park(core, core.groups[g].line, trees)


@separate_kernel
def _doubt_gang(core: Core, gang: int) -> None:
    """Under fifo, take in that other tasks of a gang wait than before."""
    core.groups[gang].known = NONE
    if core.lines[core.groups[gang].own].parked:
        wake_gang(core, gang)
    rerank(core, core.lines[core.groups[gang].line].queue)


@inner_kernel
def _forget_ended(core: Core, g: int, gangs: Switch) -> None:
    """Have a group make room, or its gang, once nothing of it waits or runs."""
    group = core.groups[g]
    if gangs is not None and group.gang != NONE:
        _forget_gang(core, group.gang)
    elif group.waiting == 0 and group.running == 0:
        free_group(core, g)


@separate_kernel
def _forget_gang(core: Core, gang: int) -> None:
    """Have a gang make room, with its line, once nothing of it waits or runs."""
    numbers, g, number = core.numbers[0], gang, core.groups[gang].own
    while g != NONE:
        if core.groups[g].waiting > 0 or core.groups[g].running > 0:
            return
        g = core.groups[g].member
    if core.lines[number].parked:
        unpark_gang(core, gang)
    core.lines[number].queue, numbers.spare_line = numbers.spare_line, number
    g = gang
    while g != NONE:
        member = core.groups[g].member
        free_group(core, g)
        g = member


@entry_kernel
def submit(
    core: Core, trees: Switch, number: int, tasks: int, rank: int, time: float, serial: int
) -> int:
    """Have a group of tasks wait in a line, and return its number."""
    g = row_for_group(core)
    group, node = core.groups[g], core.group_node[g]
    group.line, group.over, group.fresh = number, False, 0
    group.waiting, group.running, group.ended, group.tasks = 0, 0, NONE, NONE
    group.gang = group.member = NONE
    node.rank, node.time, node.serial = rank, time, serial
    _wait(core, g, tasks, None, trees)
    if core.numbers[0].criterion == FIFO:
        rerank(core, core.lines[number].queue)
    return int(g)


@entry_kernel
def submit_member(
    core: Core,
    trees: Switch,
    number: int,
    tasks: int,
    gang: int,
    own: int,
    fresh: int,
    key: tuple[int, float, int],
) -> int:
    """Have one more group of a gang wait, or the first; return its number.

    Given the line of its shape, the gang, or NONE, and its line, the index of its first task, and
    by what the gang is ordered.
    """
    g = row_for_group(core)
    group, node = core.groups[g], core.group_node[g]
    group.line, group.over, group.fresh = number, False, fresh
    group.waiting, group.running, group.ended, group.tasks = 0, 0, NONE, NONE
    group.gang, group.member, group.own = g if gang == NONE else gang, NONE, own
    node.rank, node.time, node.serial = key
    node.child = node.sibling = node.before = NONE
    before = group.gang
    while before != g and core.groups[before].member != NONE:
        before = core.groups[before].member
    if before != g:
        core.groups[before].member = g
    _wait(core, g, tasks, 1, trees)
    return int(g)


@entry_kernel
def drop(core: Core, gangs: Switch, trees: Switch, g: int) -> None:
    """Have no task of a group, or a gang, wait any more."""
    member = g
    while member != NONE:
        group = core.groups[member]
        line = core.lines[group.line]
        line.waiting -= group.waiting
        core.queues[line.queue].waiting -= group.waiting
        if group.waiting > 0:
            group.waiting = 0
            leave_line(core, member, gangs, trees)
            if core.numbers[0].criterion == FIFO:
                rerank(core, line.queue)
        while group.ended != NONE:
            t = group.ended
            group.ended = core.tasks[t].after
            free_task(core, t)
        group.over = True
        member = group.member
    _forget_ended(core, g, gangs)


@entry_kernel
def reorder(core: Core, gangs: Switch, trees: Switch, g: int, rank: int) -> None:
    """Put what waits of a group, or a gang, elsewhere in the order of its queue."""
    group = core.groups[g]
    if gangs is not None and group.gang != NONE:
        _reorder_gang(core, g, rank)
    elif group.waiting > 0:
        leave_line(core, g, gangs, trees)
        core.group_node[g].rank = rank
        _line_up(core, g, gangs, trees)
    else:
        core.group_node[g].rank = rank
    if core.numbers[0].criterion == FIFO:
        rerank(core, core.lines[group.line].queue)


@separate_kernel
def _reorder_gang(core: Core, gang: int, rank: int) -> None:
    """Put a gang elsewhere in the order of its queue."""
    number = core.groups[gang].own
    line, numbers, g = core.lines[number], core.numbers[0], gang
    stands = line.first != NONE and (not line.parked or numbers.strict)
    if stands:
        step_out(core, number)
    while g != NONE:
        core.group_node[g].rank = rank
        g = core.groups[g].member
    if stands:
        stand(core, number)
        numbers.news += 1
        enqueue(core, line.queue)


@entry_kernel
def assume(core: Core, index: Index, at_hand: Kept, trees: Switch, g: int, s: int) -> int:
    """Have a waiting task of a group run on a server, whatever fits there."""
    core.numbers[0].changed = 1
    return start(core, index, at_hand, None, trees, g, s)


@entry_kernel
def assume_of_gang(core: Core, index: Index, at_hand: Kept, trees: Switch, g: int, s: int) -> int:
    """Have a waiting task of a gang run on a server; the rest, which is less, is tried again."""
    core.numbers[0].changed = 1
    t = start(core, index, at_hand, 1, trees, g, s)
    gang = core.groups[g].gang
    if core.numbers[0].criterion == FIFO:
        _doubt_gang(core, gang)
    elif core.lines[core.groups[gang].own].parked:
        stand_again(core, gang, False)
    return int(t)


@entry_kernel
def hear(core: Core) -> None:
    """Tell gangs what was freed, before it is taken otherwise or more of them waits."""
    hearten_gangs(core)


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
def change_server(core: Core, index: Index, at_hand: Kept, s: int, opened: bool) -> None:
    """Take in that a server opens, or (before that changes anything else) closes."""
    if at_hand is not None:
        before_opening(index, at_hand.ratios, s)
    if index is not None:
        leave(core, index, s)
    core.servers[s].open = opened
    core.numbers[0].changed = 1
    if opened:
        if index is not None:
            enter(core, index, s)
        note_freed(core, s)
    if at_hand is not None:
        note_opening(core, index, at_hand, at_hand.tree, at_hand.ratios, s)


@entry_kernel
def enter_all(core: Core, index: Index) -> None:
    """Put all open servers into an index that has none."""
    for position in range(core.numbers[0].servers):
        s = core.sequence[position]
        node = core.server_node[s]
        node.child = node.sibling = node.before = NONE
        enter(core, index, s)

"""What waits: groups in lines, lines in queues, and lines parked until something is freed.

The groups of one shape in one queue stand in a line. A queue has a heap of the lines that may have
a task to place, by their first groups. Where a shape fits nowhere, its lines are parked when they
come first; once a server is freed that takes one of its tasks, they stand in their queues again.
A gang stands in a line of its own, and its groups in none; who wakes it is in `gang_waiting`.
"""

from __future__ import annotations

from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.scheduler.order_heaps import add_node, take_node
from fairlead.scheduler.parked_lines import add_to_tree, take_from_tree
from fairlead.scheduler.queues import dequeue, enqueue, rehead
from fairlead.scheduler.records import NONE, Core, Switch


@inner_kernel
def stand(core: Core, line: int) -> None:
    """Put a line into its queue's heap, where its first group belongs."""
    node, first = core.line_node[line], core.group_node[core.lines[line].first]
    node.rank, node.time, node.serial = first.rank, first.time, first.serial
    queue = core.queues[core.lines[line].queue]
    queue.first = add_node(core.line_node, queue.first, line)


@inner_kernel
def step_out(core: Core, line: int) -> None:
    """Take a line out of its queue's heap."""
    queue = core.queues[core.lines[line].queue]
    queue.first = take_node(core.line_node, queue.first, line)


@separate_kernel
def line_up(core: Core, g: int, gangs: Switch, trees: Switch) -> None:
    """Have a group wait in its line, whose queue takes its turn."""
    if gangs is not None and core.groups[g].gang != NONE:
        _line_gang_up(core, core.groups[g].gang)
        return
    number = core.groups[g].line
    line = core.lines[number]
    before = line.first
    line.first = add_node(core.group_node, before, g)
    if line.first == before:
        return
    if line.parked and not core.numbers[0].strict:
        if trees is not None and core.numbers[0].has_trees:
            take_from_tree(core, number)
            add_to_tree(core, number)
        return
    core.numbers[0].news += 1
    if before != NONE:
        step_out(core, number)
    stand(core, number)
    enqueue(core, line.queue)
    rehead(core, line.queue)


@separate_kernel
def leave_line(core: Core, g: int, gangs: Switch, trees: Switch) -> None:
    """Have a group wait no longer."""
    if gangs is not None and core.groups[g].gang != NONE:
        _leave_as_gang(core, core.groups[g].gang)
        return
    number = core.groups[g].line
    line = core.lines[number]
    before = line.first
    line.first = take_node(core.group_node, before, g)
    if line.first == before:
        return
    if line.parked and (line.first == NONE or core.numbers[0].strict):
        _unpark(core, number, trees)
        if not core.numbers[0].strict:
            return
    elif line.parked:
        if trees is not None and core.numbers[0].has_trees:
            take_from_tree(core, number)
            add_to_tree(core, number)
        return
    step_out(core, number)
    if line.first != NONE:
        stand(core, number)
    if core.queues[line.queue].first == NONE:
        dequeue(core, line.queue)
    else:  # under strict order, whatever is first now was behind what left
        core.numbers[0].news += core.numbers[0].strict
        enqueue(core, line.queue)
        rehead(core, line.queue)


@inner_kernel
def _line_gang_up(core: Core, gang: int) -> None:
    """Have a gang with a task that waits stand in its line, unless it does."""
    number = core.groups[gang].own
    line = core.lines[number]
    if line.first == NONE:
        line.first = gang
        if not line.parked or core.numbers[0].strict:
            stand(core, number)
            enqueue(core, line.queue)


@inner_kernel
def _leave_as_gang(core: Core, gang: int) -> None:
    """Have a gang stand in no line, unless something of it waits."""
    number = core.groups[gang].own
    line = core.lines[number]
    if waiting_of_gang(core, gang) > 0:
        return
    line.first = NONE
    if line.parked and not core.numbers[0].strict:
        return
    step_out(core, number)
    if core.queues[line.queue].first == NONE:
        dequeue(core, line.queue)
    else:
        enqueue(core, line.queue)


@inner_kernel
def waiting_of_gang(core: Core, gang: int) -> int:
    """Return how many tasks of a gang wait."""
    waiting = 0
    while gang != NONE:
        waiting += core.groups[gang].waiting
        gang = core.groups[gang].member
    return waiting


@inner_kernel
def shape_at_hand(core: Core, gangs: Switch, number: int) -> int:
    """Return the shape of the first task of a line, or of its gang."""
    line = core.lines[number]
    if gangs is not None and line.task_shape == NONE:
        g = line.first
        while core.groups[g].waiting == 0:
            g = core.groups[g].member
        return int(core.lines[core.groups[g].line].task_shape)
    return int(line.task_shape)


@inner_kernel
def park(core: Core, number: int, trees: Switch) -> None:
    """Have the first line of a queue wait until its shape is woken."""
    line = core.lines[number]
    if not line.parked:
        list_parked(core, number)
    if core.numbers[0].strict:  # nothing passes over it
        dequeue(core, line.queue)
        return
    step_out(core, number)
    if trees is not None and core.numbers[0].has_trees:
        add_to_tree(core, number)
    if core.queues[line.queue].first == NONE:
        dequeue(core, line.queue)
    else:
        rehead(core, line.queue)


@inner_kernel
def list_parked(core: Core, number: int) -> None:
    """Put a line into the list of those that wait until its shape is woken."""
    line = core.lines[number]
    shape = core.shapes[line.task_shape]
    line.parked, line.parked_before, line.parked_after = True, NONE, shape.parked
    if shape.parked != NONE:
        core.lines[shape.parked].parked_before = number
    shape.parked = number
    core.numbers[0].parked += 1


@inner_kernel
def _unpark(core: Core, number: int, trees: Switch) -> None:
    line, shape = core.lines[number], core.shapes[core.lines[number].task_shape]
    line.parked = False
    core.numbers[0].parked -= 1
    if trees is not None and core.numbers[0].has_trees:
        take_from_tree(core, number)
    if line.parked_before == NONE:
        shape.parked = line.parked_after
    else:
        core.lines[line.parked_before].parked_after = line.parked_after
    if line.parked_after != NONE:
        core.lines[line.parked_after].parked_before = line.parked_before
    if shape.parked == NONE and shape.blocked:  # nobody is left to be looked up for it
        _unblock(core, line.task_shape)


@inner_kernel
def _unblock(core: Core, k: int) -> None:
    numbers, shape = core.numbers[0], core.shapes[k]
    shape.blocked = False
    numbers.blocked -= 1
    last = core.blocked[numbers.blocked]
    core.blocked[shape.blocked_at] = last
    core.shapes[last].blocked_at = shape.blocked_at


@inner_kernel
def block(core: Core, k: int) -> None:
    """Note that no task of a shape fits anywhere."""
    numbers, shape = core.numbers[0], core.shapes[k]
    shape.blocked, shape.blocked_at = True, numbers.blocked
    core.blocked[numbers.blocked] = k
    numbers.blocked += 1


@separate_kernel
def wake(core: Core, k: int, trees: Switch) -> None:
    """Have the parked lines of a shape stand in their queues again."""
    numbers, shape = core.numbers[0], core.shapes[k]
    _unblock(core, k)
    while shape.parked != NONE:
        number = shape.parked
        _unpark(core, number, trees)
        if not numbers.strict:
            stand(core, number)
        enqueue(core, core.lines[number].queue)
        rehead(core, core.lines[number].queue)

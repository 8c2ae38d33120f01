"""Rows for groups and tasks: those that are spare again, the last one first, then new ones."""

from __future__ import annotations

from fairlead.optimize.compiling import inner_kernel
from fairlead.scheduler.records import NONE, Core


@inner_kernel
def row_for_group(core: Core) -> int:
    """Return a row for a group."""
    numbers = core.numbers[0]
    g = numbers.spare_group
    if g == NONE:
        g = numbers.groups
        numbers.groups += 1
    else:
        numbers.spare_group = core.groups[g].line
    return int(g)


@inner_kernel
def free_group(core: Core, g: int) -> None:
    """Free the row of a group, and zero it; nothing is its gang."""
    group, node = core.groups[g], core.group_node[g]
    group.fresh = group.ended = group.tasks = group.own = node.rank = node.serial = 0
    group.watched_before = group.watched_after = 0
    group.gang = group.member = NONE
    group.over, node.time, group.limit = False, 0.0, 0.0
    group.generation += 1
    group.line, core.numbers[0].spare_group = core.numbers[0].spare_group, g


@inner_kernel
def has_groups(core: Core, groups: int) -> bool:
    """Return whether there are rows for a number of more groups. O(groups)."""
    numbers = core.numbers[0]
    lacking, g = groups - (core.groups.size - numbers.groups), numbers.spare_group
    while lacking > 0 and g != NONE:
        lacking -= 1
        g = core.groups[g].line
    return bool(lacking <= 0)


@inner_kernel
def has_line(core: Core) -> bool:
    """Return whether there is a row for one more line."""
    numbers = core.numbers[0]
    return bool(numbers.spare_line != NONE or numbers.lines < core.lines.size)


@inner_kernel
def row_for_line(core: Core) -> int:
    """Return a row for the line of a gang."""
    numbers = core.numbers[0]
    number = numbers.spare_line
    if number == NONE:
        number = numbers.lines
        numbers.lines += 1
    else:
        numbers.spare_line = core.lines[number].queue
    return int(number)


@inner_kernel
def row_for_task(core: Core) -> int:
    """Return a row for a task."""
    numbers = core.numbers[0]
    t = numbers.spare_task
    if t == NONE:
        t = numbers.tasks
        numbers.tasks += 1
    else:
        numbers.spare_task = core.tasks[t].after
        numbers.spare_tasks -= 1
    return int(t)


@inner_kernel
def free_task(core: Core, t: int) -> None:
    """Free the row of a task, and zero it."""
    task = core.tasks[t]
    task.group = task.server = task.index = task.attempt = task.started = 0
    task.before = task.older = task.newer = 0
    task.since = 0.0
    task.after, core.numbers[0].spare_task = core.numbers[0].spare_task, t
    core.numbers[0].spare_tasks += 1


@inner_kernel
def task_rows(core: Core) -> int:
    """Return how many more tasks have rows."""
    numbers = core.numbers[0]
    return int(core.tasks.size - numbers.tasks + numbers.spare_tasks)

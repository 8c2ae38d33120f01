"""Gangs that failed: who waits for what, and when they are tried again.

A gang that failed is parked, and its groups watch their shapes. Once a server is freed that takes
one of its waiting tasks, or one of them was found running, it stands in its queue again; but not
while servers, counted for each of its shapes alone, have no room for what waits of it.
"""

from __future__ import annotations

from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.scheduler.arguments import LARGEST
from fairlead.scheduler.queues import dequeue, enqueue
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.servers import may_take
from fairlead.scheduler.waiting import stand, step_out


@separate_kernel
def park_gang(core: Core, gang: int) -> None:
    """Have a gang that failed, the first of its queue, wait until there may be room."""
    line = core.lines[core.groups[gang].own]
    line.parked = True
    if not core.numbers[0].strict:
        step_out(core, core.groups[gang].own)
    if core.numbers[0].strict or core.queues[line.queue].first == NONE:
        dequeue(core, line.queue)
    watch(core, gang)


@inner_kernel
def watch(core: Core, gang: int) -> None:
    """Have the groups of a gang that is parked watch their shapes."""
    g = gang
    while g != NONE:
        _watch(core, g)
        g = core.groups[g].member


@inner_kernel
def _watch(core: Core, g: int) -> None:
    """Have a group of a gang that is parked watch its shape."""
    numbers, group = core.numbers[0], core.groups[g]
    k = core.lines[group.line].task_shape
    shape = core.shapes[k]
    if shape.watchers == NONE:
        shape.room, shape.counted = LARGEST, NONE
        shape.watched_at = numbers.watched
        core.watched[numbers.watched] = k
        numbers.watched += 1
    else:
        core.groups[shape.watchers].watched_before = g
    group.watched_before, group.watched_after = NONE, shape.watchers
    shape.watchers = g


@separate_kernel
def unpark_gang(core: Core, gang: int) -> None:
    """Have the groups of a gang watch no more."""
    numbers = core.numbers[0]
    core.lines[core.groups[gang].own].parked = False
    g = gang
    while g != NONE:
        group = core.groups[g]
        shape = core.shapes[core.lines[group.line].task_shape]
        if group.watched_before == NONE:
            shape.watchers = group.watched_after
        else:
            core.groups[group.watched_before].watched_after = group.watched_after
        if group.watched_after != NONE:
            core.groups[group.watched_after].watched_before = group.watched_before
        if shape.watchers == NONE:
            numbers.watched -= 1
            last = core.watched[numbers.watched]
            core.watched[shape.watched_at] = last
            core.shapes[last].watched_at = shape.watched_at
        g = group.member


@inner_kernel
def tasks_that_fit(core: Core, k: int, s: int) -> int:
    """Return how many tasks of a shape a server takes."""
    tasks = 0
    if may_take(core, k, s):
        tasks = LARGEST
        for r in range(core.free.shape[1]):
            if core.demand[k, r] > 0:
                tasks = min(tasks, core.free[s, r] // core.demand[k, r])
    return tasks


@separate_kernel
def _count_room(core: Core, k: int) -> int:
    """Return how many tasks of a shape all servers take, each alone. O(S R)."""
    tasks = 0
    for position in range(core.numbers[0].servers):
        tasks += tasks_that_fit(core, k, core.sequence[position])
    return tasks


@separate_kernel
def has_room(core: Core, gang: int, watched: bool) -> bool:
    """Return whether servers have room for the waiting tasks of each shape of a gang.

    Where its shapes are watched, they are counted only when they may suffice.
    """
    g = gang
    while watched and g != NONE:
        group = core.groups[g]
        if core.shapes[core.lines[group.line].task_shape].room < group.waiting:
            return False
        g = group.member
    g = gang
    while g != NONE:
        group = core.groups[g]
        k = core.lines[group.line].task_shape
        shape = core.shapes[k]
        if not watched or shape.counted != core.numbers[0].moment:
            shape.room, shape.counted = _count_room(core, k), core.numbers[0].moment
        if shape.room < group.waiting:
            return False
        g = group.member
    return True


@inner_kernel
def stand_again(core: Core, gang: int, counted: bool) -> None:
    """Have a gang that is parked be tried again, if there is room for each of its shapes.

    `counted`: what was counted at this moment is still so.
    """
    if has_room(core, gang, counted):
        wake_gang(core, gang)


@inner_kernel
def wake_gang(core: Core, gang: int) -> None:
    """Have a gang that is parked stand in its queue again, if anything of it waits."""
    unpark_gang(core, gang)
    number = core.groups[gang].own
    line = core.lines[number]
    if line.first != NONE:
        if not core.numbers[0].strict:
            stand(core, number)
        enqueue(core, line.queue)


@separate_kernel
def hearten_gangs(core: Core) -> None:
    """Tell gangs that are parked what was freed since they were told last.

    To be called before anything that was freed is taken again. O(shapes and groups that watch), and
    O(S) for a shape whose room may suffice and was not counted since so much was freed.
    """
    numbers = core.numbers[0]
    if numbers.heard == numbers.moment:
        return
    for w in range(numbers.watched):
        k = core.watched[w]
        shape, gained = core.shapes[k], 0
        for f in range(numbers.fresh):
            s = core.fresh[f]
            if core.servers[s].freed_at >= numbers.heard:
                gained += tasks_that_fit(core, k, s)
        if gained > 0:
            shape.gained = numbers.moment
            shape.room = LARGEST if shape.room > LARGEST - gained else shape.room + gained
    numbers.heard = numbers.moment
    w = numbers.watched - 1
    while w >= 0:  # the list grows shorter meanwhile: later ones move to earlier places
        if w < numbers.watched and core.shapes[core.watched[w]].gained == numbers.moment:
            g = core.shapes[core.watched[w]].watchers
            while g != NONE:
                gang, waiting = core.groups[g].gang, 0
                while g != NONE and core.groups[g].gang == gang:  # all of it may leave
                    waiting += core.groups[g].waiting
                    g = core.groups[g].watched_after
                if waiting > 0:
                    stand_again(core, gang, True)
        w -= 1

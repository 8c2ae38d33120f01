"""The waiting groups of a queue: which is first, and which are parked until a server is freed.

A line without room on any open server is parked. Only a server that is freed later can change that,
so a parked line is compared with freed servers alone. Once no waiting task fits on them, no server
counts as freed any more.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace

from librt.vecs import append, pop, vec
from mypy_extensions import i64

from fairlead.scheduler._entities import (
    Gang,
    Line,
    Order,
    Queue,
    Server,
    Shape,
    TaskGroup,
    has_room,
    less_than_any,
)


class FreedServers:
    """Servers with more free than when parked lines were last compared with them.

    Some may have been closed since.
    """

    def __init__(self, width: i64) -> None:
        self.width = width
        self.servers: list[Server] = []
        self.most = less_than_any(width)  # (W,) at least the free amounts of any of them

    def add(self, server: Server) -> None:
        """Add a server, or take in its larger free amounts."""
        if not server.is_freed:
            server.is_freed = True
            self.servers.append(server)
        for r in range(self.width):
            self.most[r] = max(self.most[r], server.free[r])

    def tighten(self) -> None:
        """Find the largest free amounts, after a task started on one of them."""
        most = less_than_any(self.width)
        for server in self.servers:
            for r in range(self.width):
                most[r] = max(most[r], server.free[r])
        self.most = most

    def clear(self) -> None:
        for server in self.servers:
            server.is_freed = False
        self.servers = []
        self.most = less_than_any(self.width)

    def may_have_room(self, needs: vec[i64], at: i64) -> bool:
        """Return whether one of them has as much free as a packed need, from an index on."""
        width = self.width
        for server in self.servers:
            free = server.free
            r: i64 = 0
            while r < width and needs[at + r] <= free[r]:
                r += 1
            if r == width:
                return True
        return False

    def has_room(self, shape: Shape) -> bool:
        for server in self.servers:  # noqa: SIM110 (a loop that is compiled)
            if has_room(server, shape):
                return True
        return False


def activate(line: Line) -> None:
    """Give a line that is not parked its place among the active ones.

    A parked gang stays parked: its line may be among the oversized ones since it was parked.
    """
    group = line.first()
    if group is None or (isinstance(group, Gang) and group.is_parked):
        return
    before = line.active_order
    if before is None or group.order < before:
        line.active_order = group.order
        queue = line.queue
        heappush(queue.active, (group.order, line))
        if len(queue.active) > queue.most_active:
            drop_stale(queue)


def drop_stale(queue: Queue) -> None:
    """Drop stale entries of active lines; entries may double before the next time."""
    queue.active = sorted([entry for entry in queue.active if entry[1].active_order == entry[0]])
    queue.most_active = 2 * len(queue.active) + 64


def is_valid(entry: tuple[Order, Line]) -> bool:
    """Return whether an entry of an active line is the current one of that line."""
    order, line = entry
    return line.active_order is order or line.active_order == order


def first_active(queue: Queue) -> TaskGroup | None:
    """Return the first group among the active lines."""
    active = queue.active
    while active:
        order, line = active[0]
        if line.active_order is not order and line.active_order != order:
            heappop(active)
            continue
        group = line.first()
        if group is None:
            heappop(active)
            line.active_order = None
        elif group.order != order:
            line.active_order = group.order
            heapreplace(active, (group.order, line))
        else:
            return group
    return None


def park(line: Line) -> None:
    """Pass a line over until a server with room for it is freed."""
    queue = line.queue
    line.active_order = None
    shape = line.shape
    assert shape is not None
    line.row = len(queue.parked)
    queue.parked.append(line)
    needs = queue.needs
    for amount in shape.need:
        needs = append(needs, amount)
    queue.needs = needs


def unpark(line: Line) -> None:
    """Remove a line from the parked ones; the last one takes its row."""
    queue = line.queue
    shape = line.shape
    assert shape is not None
    width: i64 = len(shape.need)
    last = queue.parked.pop()
    needs = queue.needs
    at: i64 = len(queue.parked) * width
    if last is not line:
        queue.parked[line.row] = last
        last.row = line.row
        for r in range(width):
            needs[line.row * width + r] = needs[at + r]
    for _ in range(width):
        needs, _amount = pop(needs)
    queue.needs = needs
    line.row = -1


def first_parked(queue: Queue, freed: FreedServers) -> TaskGroup | None:
    """Return the first group among the parked lines that have room on a freed server."""
    width, needs, most = freed.width, queue.needs, freed.most
    first: TaskGroup | None = None
    for row in range(len(queue.parked)):
        at = row * width
        r: i64 = 0
        while r < width and needs[at + r] <= most[r]:
            r += 1
        if r < width or not freed.may_have_room(needs, at):  # before lines are read, which is slow
            continue
        line = queue.parked[row]
        group = line.first()
        if group is None or line.shape is None:
            continue
        if (first is None or group.order < first.order) and freed.has_room(line.shape):
            first = group
    return first


def first_to_try(queue: Queue, freed: FreedServers) -> TaskGroup | None:
    """Return the first group that is not parked, or has room on a freed server."""
    group = first_active(queue)
    if freed.servers:
        parked = first_parked(queue, freed)
        if parked is not None and (group is None or parked.order < group.order):
            return parked
    return group


def active_groups(queue: Queue) -> list[TaskGroup]:
    found: dict[Order, TaskGroup] = {}
    for entry in queue.active:
        if is_valid(entry):
            group = entry[1].first()
            if group is not None:
                found[group.order] = group
    return [found[order] for order in sorted(found)]


def first_waiting(queue: Queue) -> TaskGroup | None:
    """Return the first group with waiting tasks, parked or not. O(lines)."""
    first = first_active(queue)
    for line in queue.lines.values():  # parked lines, and oversized ones
        group = line.first()
        if group is not None and (first is None or group.order < first.order):
            first = group
    for gang in queue.gangs_parked.values():
        if first is None or gang.order < first.order:
            first = gang
    return first


def is_behind_gang(queue: Queue, group: TaskGroup) -> bool:
    """Return whether a parked gang of the queue goes before a group."""
    for gang in queue.gangs_parked.values():  # noqa: SIM110 (a loop that is compiled)
        if gang.order < group.order:
            return True
    return False

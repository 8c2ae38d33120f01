"""The groups that wait in a queue: which goes first, and which have to wait for a server.

A line without room on any open server is parked. Only a server that is freed later can change that,
so a parked line is compared with freed servers alone. Once no waiting task fits on them, no server
counts as freed any more.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace

from librt.vecs import append, pop, vec
from mypy_extensions import i64

from fairlead.scheduler.tables import (
    Gang,
    Line,
    Order,
    Queue,
    Server,
    Shape,
    TaskGroup,
    has_room,
    no_room,
)


class Freed:
    """Servers that have more free than when parked lines were last compared with them.

    Some may have been closed since.
    """

    width: i64
    servers: list[Server]
    most: vec[i64]  # (W,) at least what any of them has free

    def __init__(self, width: i64) -> None:
        self.width = width
        self.servers = []
        self.most = no_room(width)

    def add(self, server: Server) -> None:
        """Add a server, or note that it has more free."""
        if not server.is_freed:
            server.is_freed = True
            self.servers.append(server)
        for r in range(self.width):
            self.most[r] = max(self.most[r], server.free[r])

    def tighten(self) -> None:
        """Find the most that any of them has free, after a task started on one of them."""
        most = no_room(self.width)
        for server in self.servers:
            for r in range(self.width):
                most[r] = max(most[r], server.free[r])
        self.most = most

    def clear(self) -> None:
        """Remove all."""
        for server in self.servers:
            server.is_freed = False
        self.servers = []
        self.most = no_room(self.width)

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
        """Return whether one of them has room."""
        for server in self.servers:  # noqa: SIM110 (a loop that is compiled)
            if has_room(server, shape):
                return True
        return False


def stand(line: Line) -> None:
    """Let a line that is not parked take its place among the standing ones.

    A parked gang stays parked: its line may be among those that had no hope when it was parked.
    """
    group = line.first()
    if group is None or (isinstance(group, Gang) and group.is_parked):
        return
    before = line.stands
    if before is None or group.order < before:
        line.stands = group.order
        queue = line.queue
        heappush(queue.standing, (group.order, line))
        if len(queue.standing) > queue.most_standing:
            drop_stale(queue)


def drop_stale(queue: Queue) -> None:
    """Drop stale entries of standing lines; entries may double before they are looked at again."""
    queue.standing = sorted([entry for entry in queue.standing if entry[1].stands == entry[0]])
    queue.most_standing = 2 * len(queue.standing) + 64


def first_standing(queue: Queue) -> TaskGroup | None:
    """Return the first group among the standing lines."""
    standing = queue.standing
    while standing:
        order, line = standing[0]
        if line.stands is not order and line.stands != order:
            heappop(standing)
            continue
        group = line.first()
        if group is None:
            heappop(standing)
            line.stands = None
        elif group.order != order:
            line.stands = group.order
            heapreplace(standing, (group.order, line))
        else:
            return group
    return None


def park(line: Line) -> None:
    """Pass a line over until a server is freed that has room for it."""
    queue = line.queue
    line.stands = None
    shape = line.shape
    assert shape is not None
    line.row = len(queue.parked)
    queue.parked.append(line)
    needs = queue.needs
    for amount in shape.need:
        needs = append(needs, amount)
    queue.needs = needs


def unpark(line: Line) -> None:
    """Let a line stand again; the last parked one takes its row."""
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


def first_parked(queue: Queue, freed: Freed) -> TaskGroup | None:
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


def first_to_try(queue: Queue, freed: Freed) -> TaskGroup | None:
    """Return the first group that is not parked, or has room on a freed server."""
    group = first_standing(queue)
    if freed.servers:
        parked = first_parked(queue, freed)
        if parked is not None and (group is None or parked.order < group.order):
            return parked
    return group


def standing_groups(queue: Queue) -> list[TaskGroup]:
    """Return the first group of each line that is not parked, in their order. O(lines)."""
    found: dict[Order, TaskGroup] = {}
    for order, line in queue.standing:
        if line.stands is order or line.stands == order:  # others are stale
            group = line.first()
            if group is not None:
                found[group.order] = group
    return [found[order] for order in sorted(found)]


def first_waiting(queue: Queue) -> TaskGroup | None:
    """Return the first group that waits, whether it is parked or not. O(lines)."""
    first = first_standing(queue)
    for line in queue.lines.values():  # parked lines, and those of groups that have no hope
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

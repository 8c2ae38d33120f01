"""The waiting groups of a queue: which is first, and which are parked until a server is freed.

A waiting list whose tasks fit on no open server is parked. Only a server that is freed later can
have room for them, so a parked list is compared with freed servers only. Once no waiting task fits
on these servers, they no longer count as freed.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace

from librt.vecs import append, pop
from mypy_extensions import i64

from fairlead.scheduler._entities import (
    Gang,
    Order,
    Queue,
    Server,
    Shape,
    TaskGroup,
    WaitingList,
    has_room,
    is_at_task_limit,
    less_than_any_need,
    limit_reached,
)


class FreedServers:
    """Servers with larger free amounts than when parked waiting lists were last compared with them.

    Some may be draining by now.
    """

    def __init__(self, width: i64) -> None:
        self.width = width
        self.servers: list[Server] = []
        self.max_free = less_than_any_need(width)  # (C,) an upper bound of their free amounts

    def add(self, server: Server) -> None:
        """Add a server if it is not listed yet, and raise the bound to its free amounts."""
        if not server.is_freed:
            server.is_freed = True
            self.servers.append(server)
        for r in range(self.width):
            self.max_free[r] = max(self.max_free[r], server.free[r])

    def tighten(self) -> None:
        """Recompute the bound after a task started on one of the servers."""
        max_free = less_than_any_need(self.width)
        for server in self.servers:
            for r in range(self.width):
                max_free[r] = max(max_free[r], server.free[r])
        self.max_free = max_free

    def clear(self) -> None:
        for server in self.servers:
            server.is_freed = False
        self.servers = []
        self.max_free = less_than_any_need(self.width)

    def has_room(self, shape: Shape) -> bool:
        for server in self.servers:  # noqa: SIM110 (a loop that is compiled)
            if has_room(server, shape):
                return True
        return False


def activate(waiting_list: WaitingList) -> None:
    """Enter a waiting list in the heap of active ones, at the order of its first group.

    A parked gang stays parked; under fifo, its list may be among the oversized ones by now.
    """
    group = waiting_list.first()
    if group is None or (isinstance(group, Gang) and group.is_parked):
        return
    before = waiting_list.active_order
    if before is None or group.order < before:
        waiting_list.active_order = group.order
        queue = waiting_list.queue
        heappush(queue.active, (group.order, waiting_list))
        if len(queue.active) > queue.max_active:
            drop_stale(queue)


def drop_stale(queue: Queue) -> None:
    """Drop stale entries of `queue.active`; let it double in size before this is done again."""
    queue.active = sorted([entry for entry in queue.active if entry[1].active_order == entry[0]])
    queue.max_active = 2 * len(queue.active) + 64


def is_valid(entry: tuple[Order, WaitingList]) -> bool:
    """Return whether an entry of `queue.active` is valid: the current one of its waiting list."""
    order, waiting_list = entry
    return waiting_list.active_order is order or waiting_list.active_order == order


def hold_back(waiting_list: WaitingList) -> None:
    """Hold back a waiting list whose first group is beyond a limit, until running tasks end."""
    if waiting_list.row >= 0:
        unpark(waiting_list)
    waiting_list.active_order = None
    if not waiting_list.is_held_back:
        waiting_list.is_held_back = True
        waiting_list.queue.held_back.append(waiting_list)


def resume(queue: Queue) -> None:
    """Activate the waiting lists that are within the limits again, if there may be any."""
    if not queue.may_resume:
        return
    queue.may_resume = False
    held_back = queue.held_back
    queue.held_back = []
    for waiting_list in held_back:
        group = waiting_list.first()
        if group is not None and limit_reached(group) is not None:
            queue.held_back.append(waiting_list)
        else:
            waiting_list.is_held_back = False
            activate(waiting_list)


def first_active(queue: Queue) -> TaskGroup | None:
    """Return the first group among the active waiting lists; hold back those beyond a limit."""
    if queue.is_limited and is_at_task_limit(queue):
        return None
    resume(queue)
    active = queue.active
    while active:
        order, waiting_list = active[0]
        # Drop a stale entry. This repeats `is_valid` inline; the comparison of identity is faster.
        if waiting_list.active_order is not order and waiting_list.active_order != order:
            heappop(active)
            continue
        group = waiting_list.first()
        if group is None:
            heappop(active)
            waiting_list.active_order = None
        elif group.order != order:
            waiting_list.active_order = group.order
            heapreplace(active, (group.order, waiting_list))
        elif queue.is_limited and limit_reached(group) is not None:
            heappop(active)
            hold_back(waiting_list)
        else:
            return group
    return None


def park(waiting_list: WaitingList) -> None:
    """Skip a waiting list until a server with room for it is freed."""
    queue = waiting_list.queue
    waiting_list.active_order = None
    shape = waiting_list.shape
    assert shape is not None
    waiting_list.row = len(queue.parked)
    queue.parked.append(waiting_list)
    needs = queue.needs
    for amount in shape.need:
        needs = append(needs, amount)
    queue.needs = needs


def unpark(waiting_list: WaitingList) -> None:
    """Remove a waiting list from the parked ones; the last one takes its row."""
    queue = waiting_list.queue
    shape = waiting_list.shape
    assert shape is not None
    width: i64 = len(shape.need)
    last = queue.parked.pop()
    needs = queue.needs
    at: i64 = len(queue.parked) * width
    if last is not waiting_list:
        queue.parked[waiting_list.row] = last
        last.row = waiting_list.row
        for r in range(width):
            needs[waiting_list.row * width + r] = needs[at + r]
    for _ in range(width):
        needs, _amount = pop(needs)
    queue.needs = needs
    waiting_list.row = -1


def first_parked(queue: Queue, freed: FreedServers) -> TaskGroup | None:
    """Return the first group of the parked waiting lists that fit on a freed server."""
    width, needs, max_free = freed.width, queue.needs, freed.max_free
    first: TaskGroup | None = None
    beyond: list[WaitingList] = []
    for row in range(len(queue.parked)):
        at = row * width
        r: i64 = 0
        while r < width and needs[at + r] <= max_free[r]:
            r += 1
        if r < width:  # checked first, because reading the waiting list is slower
            continue
        waiting_list = queue.parked[row]
        group = waiting_list.first()
        if group is None or waiting_list.shape is None or group.time_limit > queue.longest_limit:
            continue
        if queue.is_limited and limit_reached(group) is not None:
            beyond.append(waiting_list)
        elif (first is None or group.order < first.order) and freed.has_room(waiting_list.shape):
            first = group
    for waiting_list in beyond:
        hold_back(waiting_list)
    return first


def first_to_try(queue: Queue, freed: FreedServers) -> TaskGroup | None:
    """Return the first group in order that is active, or parked but fits on a freed server."""
    group = first_active(queue)
    if freed.servers:
        parked = first_parked(queue, freed)
        if parked is not None and (group is None or parked.order < group.order):
            return parked
    return group


def first_waiting(queue: Queue) -> TaskGroup | None:
    """Return the first group with waiting tasks, of all waiting lists. O(waiting lists)."""
    first: TaskGroup | None = None
    for waiting_list in lists_of(queue):
        group = waiting_list.first()
        if group is not None and (first is None or group.order < first.order):
            first = group
    for gang in queue.gangs_parked.values():
        if first is None or gang.order < first.order:
            first = gang
    return first


def lists_of(queue: Queue) -> list[WaitingList]:
    """Return all waiting lists except those of parked gangs; some occur twice."""
    active = [entry[1] for entry in queue.active]
    return [*queue.waiting_lists.values(), *queue.held_back, *active]


def first_groups(queue: Queue) -> list[TaskGroup]:
    """Return the first group of each waiting list in order, and all gangs. O(waiting lists)."""
    found: dict[int, TaskGroup] = {}
    for waiting_list in lists_of(queue):
        group = waiting_list.first()
        if group is not None:
            found[group.id] = group
    for gang in queue.gangs_parked.values():
        found[gang.id] = gang
    orders = {group.order: group for group in found.values()}
    return [orders[order] for order in sorted(orders)]


def is_behind(queue: Queue, group: TaskGroup) -> bool:
    """Return whether a parked gang, or a group held back by a limit, goes before a group."""
    for gang in queue.gangs_parked.values():
        if gang.order < group.order:
            return True
    for waiting_list in queue.held_back:
        first = waiting_list.first()
        if first is not None and first.order < group.order:
            return True
    return False

"""What queues hold and want, and what can be used, summed for fair shares: one pass over groups.

Tasks of a queue that may run on the same servers and take the same resources are one kind. What can
be used is the capacity of open servers, and on draining servers the amounts that still run there.
"""

from __future__ import annotations

from fairlead.scheduler.state import State
from fairlead.scheduler.tables import Gang, Place, Queue, Server, Shape, TaskGroup

Pattern = tuple[bool, ...]  # which resources a task takes
ServersKey = tuple[int, tuple[int, ...]]  # the number of the kind of servers, and amounts


class TaskKind:
    """Tasks of a queue that may run on the same servers and take the same resources.

    Waiting ones that fit on no open server, even an empty one, do not count.
    """

    queue: Queue
    place: Place
    waiting: int = 0  # tasks
    running: int = 0  # tasks
    wanted: list[float]  # (R,) what waiting tasks take, in quanta, summed as doubles
    held: list[float]  # (R,) what running tasks take, in quanta, summed as doubles

    def __init__(self, queue: Queue, place: Place, resources: int) -> None:
        self.queue = queue
        self.place = place
        self.wanted = [0.0] * resources
        self.held = [0.0] * resources


class UsableServers:
    """Servers that are alike in what can be used of them."""

    kind: int  # the number of their kind, which tells who may use them
    amounts: list[int]  # (R,) what can be used of each, in quanta
    servers: int = 0

    def __init__(self, kind: int, amounts: list[int]) -> None:
        self.kind = kind
        self.amounts = amounts


class Wants:
    """All kinds, and all that can be used."""

    state: State
    resources: int
    by_key: dict[tuple[Queue, Place, Pattern], TaskKind]
    open: dict[ServersKey, UsableServers]  # capacity of open servers
    rest: dict[ServersKey, UsableServers]  # capacity of draining servers
    too_large: int = 0  # tasks that wait and fit on no server, not even an empty one
    kinds: list[TaskKind]
    there: list[UsableServers]  # capacity of all servers
    parts: list[UsableServers]  # all that can be used

    def __init__(self, state: State) -> None:
        self.state = state
        self.resources = int(state.counting.resources)
        self.by_key = {}
        self.open = {}
        self.rest = {}
        for server in state.servers.values():
            table = self.rest if server.is_draining else self.open
            count_part(table, server, list(server.given))
        for group in state.groups.values():
            self.count_group(group)
        self.kinds = list(self.by_key.values())
        self.there = [*self.open.values(), *self.rest.values()]
        self.parts = [*self.open.values(), *self.still_used().values()]

    def still_used(self) -> dict[ServersKey, UsableServers]:
        """Return the amounts that run on draining servers."""
        used: dict[str, list[int]] = {}
        for server in self.state.servers.values():
            if server.is_draining and server.running > 0:
                used[server.name] = [0] * self.resources
        if used:
            for task in self.state.running.values():
                amounts = used.get(task.server.name)
                if amounts is not None:
                    for r in range(self.resources):
                        amounts[r] += int(task.shape.given[r])
        parts: dict[ServersKey, UsableServers] = {}
        for name, amounts in used.items():
            count_part(parts, self.state.servers[name], amounts)
        return parts

    def count_group(self, group: TaskGroup) -> None:
        """Count the tasks of a group."""
        queue = group.line.queue
        if isinstance(group, Gang):
            for index in group.indices():
                self.count_waiting(queue, group.shape_of(index), 1)
            for task in (group.tasks or {}).values():
                self.count_running(queue, task.shape, 1)
            return
        if group.waiting > 0:
            self.count_waiting(queue, group.shape, int(group.waiting))
        if group.tasks is not None:
            self.count_running(queue, group.shape, len(group.tasks))

    def count_waiting(self, queue: Queue, shape: Shape, tasks: int) -> None:
        """Count tasks of a shape that wait."""
        if not has_large(self.open, shape):
            if not has_large(self.rest, shape):
                self.too_large += tasks
            return
        kind = self.kind_of(queue, shape)
        kind.waiting += tasks
        for r in range(self.resources):
            kind.wanted[r] += float(tasks) * float(shape.given[r])

    def count_running(self, queue: Queue, shape: Shape, tasks: int) -> None:
        """Count tasks of a shape that run."""
        kind = self.kind_of(queue, shape)
        kind.running += tasks
        for r in range(self.resources):
            kind.held[r] += float(tasks) * float(shape.given[r])

    def kind_of(self, queue: Queue, shape: Shape) -> TaskKind:
        """Return the kind of a queue's tasks of a shape."""
        key = (queue, shape.place, tuple([amount > 0 for amount in shape.given]))
        kind = self.by_key.get(key)
        if kind is None:
            kind = TaskKind(queue, shape.place, self.resources)
            self.by_key[key] = kind
        return kind


def count_part(parts: dict[ServersKey, UsableServers], server: Server, amounts: list[int]) -> None:
    """Count what there is of a server."""
    key = (int(server.kind), tuple(amounts))
    part = parts.get(key)
    if part is None:
        part = UsableServers(int(server.kind), amounts)
        parts[key] = part
    part.servers += 1


def has_large(parts: dict[ServersKey, UsableServers], shape: Shape) -> bool:
    """Return whether servers, if they were empty, have room for a task."""
    for part in parts.values():
        if shape.place.allowed[part.kind]:
            r = 0
            while r < len(part.amounts) and int(shape.given[r]) <= part.amounts[r]:
                r += 1
            if r == len(part.amounts):
                return True
    return False

"""Held and demanded amounts of queues, and the usable capacity, summed for fair shares.

Usable are the capacity of open servers, and the amounts that tasks still hold on draining ones.
"""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import Constraint, Gang, Queue, Server, Shape, fits
from fairlead.scheduler._state import State

Pattern = tuple[bool, ...]  # (R,) whether a task takes a resource
ServersKey = tuple[int, tuple[int, ...]]  # the number of a kind of servers, and their amounts


class TaskKind:
    """Tasks of a queue with one constraint and one `Pattern`, all waiting or all running.

    Waiting tasks that fit on no open server, not even on an empty one, are left out.
    """

    def __init__(self, queue: Queue, shape: Shape, is_running: bool) -> None:
        self.queue = queue
        self.constraint = shape.constraint
        self.is_running = is_running
        self.tasks = 0  # number of tasks
        self.amounts = [0.0] * len(shape.given)  # (R,) quanta of all tasks, summed as doubles


class UsableServers:
    """Servers of one kind with equal usable amounts: their capacity, or their held amounts."""

    def __init__(self, kind: int, amounts: list[int]) -> None:
        self.kind = kind  # the number of the kind
        self.amounts = amounts  # (R,) of each server, in quanta
        self.servers = 0  # number of servers
        # The amounts as the policy counts them, in slots for instance; None until they are needed.
        self.capacity: vec[i64] | None = None


class Fits:
    """Whether a task fits on some empty open server, and if not, on an empty draining one."""

    def __init__(self, on_open: bool, on_draining: bool) -> None:
        self.on_open = on_open
        self.on_draining = on_draining


class Demands:
    """All kinds of tasks, and all usable capacity. O(groups, servers and running tasks)."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.resources = int(state.counting.resources)
        self.by_key: dict[tuple[Queue, Constraint, Pattern, bool], TaskKind] = {}
        self.open: dict[ServersKey, UsableServers] = {}  # capacity of open servers
        self.draining: dict[ServersKey, UsableServers] = {}  # capacity of draining servers
        self.too_large = 0  # waiting tasks that fit on no server, not even on an empty one
        for server in state.servers.values():
            table = self.draining if server.is_draining else self.open
            count_server(table, server, list(server.given))
        self.fits: dict[Shape, Fits] = {}
        self.count_groups()
        kinds = self.by_key.values()
        # Kinds of waiting tasks first.
        self.kinds = [k for k in kinds if not k.is_running] + [k for k in kinds if k.is_running]
        self.all_servers = [*self.open.values(), *self.draining.values()]
        self.usable = [*self.open.values(), *self.still_used().values()]

    def still_used(self) -> dict[ServersKey, UsableServers]:
        """Return the amounts that tasks hold on draining servers."""
        found: dict[ServersKey, UsableServers] = {}
        servers = [server for server in self.state.servers.values() if server.is_draining]
        held = self.state.held() if servers else {}
        for server in servers:
            if server.running > 0:
                count_server(found, server, held[server.name])
        return found

    def count_groups(self) -> None:
        """Count all tasks, first by queue and shape, because many groups agree in both."""
        waiting: dict[tuple[Queue, Shape], int] = {}
        running: dict[tuple[Queue, Shape], int] = {}
        for group in self.state.groups.values():
            queue = group.waiting_list.queue
            if isinstance(group, Gang):
                for shape, tasks in group.tasks_together().items():
                    self.count_waiting(queue, shape, tasks)
                for task in (group.tasks or {}).values():
                    self.count(queue, task.shape, 1, True)
                continue
            key = (queue, group.shape)
            if (tasks := int(group.waiting)) > 0:
                waiting[key] = waiting.get(key, 0) + tasks
            if group.tasks is not None:
                running[key] = running.get(key, 0) + len(group.tasks)
        for (queue, shape), tasks in waiting.items():
            self.count_waiting(queue, shape, tasks)
        for (queue, shape), tasks in running.items():
            self.count(queue, shape, tasks, True)

    def count_waiting(self, queue: Queue, shape: Shape, tasks: int) -> None:
        """Count waiting tasks if they fit on an open server, or else if they are too large."""
        found = self.fits_of(shape)
        if found.on_open:
            self.count(queue, shape, tasks, False)
        elif not found.on_draining:
            self.too_large += tasks

    def fits_of(self, shape: Shape) -> Fits:
        """Return whether tasks of a shape fit; computed once for each shape."""
        found = self.fits.get(shape)
        if found is None:
            on_open = self.fits_on_some(self.open, shape)
            found = Fits(on_open, not on_open and self.fits_on_some(self.draining, shape))
            self.fits[shape] = found
        return found

    def fits_on_some(self, table: dict[ServersKey, UsableServers], shape: Shape) -> bool:
        """Return whether a task fits, as the policy counts, on one of the servers if empty."""
        for servers in table.values():
            if shape.constraint.admits[servers.kind]:
                if servers.capacity is None:
                    servers.capacity = self.state.counting.of_server(servers.amounts)
                if fits(shape.need, servers.capacity):
                    return True
        return False

    def count(self, queue: Queue, shape: Shape, tasks: int, is_running: bool) -> None:
        """Count tasks in their kind."""
        pattern = tuple([amount > 0 for amount in shape.given])
        key = (queue, shape.constraint, pattern, is_running)
        kind = self.by_key.get(key)
        if kind is None:
            kind = TaskKind(queue, shape, is_running)
            self.by_key[key] = kind
        kind.tasks += tasks
        for r in range(self.resources):
            kind.amounts[r] += float(tasks) * float(shape.given[r])


def unplaceable_groups(state: State, most: int) -> dict[int, str]:
    """Return, by id, groups with waiting tasks that fit on no empty server, with the reason.

    At most `most` of each queue. The reason is ``"where"`` if no server satisfies the constraint,
    else ``"size"``.
    """
    demands = Demands(state)
    of_queue: dict[Queue, int] = {}
    found: dict[int, str] = {}
    for id, group in state.groups.items():
        if group.waiting == 0:
            continue
        queue = group.waiting_list.queue
        for shape in group.tasks_together():
            fitting = demands.fits_of(shape)
            if not (fitting.on_open or fitting.on_draining) and of_queue.get(queue, 0) < most:
                of_queue[queue] = of_queue.get(queue, 0) + 1
                found[id] = "size" if is_allowed(demands.all_servers, shape) else "where"
                break
    return found


def is_allowed(servers: list[UsableServers], shape: Shape) -> bool:
    """Return whether a shape's constraint admits one of the servers."""
    return any(shape.constraint.admits[row.kind] for row in servers)


def count_server(
    table: dict[ServersKey, UsableServers], server: Server, amounts: list[int]
) -> None:
    key = (int(server.kind), tuple(amounts))
    found = table.get(key)
    if found is None:
        found = UsableServers(int(server.kind), amounts)
        table[key] = found
    found.servers += 1

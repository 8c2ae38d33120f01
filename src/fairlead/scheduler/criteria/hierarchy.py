"""Places tasks of a tree of queues by hierarchical DRF; tasks within quotas go first.

From the root down, of the children below which a task can start, the one with the least score is
served. The next start of each leaf is stored. After a start, the served leaf is searched again, and
so are leaves whose next start may no longer fit (all leaves if some quota holds on some servers
only). Only queues above these leaves get new scores, unless other resources are saturated now.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from fairlead.scheduler._cycle import NextStart, QueueCycle
from fairlead.scheduler._entities import (
    Plan,
    Queue,
    Server,
    Shape,
    Starts,
    Task,
    TaskGroup,
    has_room,
    limit_reached,
    path_of,
    sorted_by_serial,
)
from fairlead.scheduler._state import State
from fairlead.scheduler._waiting import first_groups
from fairlead.scheduler.criteria.drf import TreeScores

NO_DEMAND: Final = 2**63  # of a resource that no waiting task demands; more than any amount


class TreeCycle(QueueCycle):
    """Serves trees of queues by hierarchical DRF, and flat queues as `QueueCycle` does."""

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        self.uses_tree = False  # whether there are inner queues or quotas
        # During a call of `place` that uses a tree:
        # Whether some quota holds on some servers only: then the order of queues depends on the
        # servers of the next starts.
        self.depends_on_servers = False
        self.tree = TreeScores(state.criterion.total, state.width)
        self.next_starts: dict[Queue, NextStart] = {}  # of each leaf that can start a task
        # For each leaf, by resource: the smallest positive demand of its waiting tasks.
        self.demands: dict[Queue, list[int]] = {}
        # By resource: the smallest of `demands`; 1 if no waiting task demands the resource.
        self.least_demands: list[int] = []
        # By resource: an open server with at least `least_demands` free; None if it is saturated.
        self.servers_with_room: list[Server | None] = []

    def prepare(self) -> None:
        super().prepare()
        state = self.state
        # More queues than children of the root: some queues are inner ones.
        self.uses_tree = state.root.children < len(state.queues) or state.number_of_quotas > 0
        if self.uses_tree:
            self.find_all_next_starts()

    def find_all_next_starts(self) -> None:
        """Find the next start of each leaf, and compute all scores."""
        state = self.state
        self.tree = TreeScores(state.criterion.total, state.criterion.shared)
        self.next_starts = {}
        self.demands = {}
        self.depends_on_servers = state.has_quotas_on_some()
        for queue in state.queues.values():
            if not queue.children and queue.waiting > 0:
                self.demands[queue] = least_demand(queue, state.width)
                self.find_next_start(queue)
        self.servers_with_room = [None] * int(state.width)
        self.update_least_demands()
        self.update_saturated()
        for queue in sorted_by_serial(state.queues.values(), is_last_first=True):
            self.tree.update(queue)

    def place_next(self, started: list[Task]) -> bool:
        """1. Who: from the root down, start a task of the queue with the least score."""
        if not self.uses_tree:
            return super().place_next(started)
        queue: Queue | None = self.tree.least(self.state.root)
        while queue is not None and queue.children:
            queue = self.tree.least(queue)
        if queue is None:
            return False
        before = len(started)
        is_started = self.start_first(queue, started)
        assert is_started
        self.update(queue, started[before:])
        return True

    def update(self, queue: Queue, tasks: list[Task]) -> None:
        """Update scores after tasks of a queue started; other leaves may have less room now."""
        touched: dict[str, Server] = {}
        for task in tasks:
            touched[task.server.name] = task.server
        changed = [queue]
        for leaf, next_start in list(self.next_starts.items()):
            if leaf is queue or self.depends_on_servers or not still_fits(next_start, touched):
                self.find_next_start(leaf)
                changed.append(leaf)
        if tasks[0].group.waiting == 0:  # else the queue has waiting tasks of the same shapes
            self.demands[queue] = least_demand(queue, self.state.width)
            self.update_least_demands()
        if self.update_saturated():  # scores leave out saturated resources
            changed = list(self.demands)
        above: dict[int, Queue] = {}
        for leaf in changed:
            for node in path_of(leaf):
                above[node.serial] = node
        for serial in sorted(above, reverse=True):  # children first: they are added later
            self.tree.update(above[serial])

    def find_next_start(self, queue: Queue) -> None:
        """Find the next start of a leaf, and update which queues can start a task."""
        group, server, plan = self.find_first(queue)
        if group is not None:
            self.next_starts[queue] = (group, server, plan)
            self.tree.next_shares[queue] = self.tree.next_share(group)
            self.tree.starts[queue] = as_starts(group, server, plan)
        elif queue in self.next_starts:
            del self.next_starts[queue]
        able = self.tree.able
        for node in reversed(path_of(queue)):
            if group is not None:
                able.add(node)
            elif not self.tree.candidates(node):
                able.discard(node)

    def update_least_demands(self) -> None:
        """Compute the smallest waiting demand of each resource, and find a server with it free."""
        least = [NO_DEMAND] * int(self.state.width)
        for demand in self.demands.values():
            least = [min(pair) for pair in zip(least, demand, strict=True)]
        self.least_demands = [1 if amount == NO_DEMAND else amount for amount in least]
        for r in range(self.tree.width):
            self.servers_with_room[r] = self.find_server_with_room(r)

    def find_server_with_room(self, r: i64) -> Server | None:
        """Return the first open server with at least `least_demands` of a resource free."""
        for server in self.state.servers.values():
            if not server.is_draining and server.free[r] >= self.least_demands[r]:
                return server
        return None

    def update_saturated(self) -> bool:
        """Update the saturated resources; return whether they changed.

        Free amounts only fall in a call of `place`, so a server is replaced only when it has too
        little left.
        """
        before = self.tree.saturated[:]
        for r in range(self.tree.width):
            server = self.servers_with_room[r]
            if server is not None and server.free[r] < self.least_demands[r]:
                self.servers_with_room[r] = self.find_server_with_room(r)
            self.tree.saturated[r] = self.servers_with_room[r] is None
        return before != self.tree.saturated


def as_starts(group: TaskGroup, server: Server | None, plan: Plan | None) -> Starts:
    """Return the shapes and servers of a next start, which has either a server or a plan."""
    if server is not None:
        return [(group.shape, server)]
    return [(task.shape, task.server) for task in plan or []]


def still_fits(next_start: NextStart, touched: dict[str, Server]) -> bool:
    """Return whether a next start still fits after tasks started on the servers of `touched`.

    False for a gang, which is always planned anew: its tasks may choose other servers now.
    """
    group, server, _ = next_start
    if group is None or server is None or limit_reached(group) is not None:
        return False
    return server.name not in touched or has_room(server, group.shape)


def least_demand(queue: Queue, width: i64) -> list[int]:
    """Return, by resource, the smallest positive demand of a queue's waiting tasks.

    O(waiting lists).
    """
    least = [NO_DEMAND] * int(width)
    for shape in waiting_shapes(queue):
        for r in range(width):
            if shape.demand[r] > 0:
                least[r] = min(least[r], int(shape.demand[r]))
    return least


def waiting_shapes(queue: Queue) -> set[Shape]:
    """Return the shapes of a queue's waiting tasks. O(waiting lists)."""
    return {shape for group in first_groups(queue) for shape in group.tasks_together()}

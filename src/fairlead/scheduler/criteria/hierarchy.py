"""Places tasks of a tree of queues by hierarchical DRF, and within quotas first.

From the root down, the child with the least score is served, of those below which a task can start.
Each leaf keeps a task that it can start. After a start only the leaves whose task no longer fits
are searched again, and only the queues above a leaf that changed get new scores.
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

NOT_ASKED: Final = 2**63  # more than any amount


class TreeCycle(QueueCycle):
    """Serves trees of queues by hierarchical DRF, and flat queues as `QueueCycle` does."""

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        # During a call of `place`, if there are inner queues or quotas:
        self.is_deep = False
        self.knows_servers = False  # whether scores depend on the servers of the next starts
        self.tree = TreeScores(state.criterion.total, state.width)
        self.first: dict[Queue, NextStart] = {}  # of each leaf that can start a task
        self.asked: dict[Queue, list[int]] = {}  # (W,) the least waiting demand of each leaf
        self.least: list[int] = []  # (W,) of all leaves; 1 for what no waiting task asks for
        # (W,) an open server with as much free; None for saturated resources.
        self.roomy: list[Server | None] = []

    def prepare(self) -> None:
        super().prepare()
        state = self.state
        self.is_deep = state.root.children < len(state.queues) or state.quotas > 0
        if self.is_deep:
            self.survey()

    def survey(self) -> None:
        """Find all leaves that can start a task, and compute all scores."""
        state = self.state
        self.tree = TreeScores(state.criterion.total, state.criterion.shared)
        self.first = {}
        self.asked = {}
        self.knows_servers = state.has_quotas_on_some()
        for queue in state.queues.values():
            if not queue.children and queue.waiting > 0:
                self.asked[queue] = least_demand(queue, state.width)
                self.find_start(queue)
        self.roomy = [None] * int(state.width)
        self.find_least()
        self.update_saturated()
        for queue in sorted_by_serial(state.queues.values(), is_last_first=True):
            self.tree.update(queue)

    def place_next(self, started: list[Task]) -> bool:
        """1. Who: from the root down, start a task of the queue with the least score."""
        if not self.is_deep:
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
        """Update scores after tasks of a queue started: of other leaves some fit no more."""
        touched: dict[str, Server] = {}
        for task in tasks:
            touched[task.server.name] = task.server
        changed = [queue]
        for leaf, found in list(self.first.items()):
            if leaf is queue or self.knows_servers or not still_fits(found, touched):
                self.find_start(leaf)
                changed.append(leaf)
        if tasks[0].group.waiting == 0:
            self.asked[queue] = least_demand(queue, self.state.width)
            self.find_least()
        if self.update_saturated():
            changed = list(self.asked)
        above: dict[int, Queue] = {}
        for leaf in changed:
            for node in path_of(leaf):
                above[node.serial] = node
        for serial in sorted(above, reverse=True):
            self.tree.update(above[serial])

    def find_start(self, queue: Queue) -> None:
        """Find what a leaf can start, and note for it and those above whether it can."""
        group, server, plan = self.find_first(queue)
        if group is not None:
            self.first[queue] = (group, server, plan)
            self.tree.steps[queue] = self.tree.step_of(group)
            self.tree.starts[queue] = starts_of(group, server, plan)
        elif queue in self.first:
            del self.first[queue]
        able = self.tree.able
        for node in reversed(path_of(queue)):
            if group is not None:
                able.add(node)
            elif not self.tree.candidates(node):
                able.discard(node)

    def find_least(self) -> None:
        """Find the least waiting demand of each resource, and look for servers with that anew."""
        least = [NOT_ASKED] * int(self.state.width)
        for asked in self.asked.values():
            least = [min(pair) for pair in zip(least, asked, strict=True)]
        self.least = [1 if amount == NOT_ASKED else amount for amount in least]
        for r in range(self.tree.width):
            self.roomy[r] = self.find_roomy(r)

    def find_roomy(self, r: i64) -> Server | None:
        """Return an open server with the least waiting demand of a resource free."""
        for server in self.state.servers.values():
            if not server.is_draining and server.free[r] >= self.least[r]:
                return server
        return None

    def update_saturated(self) -> bool:
        """Find the saturated resources; return whether they changed. Free amounts only fell."""
        before = self.tree.saturated[:]
        for r in range(self.tree.width):
            roomy = self.roomy[r]
            if roomy is not None and roomy.free[r] < self.least[r]:
                self.roomy[r] = self.find_roomy(r)
            self.tree.saturated[r] = self.roomy[r] is None
        return before != self.tree.saturated


def starts_of(group: TaskGroup, server: Server | None, plan: Plan | None) -> Starts:
    if server is not None:
        return [(group.shape, server)]
    return [(group.shape_of(index), on) for index, on in plan or []]


def still_fits(found: NextStart, touched: dict[str, Server]) -> bool:
    """Return whether what a leaf could start still may, after tasks started on some servers.

    A gang is always planned anew: its tasks may choose other servers now.
    """
    group, server, _ = found
    if group is None or server is None or limit_reached(group) is not None:
        return False
    return server.name not in touched or has_room(server, group.shape)


def least_demand(queue: Queue, width: i64) -> list[int]:
    """Return (W,) the least positive demand of the waiting tasks of a queue. O(waiting lists)."""
    least = [NOT_ASKED] * int(width)
    for shape in waiting_shapes(queue):
        for r in range(width):
            if shape.demand[r] > 0:
                least[r] = min(least[r], int(shape.demand[r]))
    return least


def waiting_shapes(queue: Queue) -> set[Shape]:
    return {shape for group in first_groups(queue) for shape in group.tasks_together()}

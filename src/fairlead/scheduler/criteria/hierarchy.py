"""Cycles that serve trees of queues by hierarchical DRF; tasks within quotas go first.

From the root down, of the children below which a task can start, the one with the least score is
served. The next start of each leaf is stored. After a start, it is searched again for the served
leaf, and for leaves whose next start may no longer fit (for all leaves if a quota is restricted to
some servers). Only these leaves and the queues above them get new scores, unless other resources
become saturated.

Under PS-DSF (`ServerTreeCycle`) the pool is one server, the next one of the round. A leaf that can
start a task there counts with its tasks on all servers, as if they ran there. Any other leaf counts
only with its tasks on this server; otherwise a team whose members hold much elsewhere would get
nothing here.
docs/design/queues.md has the same definition for divisible tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._cycle import Candidate, NextStart, QueueCycle
from fairlead.scheduler._entities import (
    Plan,
    Queue,
    Server,
    Shape,
    Starts,
    Task,
    TaskGroup,
    add_to,
    has_room,
    limit_reached,
    path_of,
    sorted_by_serial,
    zeros,
)
from fairlead.scheduler._shortage import nearest_server
from fairlead.scheduler._state import State
from fairlead.scheduler._waiting import first_groups, first_waiting
from fairlead.scheduler.criteria.criterion import ServiceOrder, dominant_score, next_shape
from fairlead.scheduler.criteria.drf import DominantShare, TreeScores
from fairlead.scheduler.criteria.tsf_and_ps_dsf import ServerShare
from fairlead.scheduler.selection.round_robin import RoundRobin

NextTask = tuple[TaskGroup, Shape]  # the next group of a leaf, and the shape of its next task
NO_DEMAND: Final = 2**63  # for a resource that no waiting task demands; above any amount


class TreeCycle(QueueCycle):
    """Serves trees of queues by hierarchical DRF, and flat queues as `QueueCycle` does."""

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        assert isinstance(state.criterion, DominantShare)  # as scores are computed from amounts
        self.uses_tree = False  # whether there are inner queues or quotas
        # During a call of `place` that uses a tree:
        # Whether a quota is restricted to some servers: then the order of queues depends on the
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
        # If there are more queues than children of the root, some queues have children.
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
                self.demands[queue] = least_demands(waiting_shapes(queue), state.width)
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
        touched = {task.server.name for task in tasks}
        changed = [queue]
        for leaf, next_start in list(self.next_starts.items()):
            if leaf is queue or self.depends_on_servers or not still_fits(next_start, touched):
                self.find_next_start(leaf)
                changed.append(leaf)
        if tasks[0].group.waiting == 0:  # else the queue has waiting tasks of the same shapes
            self.demands[queue] = least_demands(waiting_shapes(queue), self.state.width)
            self.update_least_demands()
        if self.update_saturated():  # scores leave out saturated resources
            changed = list(self.demands)
        above = {node for leaf in changed for node in path_of(leaf)}
        for node in sorted_by_serial(above, is_last_first=True):  # children before their parents
            self.tree.update(node)

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


def still_fits(next_start: NextStart, touched: set[str]) -> bool:
    """Return whether a next start still fits after tasks started on the servers in `touched`.

    False for a gang, because the selection may choose other servers for its tasks now.
    """
    group, server, _ = next_start
    if group is None or server is None or limit_reached(group) is not None:
        return False
    return server.name not in touched or has_room(server, group.shape)


def least_demands(shapes: Iterable[Shape], width: i64) -> list[int]:
    """Return, by resource, the smallest positive demand of some shapes, or else `NO_DEMAND`."""
    least = [NO_DEMAND] * int(width)
    for shape in shapes:
        for r in range(width):
            if shape.demand[r] > 0:
                least[r] = min(least[r], int(shape.demand[r]))
    return least


def waiting_shapes(queue: Queue) -> set[Shape]:
    """Return the shapes of a queue's waiting tasks. O(waiting lists)."""
    return {shape for group in first_groups(queue) for shape in group.tasks_together()}


class ServerTreeScores(TreeScores):
    """The scores of queues on one server. O(leaves and the queues above them)."""

    def __init__(
        self,
        server: Server,
        width: i64,
        held_on: dict[Queue, vec[i64]],
        next_tasks: dict[Queue, NextTask],
    ) -> None:
        """Count all holdings of leaves with a next task, and those in `held_on` of other leaves."""
        super().__init__(server.capacity[: int(width)], width)
        self.next_tasks = next_tasks
        self.counted: dict[Queue, vec[i64]] = {}  # (W,) the holdings with which each queue counts
        for leaf, (group, _) in next_tasks.items():
            self.next_shares[leaf] = self.next_share(group)
            self.able.update(path_of(leaf))
            self.count(leaf, leaf.held)
        for leaf, held in held_on.items():
            if leaf not in next_tasks:
                self.count(leaf, held)

    def count(self, leaf: Queue, held: vec[i64]) -> None:
        """Add holdings of a leaf to it and to the queues above it."""
        for queue in path_of(leaf):
            if queue not in self.counted:
                self.counted[queue] = zeros(len(held))
            add_to(self.counted[queue], held, 1)

    def update_all(self) -> None:
        """Compute the scores of all queues below which a task can start, children first."""
        for queue in sorted_by_serial(self.able, is_last_first=True):
            self.update(queue)

    def held_of(self, queue: Queue) -> vec[i64]:
        return self.counted[queue]

    def score_of_leaf(self, leaf: Queue) -> int:
        return dominant_score(leaf, self.next_tasks[leaf][1].demand, self.total)


class TreeServerShare(ServerShare):
    """Scores queues by their dominant shares of a server; trees by hierarchical DRF on it."""

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        # By server: (W,) the holdings there of each leaf that is below an inner queue.
        self.held_on: dict[str, dict[Queue, vec[i64]]] = {}

    def count_task(self, task: Task, sign: i64) -> None:
        super().count_task(task, sign)
        queue = task.group.waiting_list.queue
        if queue.parent is None or queue.parent.parent is None:
            return
        on = self.held_on.setdefault(task.server.name, {})
        if queue not in on:
            on[queue] = zeros(self.width)
        add_to(on[queue], task.shape.demand, sign)
        if not any(on[queue]):
            del on[queue]
        if not on:
            del self.held_on[task.server.name]

    def scores_on(self, server: Server, next_tasks: dict[Queue, NextTask]) -> ServerTreeScores:
        """Return the scores on a server; `update_all` computes them."""
        return ServerTreeScores(server, self.width, self.held_on.get(server.name, {}), next_tasks)

    def service_order(self, root: Queue, group: TaskGroup | None = None) -> ServiceOrder:
        """Return the order of queues; of trees, on the server that is nearest to the group's task.

        There is no order of trees without a group.
        """
        nearest: Server | None = None
        if group is not None and group.waiting_list.queue.rank is not None:
            nearest = nearest_server(self.servers.values(), next_shape(group))
        if nearest is None or not has_inner_queues(root):
            return super().service_order(root, group)
        next_tasks: dict[Queue, NextTask] = {}
        for leaf in ServiceOrder().leaves(root):
            first = first_waiting(leaf)
            if first is not None:
                next_tasks[leaf] = (first, next_shape(first))
        tree = self.scores_on(nearest, next_tasks)
        tree.measure = self.measure_on(nearest)
        tree.update_all()
        return tree


class ServerTreeCycle(RoundRobin):
    """Serves trees of queues by hierarchical DRF on each server, flat queues as `RoundRobin`."""

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        assert isinstance(state.criterion, TreeServerShare)
        self.criterion = state.criterion
        self.uses_tree = False  # whether there are inner queues
        # During a call of `place` that uses a tree: the shapes of the waiting tasks of each leaf.
        self.shapes: dict[Queue, set[Shape]] = {}

    def prepare(self) -> None:
        self.uses_tree = has_inner_queues(self.state.root)
        super().prepare()
        self.shapes = {}
        if self.uses_tree:
            self.shapes = {leaf: waiting_shapes(leaf) for leaf in self.waiting_queues()}

    def waiting_queues(self) -> list[Queue]:
        return ServiceOrder().leaves(self.state.root)

    def least(self, candidates: list[Candidate]) -> Candidate | None:
        """3. Who: from the root down, return the candidate of the queue with the least score."""
        if not self.uses_tree or not candidates:
            return super().least(candidates)
        by_leaf = {candidate.queue: candidate for candidate in candidates}
        server = candidates[0].server
        next_tasks = {leaf: (found.group, found.shape) for leaf, found in by_leaf.items()}
        tree = self.criterion.scores_on(server, next_tasks)
        tree.saturated = self.saturated_on(server)
        tree.update_all()
        queue = tree.least(self.state.root)
        while queue is not None and queue not in by_leaf:
            queue = tree.least(queue)
        return None if queue is None else by_leaf[queue]

    def saturated_on(self, server: Server) -> list[bool]:
        """Return (W,) whether each resource of a server is saturated.

        It is if less is free than the least demand of any waiting task that may run there; if no
        such task demands it, it is if none is free.
        """
        shapes = {shape for waiting in self.shapes.values() for shape in waiting}
        may_run = [shape for shape in shapes if shape.constraint.admits[server.kind]]
        least = least_demands(may_run, self.state.width)
        return [
            server.free[r] < (1 if amount == NO_DEMAND else amount)
            for r, amount in enumerate(least)
        ]

    def start(self, candidate: Candidate, server: Server, started: list[Task]) -> None:
        super().start(candidate, server, started)
        if self.uses_tree and candidate.group.waiting == 0:
            self.shapes[candidate.queue] = waiting_shapes(candidate.queue)


def has_inner_queues(root: Queue) -> bool:
    """Return whether a child of the root has children and, below it, waiting tasks."""
    return any(queue.children > 0 for queue in root.ranked)

"""Places tasks of a tree of queues under PS-DSF: hierarchical DRF on the server of the round.

The pool is the server. A leaf that can start a task there counts with its tasks on all servers, as
if they ran there. Any other leaf counts with its tasks on this server only; otherwise a team whose
members hold much elsewhere would get nothing here. docs/design/queues.md has the same definition
for divisible tasks.
"""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._cycle import Candidate
from fairlead.scheduler._entities import (
    Queue,
    Server,
    Shape,
    Task,
    TaskGroup,
    add_to,
    path_of,
    sorted_by_serial,
    zeros,
)
from fairlead.scheduler._shortage import nearest_server
from fairlead.scheduler._state import State
from fairlead.scheduler._waiting import first_waiting
from fairlead.scheduler.criteria.criterion import ServiceOrder, dominant_score, next_shape
from fairlead.scheduler.criteria.drf import TreeScores
from fairlead.scheduler.criteria.hierarchy import waiting_shapes
from fairlead.scheduler.criteria.ps_dsf import ServerShare
from fairlead.scheduler.selection.round_robin import RoundRobin

NextTask = tuple[TaskGroup, Shape]  # the next group of a leaf, and the shape of its next task


class ServerTreeScores(TreeScores):
    """The scores of queues on one server. O(leaves and the queues above them)."""

    def __init__(
        self,
        server: Server,
        width: i64,
        held_on: dict[Queue, vec[i64]],
        next_tasks: dict[Queue, NextTask],
    ) -> None:
        """Count all holdings of leaves with a next task, and `held_on` the server of others."""
        super().__init__(server.capacity[: int(width)], width)
        self.next_tasks = next_tasks
        self.counted: dict[Queue, vec[i64]] = {}  # (W,) the holdings that each queue counts with
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
    """Scores queues by the dominant share on a server, in trees by hierarchical DRF there."""

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

        It is if less is free than the least demand of a waiting task that may run there; without
        such a demand, if none is free.
        """
        width = self.state.width
        least: list[i64 | None] = [None] * int(width)
        for shapes in self.shapes.values():
            for shape in shapes:
                if shape.constraint.admits[server.kind]:
                    for r in range(width):
                        demand = shape.demand[r]
                        before = least[r]
                        if demand > 0 and (before is None or demand < before):
                            least[r] = demand
        saturated: list[bool] = []
        for r in range(width):
            enough = least[r]
            saturated.append(server.free[r] < (1 if enough is None else enough))
        return saturated

    def start(self, candidate: Candidate, server: Server, started: list[Task]) -> None:
        super().start(candidate, server, started)
        if self.uses_tree and candidate.group.waiting == 0:
            self.shapes[candidate.queue] = waiting_shapes(candidate.queue)


def has_inner_queues(root: Queue) -> bool:
    """Return whether a child of the root has children and, below it, waiting tasks."""
    return any(queue.children > 0 for queue in root.ranked)

"""Places tasks of a tree of queues under PS-DSF: hierarchical DRF on the server of the round.

On a server the capacity is that of the server, in place of the pool's, and a leaf that can start a
task there counts with what it holds anywhere, as if it held that there. Other leaves count with
their tasks on this server only; otherwise a team whose members hold much elsewhere would get
nothing here. docs/design/queues.md has the same definition for divisible tasks.
"""

from __future__ import annotations

from collections.abc import Iterable

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
    ranked_leaves,
    sorted_by_serial,
    zeros,
)
from fairlead.scheduler._shortage import nearest_server
from fairlead.scheduler._state import State
from fairlead.scheduler._waiting import first_waiting
from fairlead.scheduler.criteria.criterion import dominant_score
from fairlead.scheduler.criteria.drf import TreeScores
from fairlead.scheduler.criteria.hierarchy import waiting_shapes
from fairlead.scheduler.criteria.ps_dsf import ServerShare
from fairlead.scheduler.explanation import QueuePosition
from fairlead.scheduler.selection.round_robin import RoundRobin

Next = tuple[TaskGroup, Shape]  # the group that a leaf starts next, and the shape of a task of it


class ServerTreeScores(TreeScores):
    """The scores of queues on one server. O(leaves and the queues above them)."""

    def __init__(
        self, server: Server, width: i64, held_on: dict[Queue, vec[i64]], nexts: dict[Queue, Next]
    ) -> None:
        super().__init__(server.capacity[: int(width)], width)
        self.nexts = nexts
        self.counted: dict[Queue, vec[i64]] = {}  # (W,) what each queue counts with
        for leaf, (group, _) in nexts.items():
            self.steps[leaf] = self.step_of(group)
            self.able.update(path_of(leaf))
            self.count(leaf, leaf.held)
        for leaf, held in held_on.items():
            if leaf not in nexts:
                self.count(leaf, held)

    def count(self, leaf: Queue, held: vec[i64]) -> None:
        for queue in path_of(leaf):
            if queue not in self.counted:
                self.counted[queue] = zeros(len(held))
            add_to(self.counted[queue], held, 1)

    def update_all(self) -> None:
        for queue in sorted_by_serial(self.able, is_last_first=True):
            self.update(queue)

    def held_of(self, queue: Queue) -> vec[i64]:
        return self.counted[queue]

    def score_of_leaf(self, leaf: Queue) -> int:
        return dominant_score(leaf, self.nexts[leaf][1].demand, self.total)


class TreeServerShare(ServerShare):
    """Scores queues by the dominant share on a server, in trees by hierarchical DRF there."""

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        # By server, of the leaves below other queues.
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

    def scores_on(self, server: Server, nexts: dict[Queue, Next]) -> ServerTreeScores:
        return ServerTreeScores(server, self.width, self.held_on.get(server.name, {}), nexts)

    def position(self, group: TaskGroup, shape: Shape, servers: Iterable[Server]) -> QueuePosition:
        """Return the position of a queue and its ancestors on the server nearest to a task.

        In trees, if the first task of each queue could start there, also of the group's queue.
        """
        path = path_of(group.waiting_list.queue)
        root = path[0].parent
        assert root is not None
        nearest = nearest_server(servers, shape)
        if nearest is None or path[-1].rank is None or not has_inner_queues(root):
            return super().position(group, shape, servers)
        nexts: dict[Queue, Next] = {}
        for leaf in ranked_leaves(root):
            first = first_waiting(leaf)
            if first is not None:
                nexts[leaf] = (first, first.shape_of(first.first_index()))
        tree = self.scores_on(nearest, nexts)
        tree.update_all()
        return tree.position_of(path, self.measure_on(nearest))


class ServerTreeCycle(RoundRobin):
    """Serves trees of queues by hierarchical DRF on each server, flat queues as `RoundRobin`."""

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        assert isinstance(state.criterion, TreeServerShare)
        self.criterion = state.criterion
        # During a call of `place`, if there are inner queues:
        self.is_deep = False
        self.shapes: dict[Queue, set[Shape]] = {}  # of the waiting tasks of each leaf

    def prepare(self) -> None:
        self.is_deep = has_inner_queues(self.state.root)
        super().prepare()
        self.shapes = {}
        if self.is_deep:
            self.shapes = {leaf: waiting_shapes(leaf) for leaf in self.waiting_queues()}

    def waiting_queues(self) -> list[Queue]:
        return ranked_leaves(self.state.root)

    def least(self, candidates: list[Candidate]) -> Candidate | None:
        """3. Who: from the root down, return the candidate of the queue with the least score."""
        if not self.is_deep or not candidates:
            return super().least(candidates)
        by_leaf = {candidate.queue: candidate for candidate in candidates}
        server = candidates[0].server
        nexts = {leaf: (found.group, found.shape) for leaf, found in by_leaf.items()}
        tree = self.criterion.scores_on(server, nexts)
        tree.saturated = self.saturated_on(server)
        tree.update_all()
        queue = tree.least(self.state.root)
        while queue is not None and queue not in by_leaf:
            queue = tree.least(queue)
        return None if queue is None else by_leaf[queue]

    def saturated_on(self, server: Server) -> list[bool]:
        """Return (W,) whether no waiting task that may run on a server can get more there."""
        width = self.state.width
        least: list[i64 | None] = [None] * int(width)
        for shapes in self.shapes.values():
            for shape in shapes:
                if shape.constraint.admits[server.kind]:
                    for r in range(width):
                        asked = shape.demand[r]
                        before = least[r]
                        if asked > 0 and (before is None or asked < before):
                            least[r] = asked
        found: list[bool] = []
        for r in range(width):
            enough = least[r]
            found.append(server.free[r] < (1 if enough is None else enough))
        return found

    def start(self, candidate: Candidate, server: Server, started: list[Task]) -> None:
        super().start(candidate, server, started)
        if self.is_deep and candidate.group.waiting == 0:
            self.shapes[candidate.queue] = waiting_shapes(candidate.queue)


def has_inner_queues(root: Queue) -> bool:
    for queue in root.ranked:  # noqa: SIM110 (a loop that is compiled)
        if queue.children > 0:
            return True
    return False

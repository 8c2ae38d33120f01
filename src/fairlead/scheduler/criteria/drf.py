"""Dominant resource fairness: the queue with the least dominant share of the whole cluster.

The dominant share is ``max over r of held[r] / total[r]``, where the total is that of all
present servers. Trees of queues have the scores of hierarchical DRF (Bhattacharya, Culler,
Friedman, Ghodsi, Shenker and Stoica, SoCC 2013). An inner queue has what its children hold, with
each child that can start a task counted with at most the least score of these and what it starts
next. So a child that once held more does not keep its siblings from their part. (The paper counts
the least score alone, as for divisible tasks; then a team of a thousand members would get a
thousand tasks before another team gets two.) Saturated resources, of which no waiting task can get
more, do not count in the share of an inner queue.
"""

from __future__ import annotations

from collections.abc import Iterable

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import (
    Queue,
    Server,
    Shape,
    Starts,
    TaskGroup,
    add_to,
    is_within_quotas,
    path_of,
)
from fairlead.scheduler._waiting import first_waiting
from fairlead.scheduler.criteria.criterion import (
    ONE,
    ONE_BITS,
    Criterion,
    dominant_score,
    weighted,
)
from fairlead.scheduler.explanation import QueuePosition, QueueScore


class DominantShare(Criterion):
    def score(self, queue: Queue) -> int:
        return dominant_score(queue, self.total, self.total)

    def position(self, group: TaskGroup, shape: Shape, servers: Iterable[Server]) -> QueuePosition:
        """Return the position of a queue and its ancestors; in trees, if all tasks could start."""
        path = path_of(group.waiting_list.queue)
        root = path[0].parent
        assert root is not None
        is_flat = len(path) == 1 and not any(queue.children for queue in root.ranked)
        if is_flat and not any(queue.quotas for queue in root.ranked):
            return super().position(group, shape, servers)
        tree = TreeScores(self.total, self.shared)
        tree.add_waiting(root, sorted(servers))
        for queue in reversed(path):
            tree.update(queue)
        return tree.position_of(path, self.measure)

    def in_turn(self, root: Queue, servers: Iterable[Server]) -> list[Queue]:
        if not any(queue.children or queue.quotas for queue in root.ranked):
            return super().in_turn(root, servers)
        tree = TreeScores(self.total, self.shared)
        tree.add_waiting(root, sorted(servers))
        return tree.in_turn(root)


class TreeScores:
    """The scores of the queues of a tree.

    Scores and amounts are whole parts of ``2**-64`` of the pool, rounded down. A child counted with
    a lesser score has ``amount * lesser // score``. Children of weight 0 count with what they hold
    while others can start tasks, as do children that cannot. A child that stays within its quotas
    goes before its siblings, whatever the scores.
    """

    def __init__(self, total: vec[i64], width: i64) -> None:
        self.total = total  # (W,) the pool
        self.width = width  # the leading amounts that count in shares
        self.able: set[Queue] = set()  # those below which a task can start
        self.saturated = [False] * int(width)
        self.scores: dict[Queue, int] = {}
        # Of the queues in `able`: the largest dominant share that starts next in one leaf.
        self.steps: dict[Queue, int] = {}
        self.amounts: dict[Queue, list[int]] = {}
        self.starts: dict[Queue, Starts] = {}  # of the leaves in `able`: the next starts
        self.leaf: dict[Queue, Queue] = {}  # the leaf to be served next
        # Whether a queue, or the next one below it that has quotas, would be within them.
        self.is_within: dict[Queue, bool] = {}

    def update(self, queue: Queue) -> None:
        """Compute a queue's score from those of its children, and whether it is within quotas."""
        self.update_score(queue)
        if queue in self.able:
            next_below = self.least(queue)
            leaf = queue if next_below is None else self.leaf[next_below]
            is_within = is_within_quotas(queue, self.starts[leaf]) if queue.quotas else None
            if is_within is None:
                is_within = next_below is not None and self.is_within[next_below]
            self.leaf[queue] = leaf
            self.is_within[queue] = is_within

    def update_score(self, queue: Queue) -> None:
        if not queue.children:
            self.scores[queue] = self.score_of_leaf(queue)
            self.amounts[queue] = self.parts_of(self.held_of(queue))
            return
        able = self.candidates(queue)
        held = self.held_of(queue)[:]
        for child in able:
            add_to(held, self.held_of(child), -1)
        amounts = self.parts_of(held)
        least = min([self.scores[child] for child in able]) if able else 0
        for child in able:
            score, of = self.scores[child], self.amounts[child]
            most = least + weighted(self.steps[child], ONE_BITS, child)
            for r in range(self.width):
                amounts[r] += of[r] * most // score if score > most else of[r]
        share = 0
        for r in range(self.width):
            if not self.saturated[r]:
                share = max(share, amounts[r])
        self.steps[queue] = max(
            [self.steps[child] for child in queue.ranked if child in self.able], default=0
        )
        self.amounts[queue] = amounts
        self.scores[queue] = weighted(share, ONE_BITS, queue)

    def held_of(self, queue: Queue) -> vec[i64]:
        """Return (W,) the amounts that a queue counts with."""
        return queue.held

    def score_of_leaf(self, leaf: Queue) -> int:
        return leaf.score

    def candidates(self, queue: Queue) -> list[Queue]:
        """Return the children to be served next: of weight 0 only if no other can start a task."""
        able = [child for child in queue.ranked if child in self.able]
        weighing = [child for child in able if child.weight[0] > 0]
        return weighing or able

    def least(self, queue: Queue) -> Queue | None:
        """Return the child that is served first."""
        found: Queue | None = None
        for child in queue.ranked:
            if child in self.able and (found is None or self.key(child) < self.key(found)):
                found = child
        return found

    def parts_of(self, held: vec[i64]) -> list[int]:
        """Return amounts as parts of the pool."""
        found: list[int] = []
        for r in range(self.width):
            pool = int(self.total[r])
            found.append(int(held[r]) * ONE // pool if pool > 0 else 0)
        return found

    def key(self, queue: Queue) -> tuple[bool, bool, int, int]:
        """Return the order among siblings: by quotas, weight 0, score, and order of adding."""
        is_beyond = not self.is_within.get(queue, False)
        return (is_beyond, queue.weight[0] == 0, self.scores[queue], queue.serial)

    def before(self, queue: Queue, siblings: list[Queue]) -> list[Queue]:
        """Return the siblings that are served before a queue, the first one first."""
        mine = self.key(queue)
        return [other for other in sorted(siblings, key=self.key) if self.key(other) < mine]

    def position_of(self, path: list[Queue], measure: str) -> QueuePosition:
        """Return the position of a leaf, given with the queues above it, from the root down."""
        ahead: list[Queue] = []
        for queue in path:
            if queue.parent is not None and queue.rank is not None:
                ahead += self.before(queue, queue.parent.ranked)
        above = [QueueScore(queue.name, self.scores[queue] / ONE) for queue in path[:-1]]
        named = [QueueScore(queue.name, self.scores[queue] / ONE) for queue in ahead]
        return QueuePosition(measure, self.scores[path[-1]] / ONE, named, above)

    def in_turn(self, queue: Queue) -> list[Queue]:
        """Return the leaves below a queue in the order in which they are served."""
        found: list[Queue] = []
        for child in sorted(queue.ranked, key=self.key):
            found += self.in_turn(child) if child.children else [child]
        return found

    def add_waiting(self, queue: Queue, servers: list[Server]) -> None:
        """Count all queues with waiting tasks below a queue as able to start the first ones.

        Tasks count as on the first servers with their labels and names, even on full ones.
        """
        for child in queue.ranked:
            self.able.add(child)
            self.add_waiting(child, servers)
            first = first_waiting(child)
            if first is not None:
                self.steps[child] = self.step_of(first)
                self.starts[child] = supposed_starts(first, servers)
            self.update(child)

    def step_of(self, group: TaskGroup) -> int:
        """Return the dominant share of a group's next task, or of all waiting tasks of a gang."""
        largest = 0
        asked = group.demand_together()
        for r in range(self.width):
            pool = int(self.total[r])
            largest = max(largest, asked[r] * ONE // pool if pool > 0 else 0)
        return largest


def supposed_starts(group: TaskGroup, servers: list[Server]) -> Starts:
    """Return a group's next tasks, each on the first server that admits it."""
    starts: Starts = []
    for shape, tasks in group.tasks_together().items():
        for server in servers:
            if shape.constraint.admits[server.kind]:
                starts += [(shape, server)] * tasks
                break
    return starts

"""Dominant resource fairness: the queue with the least dominant share of the cluster is next.

The dominant share is ``max over r of held[r] / total[r]``, where the total is that of all
present servers. Trees of queues have the scores of hierarchical DRF (Bhattacharya, Culler,
Friedman, Ghodsi, Shenker and Stoica, SoCC 2013). The share of an inner queue is that of a sum over
its children:

- A child below which no task can start counts with all its holdings.
- A child below which a task can start counts with holdings up to a score: the least score of such
  children, plus the share of its own next start. So children with large holdings take nothing from
  siblings.
- Saturated resources, of which no waiting task can get more, do not count.

The paper, whose tasks are divisible, counts only up to the least score. With whole tasks a team of
a thousand members would then get a thousand tasks before another team gets its second.

Under ``/half-life`` past use counts, too: queues that used much lately are served after others.
The past use U of a queue approaches its holdings s with a half-life h. After a time D with constant
s, U becomes ``U 2**(-D/h) + s (1 - 2**(-D/h))``, which is exact between events, not sampled. The
share of a queue is ``max over r of (s[r] + U[r]) / total[r]``. With U alone, a queue that has used
nothing yet could take all servers at once. In trees `QueueCycle` ranks the siblings level by level
from the top, as in Slurm's Fair Tree; an inner queue has the holdings and the use of its subtree.
"""

from __future__ import annotations

from math import exp2
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import (
    Queue,
    Server,
    Starts,
    Task,
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
    ServiceOrder,
    dominant_score,
    weighted,
)

# Scores are rounded to this many bits, so that rounding errors do not order queues of equal use.
USE_BITS: Final = 32


class DominantShare(Criterion):
    """Scores queues by their dominant shares, and trees of queues by hierarchical DRF."""

    def score(self, queue: Queue) -> int:
        return dominant_score(queue, self.total, self.total)

    def service_order(self, root: Queue, group: TaskGroup | None = None) -> ServiceOrder:
        path = [] if group is None else path_of(group.waiting_list.queue)
        is_tree = len(path) > 1 or any(queue.children or queue.quotas for queue in root.ranked)
        if not is_tree:
            return super().service_order(root, group)
        tree = TreeScores(self.total, self.shared)
        tree.measure = self.measure
        tree.add_waiting(root, sorted(self.servers.values()))
        for queue in reversed(path):  # it may have no waiting task
            tree.update(queue)
        return tree


class PastUse(Criterion):
    """Scores queues by their dominant shares, with past use added to holdings."""

    measure = "dominant share with past use by weight"

    def count_task(self, task: Task, sign: i64) -> None:
        node: Queue | None = task.group.waiting_list.queue
        while node is not None and node.parent is not None:
            self.advance(node)
            node = node.parent
        super().count_task(task, sign)

    def advance(self, queue: Queue) -> None:
        """Update the past use of a queue to the present time."""
        elapsed = self.time - queue.past_use_at
        if elapsed <= 0.0:
            return
        kept = exp2(-elapsed / self.half_life)
        used = queue.past_use or [0.0] * int(self.width)
        queue.past_use = [
            used[r] * kept + float(queue.held[r]) * (1.0 - kept) for r in range(self.width)
        ]
        queue.past_use_at = self.time

    def score(self, queue: Queue) -> int:
        self.advance(queue)
        share = 0.0
        for r in range(self.shared):
            if self.total[r] > 0:
                used = queue.past_use[r] if queue.past_use else 0.0
                share = max(share, (float(queue.held[r]) + used) / float(self.total[r]))
        return weighted(
            round(share * float(1 << USE_BITS)) << (ONE_BITS - USE_BITS), ONE_BITS, queue
        )


class TreeScores(ServiceOrder):
    """The scores of the queues of a tree.

    Shares and scores are in units of ``2**-64`` of the pool, rounded down. A child that counts up
    to a score `highest` below its own has the shares ``share * highest // score``. Children of
    weight 0 count with all their holdings while others can start tasks. A child that stays within
    its quotas goes before its siblings, whatever the scores.
    """

    def __init__(self, total: vec[i64], width: i64) -> None:
        self.total = total  # (W,) the pool
        self.width = width  # how many columns, from the first, count in shares
        self.able: set[Queue] = set()  # leaves that can start a task, and all queues above them
        self.saturated = [False] * int(width)  # by resource
        self.scores: dict[Queue, int] = {}
        # Of queues in `able`: the dominant share of the next start; of inner queues the largest of
        # those below.
        self.next_shares: dict[Queue, int] = {}
        self.shares: dict[Queue, list[int]] = {}  # (width,) the shares that each queue counts with
        self.starts: dict[Queue, Starts] = {}  # of leaves in `able`: the next starts
        self.leaf: dict[Queue, Queue] = {}  # of queues in `able`: the leaf to be served next
        # Of queues in `able`: whether the next start stays within the quotas of the queue, or, if
        # these do not concern it, of the queues below.
        self.is_within: dict[Queue, bool] = {}

    def update(self, queue: Queue) -> None:
        """Compute a queue's score, its next leaf, and whether it stays within quotas."""
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
        """Compute a queue's shares and score, and its next share, from those of its children."""
        if not queue.children:
            self.scores[queue] = self.score_of_leaf(queue)
            self.shares[queue] = self.shares_of(self.held_of(queue))
            return
        able = self.candidates(queue)
        held = self.held_of(queue)[:]
        for child in able:
            add_to(held, self.held_of(child), -1)
        shares = self.shares_of(held)
        least = min([self.scores[child] for child in able]) if able else 0
        for child in able:
            score, own = self.scores[child], self.shares[child]
            highest = least + weighted(self.next_shares[child], ONE_BITS, child)
            for r in range(self.width):
                shares[r] += own[r] * highest // score if score > highest else own[r]
        dominant = 0
        for r in range(self.width):
            if not self.saturated[r]:
                dominant = max(dominant, shares[r])
        self.next_shares[queue] = max(
            [self.next_shares[child] for child in queue.ranked if child in self.able], default=0
        )
        self.shares[queue] = shares
        self.scores[queue] = weighted(dominant, ONE_BITS, queue)

    def held_of(self, queue: Queue) -> vec[i64]:
        """Return (W,) the holdings with which a queue counts."""
        return queue.held

    def score_of_leaf(self, leaf: Queue) -> int:
        """Return the score of a leaf; `ServerTreeScores` returns that on a server instead."""
        return leaf.score

    def candidates(self, queue: Queue) -> list[Queue]:
        """Return the children that may be served next, of weight 0 only if there are no others."""
        able = [child for child in queue.ranked if child in self.able]
        of_positive_weight = [child for child in able if child.weight[0] > 0]
        return of_positive_weight or able

    def least(self, queue: Queue) -> Queue | None:
        """Return the child that is served next; None if no task can start below the queue."""
        found: Queue | None = None
        for child in queue.ranked:
            if child in self.able and (found is None or self.key(child) < self.key(found)):
                found = child
        return found

    def shares_of(self, held: vec[i64]) -> list[int]:
        """Return (width,) some amounts as shares of the pool."""
        found: list[int] = []
        for r in range(self.width):
            pool = int(self.total[r])
            found.append(int(held[r]) * ONE // pool if pool > 0 else 0)
        return found

    def key(self, queue: Queue) -> tuple[bool, bool, int, int]:
        """Return the sort key among siblings: within quotas, positive weight, score, serial."""
        is_beyond = not self.is_within.get(queue, False)
        return (is_beyond, queue.weight[0] == 0, self.scores[queue], queue.serial)

    def served(self, parent: Queue) -> list[Queue]:
        return sorted(parent.ranked, key=self.key)

    def share(self, queue: Queue) -> float:
        return self.scores[queue] / ONE

    def add_waiting(self, queue: Queue, servers: list[Server]) -> None:
        """Count all queues below a queue as able to start their first waiting tasks.

        The start of each counts on the first server that its constraint admits, even a full one.
        """
        for child in queue.ranked:
            self.able.add(child)
            self.add_waiting(child, servers)
            first = first_waiting(child)
            if first is not None:
                self.next_shares[child] = self.next_share(first)
                self.starts[child] = supposed_starts(first, servers)
            self.update(child)

    def next_share(self, group: TaskGroup) -> int:
        """Return the dominant share of a group's next task, or of all waiting tasks of a gang."""
        largest = 0
        demand = group.demand_together()
        for r in range(self.width):
            pool = int(self.total[r])
            largest = max(largest, demand[r] * ONE // pool if pool > 0 else 0)
        return largest


def supposed_starts(group: TaskGroup, servers: list[Server]) -> Starts:
    """Return the starts of a group's next tasks, each on the first server that admits it."""
    starts: Starts = []
    for shape, tasks in group.tasks_together().items():
        for server in servers:
            if shape.constraint.admits[server.kind]:
                starts += [(shape, server)] * tasks
                break
    return starts

"""The base of all criteria: a score for each queue, kept up to date as tasks start and end.

A score is the whole number ``floor(share / weight * 2**64)``, computed from integer amounts and a
weight that is a ratio of integers. So equal shares have equal scores. Of equal scores the queue
that was added earlier goes first; under best-fit-first, the later one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import (
    Queue,
    Rank,
    Server,
    Shape,
    Task,
    TaskGroup,
    add_to,
    path_of,
    ranked_leaves,
    zeros,
)
from fairlead.scheduler._shortage import nearest_server
from fairlead.scheduler._waiting import first_waiting
from fairlead.scheduler.explanation import QueuePosition, QueueScore

ONE_BITS: Final = 64  # a share of 1 at weight 1 has the score 2**64
ONE: Final = 2**64


class Criterion:
    """Ranks queues by scores that do not depend on their next tasks. Base of all criteria."""

    measure = "dominant share by weight"  # the meaning of scores, in words
    mechanism = "drfh"  # the mechanism that defines the fair shares
    splits_by_limit = False  # whether each time limit has its own waiting lists
    ranks_groups = False  # whether a queue has the rank of its first group
    keeps_ends = False  # whether `State.ends` lists the expected ends of running tasks
    predicts_runs = False  # whether run times of tasks without a time limit are predicted
    half_life = 0.0  # of past use, in seconds; 0 if past use does not count

    def __init__(self, width: i64) -> None:
        self.width = width
        self.time = 0.0  # `State.now`, in seconds
        self.shared = width  # how many columns, from the first, count in shares
        self.total = zeros(width)  # (W,) capacity of all servers, draining ones included
        self.servers: dict[str, Server] = {}  # `State.servers`, draining ones included
        self.version: i64 = 0  # how often a server joined, changed, left, opened or closed

    def count_server(self, server: Server, sign: i64) -> None:
        """Count a server that joins (1) or leaves (-1)."""
        for r in range(len(self.total)):
            self.total[r] += sign * server.capacity[r]
        self.version += 1

    def count_task(self, task: Task, sign: i64) -> None:
        """Count a task that starts (1) or ends (-1), in its queue and the queues above."""
        node: Queue | None = task.group.waiting_list.queue
        while node is not None and node.parent is not None:
            add_to(node.held, task.shape.demand, sign)
            node.score = self.score(node)
            node = node.parent

    def forget_shares(self, shapes: Iterable[Shape]) -> None:
        """Forget the stored shares of shapes, because servers changed; all queues are rescored."""

    def score(self, queue: Queue) -> int:
        """Return a queue's score for the present servers."""
        raise NotImplementedError

    def rank(self, queue: Queue, serial: int) -> Rank | None:
        """Return the sort key of a queue with waiting tasks, or None to skip the queue."""
        return (0 if queue.weight[0] else 1, queue.score, serial)

    def service_order(self, root: Queue, servers: Iterable[Server]) -> list[Queue]:  # noqa: ARG002
        """Return the leaves with waiting tasks in the order of service, if all tasks could start.

        Scores are the present ones: they do not change with these starts.
        """
        return ranked_leaves(root)

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:  # noqa: ARG002
        """Return a lower bound of `score_of` that is quick to compute.

        `server` is None if the server is not chosen yet.
        """
        return queue.score

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:  # noqa: ARG002
        """Return the score of a queue whose next task, of a shape, could start on a server."""
        return queue.score

    def position(
        self,
        group: TaskGroup,
        shape: Shape,  # noqa: ARG002 (other criteria use it)
        servers: Iterable[Server],  # noqa: ARG002
    ) -> QueuePosition:
        """Return the position of a group's queue, and of its ancestors, among their siblings.

        `shape` is the shape of the group's first task.
        """
        ahead: list[QueueScore] = []
        path = path_of(group.waiting_list.queue)
        for queue in path:
            if queue.parent is not None and queue.rank is not None:
                before = bisect_left(queue.parent.ranks, queue.rank)
                ahead += [score_row(q) for q in queue.parent.ranked[:before]]
        above = [score_row(queue) for queue in path[:-1]]
        return QueuePosition(self.measure, score_row(path[-1]).score, ahead, above)


class TaskCriterion(Criterion):
    """Scores a queue for its next task, or for the server of this task.

    A score never falls while tasks start, as queues hold more then, and servers have less free.
    A queue without a task has no score. So `rank` has the order of adding, weight 0 last.
    """

    def score(self, queue: Queue) -> int:  # noqa: ARG002 (there is none)
        return 0

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:
        raise NotImplementedError

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:
        raise NotImplementedError

    def position(self, group: TaskGroup, shape: Shape, servers: Iterable[Server]) -> QueuePosition:
        """Return the queues that have lower scores, each for its first task.

        Scores are for the server that lacks least of the group's task.
        """
        nearest = nearest_server(servers, shape)
        own_queue = group.waiting_list.queue
        if nearest is None or own_queue.rank is None or own_queue.parent is None:
            return QueuePosition(self.measure, 0.0, [], [])
        own = self.key(own_queue, shape, nearest)
        before: list[tuple[Rank, str]] = []
        for queue in own_queue.parent.ranked:
            first = first_waiting(queue)
            if queue is not own_queue and first is not None:
                key = self.key(queue, first.shape_of(first.first_index()), nearest)
                if key < own:
                    before.append((key, queue.name))
        before.sort()
        ahead = [QueueScore(name, key[1] / ONE) for key, name in before]
        return QueuePosition(self.measure_on(nearest), own[1] / ONE, ahead, [])

    def service_order(self, root: Queue, servers: Iterable[Server]) -> list[Queue]:
        """Return the queues by score, each on the server that lacks least of its first task."""
        rows: list[tuple[Rank, Queue]] = []
        for queue in root.ranked:
            first = first_waiting(queue)
            if first is not None:
                shape = first.shape_of(first.first_index())
                nearest = nearest_server(servers, shape)
                if nearest is not None:
                    rows.append((self.key(queue, shape, nearest), queue))
        rows.sort(key=key_of)
        return [queue for _, queue in rows]

    def key(self, queue: Queue, shape: Shape, server: Server) -> Rank:
        """Return the sort key of a queue with a task: weight 0 last, score, order of adding."""
        rank = queue.rank
        serial = 0.0 if rank is None else rank[2]
        return (0 if queue.weight[0] else 1, self.score_of(queue, shape, server), serial)

    def measure_on(self, server: Server) -> str:  # noqa: ARG002 (per-server scores name it)
        """Return the meaning of scores for a server, in words."""
        return self.measure


def key_of(row: tuple[Rank, Queue]) -> Rank:
    return row[0]


def weighted(share: int, bits: int, queue: Queue) -> int:
    """Return the score of a share that is given in units of ``2**-bits``, rounded down.

    Queues of weight 0 are served last, and among themselves as if of weight 1.
    """
    numerator, denominator = queue.weight
    if numerator == 0:
        return share >> (bits - ONE_BITS)
    return (share * denominator) // (numerator << (bits - ONE_BITS))


def dominant_score(queue: Queue, demand: vec[i64], pool: vec[i64]) -> int:
    """Return the score of a queue's dominant share of a pool, of the resources that a task takes.

    The share is ``max over r of held[r] / pool[r]``, for ``demand[r] > 0`` and ``pool[r] > 0``.
    """
    held = queue.held
    scale, weight = score_factor(queue)
    largest = 0
    for r in range(min(len(demand), len(held))):
        if demand[r] > 0 and held[r] > 0 and pool[r] > 0:
            largest = max(largest, (int(held[r]) * scale) // (int(pool[r]) * weight))
    return largest


def score_factor(queue: Queue) -> tuple[int, int]:
    """Return the factor ``2**64 / weight`` from shares to scores: numerator and denominator."""
    numerator, denominator = queue.weight
    return (ONE, 1) if numerator == 0 else (denominator << ONE_BITS, numerator)


def score_row(queue: Queue) -> QueueScore:
    return QueueScore(queue.name, queue.score / ONE)

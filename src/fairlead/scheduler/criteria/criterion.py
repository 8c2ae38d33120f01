"""The base of all criteria: a score for each queue, kept up to date as tasks start and end.

A score is a whole number, ``floor(share / weight * 2**64)``, computed from integer amounts and a
weight that is a ratio of integers. Equal shares are equal scores; the earlier queue goes first.
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

ONE_BITS: Final = 64  # a share of 1 is 2**64 in a score
ONE: Final = 2**64


class Criterion:
    """Ranks queues by scores that do not depend on their next tasks."""

    measure = "dominant share by weight"  # the meaning of scores, in words
    mechanism = "drfh"  # the mechanism that defines fair shares under it
    splits_by_limit = False  # whether groups wait by time limit, too
    ranks_groups = False  # whether the rank of a queue is that of its first group
    keeps_ends = False  # whether the expected ends of running tasks are kept
    predicts_runs = False  # whether they are predicted for tasks without a time limit
    half_life = 0.0  # of past use, in seconds; 0 if that does not count

    def __init__(self, width: i64) -> None:
        self.width = width
        self.time = 0.0  # that of the state, in seconds
        self.shared = width  # the leading amounts that count in shares
        self.total = zeros(width)  # (W,) capacity of all servers, draining ones included
        self.servers: dict[str, Server] = {}  # those of the state, draining ones included
        self.version: i64 = 0  # how often servers joined, changed, left, opened or closed

    def count_server(self, server: Server, sign: i64) -> None:
        """Count a server that joins (1) or leaves (-1)."""
        for r in range(len(self.total)):
            self.total[r] += sign * server.capacity[r]
        self.version += 1

    def count_task(self, task: Task, sign: i64) -> None:
        """Count a task that starts (1) or ends (-1), in its queue and in those above."""
        node: Queue | None = task.group.waiting_list.queue
        while node is not None and node.parent is not None:
            add_to(node.held, task.shape.demand, sign)
            node.score = self.score(node)
            node = node.parent

    def count_again(self, shapes: Iterable[Shape]) -> None:
        """Update the shares of shapes before queues are scored again, after servers changed."""

    def score(self, queue: Queue) -> int:
        """Return a queue's score for the present servers."""
        raise NotImplementedError

    def rank(self, queue: Queue, serial: int) -> Rank | None:
        """Return the rank of a queue with waiting tasks, the least first; None to skip it."""
        return (0 if queue.weight[0] else 1, queue.score, serial)

    def in_turn(self, root: Queue, servers: Iterable[Server]) -> list[Queue]:  # noqa: ARG002
        """Return the leaves with waiting tasks in the order of service, if all tasks could start.

        Their scores do not count these starts.
        """
        return ranked_leaves(root)

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:  # noqa: ARG002
        """Return a quick lower bound of the score of a queue with a task, on a server if known."""
        return queue.score

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:  # noqa: ARG002
        """Return the score of a queue with a task that could start on a server."""
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
                ahead += [with_score(q) for q in queue.parent.ranked[:before]]
        above = [with_score(queue) for queue in path[:-1]]
        return QueuePosition(self.measure, with_score(path[-1]).score, ahead, above)


class TaskCriterion(Criterion):
    """Scores queues by their next task, or by its server.

    A score never falls while tasks start, as queues hold more then, and servers have less free.
    Queues have no score of their own, so they are ranked by order of adding, weight 0 last.
    """

    def score(self, queue: Queue) -> int:  # noqa: ARG002 (there is none)
        return 0

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:
        raise NotImplementedError

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:
        raise NotImplementedError

    def position(self, group: TaskGroup, shape: Shape, servers: Iterable[Server]) -> QueuePosition:
        """Return which queues have lower scores with their first tasks.

        Scores are those with the server that lacks the least part of the group's task.
        """
        nearest = nearest_server(servers, shape)
        mine = group.waiting_list.queue
        if nearest is None or mine.rank is None or mine.parent is None:
            return QueuePosition(self.measure, 0.0, [], [])
        own = self.key(mine, shape, nearest)
        before: list[tuple[Rank, str]] = []
        for queue in mine.parent.ranked:
            first = first_waiting(queue)
            if queue is not mine and first is not None:
                key = self.key(queue, first.shape_of(first.first_index()), nearest)
                if key < own:
                    before.append((key, queue.name))
        before.sort()
        ahead = [QueueScore(name, key[1] / ONE) for key, name in before]
        return QueuePosition(self.measure_on(nearest), own[1] / ONE, ahead, [])

    def in_turn(self, root: Queue, servers: Iterable[Server]) -> list[Queue]:
        """Return the queues by score, each on the server that lacks least for its first task."""
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
        """Return the order of a queue with a task: by weight 0, score, and order of adding."""
        rank = queue.rank
        last = 0.0 if rank is None else rank[2]
        return (0 if queue.weight[0] else 1, self.score_of(queue, shape, server), last)

    def measure_on(self, server: Server) -> str:  # noqa: ARG002 (per-server scores name it)
        return self.measure


def key_of(row: tuple[Rank, Queue]) -> Rank:
    return row[0]


def weighted(share: int, bits: int, queue: Queue) -> int:
    """Return the score of a share that is given in parts of ``2**-bits``, rounded down.

    A queue of weight 0 is served after the others; among such queues it counts as of weight 1.
    """
    over, under = queue.weight
    if over == 0:
        return share >> (bits - ONE_BITS)
    return (share * under) // (over << (bits - ONE_BITS))


def dominant_score(queue: Queue, demand: vec[i64], over: vec[i64]) -> int:
    """Return the score of a queue's dominant share, of the resources that a task takes.

    The share is ``max over r of held[r] / over[r]``, over resources with d[r] > 0 and over[r] > 0.
    """
    held = queue.held
    scale, weight = scale_of(queue)
    most = 0
    for r in range(min(len(demand), len(held))):
        if demand[r] > 0 and held[r] > 0 and over[r] > 0:
            most = max(most, (int(held[r]) * scale) // (int(over[r]) * weight))
    return most


def scale_of(queue: Queue) -> tuple[int, int]:
    """Return a fraction as two numbers; a share times it is a score."""
    over, under = queue.weight
    return (ONE, 1) if over == 0 else (under << ONE_BITS, over)


def with_score(queue: Queue) -> QueueScore:
    return QueueScore(queue.name, queue.score / ONE)

"""The base of all criteria: a score for each queue, kept up to date as tasks start and end.

A score is the whole number ``floor(share / weight * 2**64)``, computed from integer amounts and a
weight that is a ratio of integers. So equal shares have equal scores. Of queues with equal scores
the one added earlier goes first; under best-fit-first, the one added later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import Queue, Rank, Server, Shape, Task, TaskGroup, add_to, zeros
from fairlead.scheduler._shortage import nearest_server
from fairlead.scheduler._waiting import first_waiting

ONE_BITS: Final = 64  # a share of 1 at weight 1 has the score 2**64
ONE: Final = 2**64


class ServiceOrder:
    """The order in which queues are served if their first tasks can start, and their scores."""

    is_flat = False  # whether it has only leaves, all in one order
    measure = ""  # the meaning of scores, in words

    def served(self, parent: Queue) -> list[Queue]:
        """Return the children of a queue with waiting tasks, the next one first."""
        return parent.ranked

    def share(self, queue: Queue) -> float:
        """Return the score of a queue as a share by weight."""
        return queue.score / ONE

    def leaves(self, parent: Queue) -> list[Queue]:
        """Return the leaves with waiting tasks below a queue, on each level the next one first."""
        found: list[Queue] = []
        for child in self.served(parent):
            found += self.leaves(child) if child.children else [child]
        return found

    def ahead(self, path: list[Queue]) -> list[Queue]:
        """Return the siblings that are served before the queues of a path, from the top down."""
        found: list[Queue] = []
        for queue in path:
            if queue.parent is not None and queue.rank is not None:
                siblings = self.served(queue.parent)
                found += siblings[: siblings.index(queue)] if queue in siblings else []
        return found


class FlatOrder(ServiceOrder):
    """An order of leaves by sort keys, with their shares."""

    is_flat = True

    def __init__(self, measure: str) -> None:
        self.measure = measure
        self.rows: list[tuple[Rank, Queue]] = []
        self.shares: dict[Queue, float] = {}

    def add(self, key: Rank, queue: Queue, share: float) -> None:
        self.rows.append((key, queue))
        self.shares[queue] = share

    def served(self, parent: Queue) -> list[Queue]:  # noqa: ARG002 (there is one level)
        return [queue for _, queue in sorted(self.rows, key=key_of)]

    def share(self, queue: Queue) -> float:
        return self.shares.get(queue, 0.0)


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
        self.version: i64 = 0  # how often a server joined, changed, left, or was (un)drained

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
        """Forget the stored shares of shapes, which depend on the servers."""

    def score(self, queue: Queue) -> int:
        """Return a queue's score for the present servers."""
        raise NotImplementedError

    def rank(self, queue: Queue, serial: int) -> Rank | None:
        """Return the sort key of a queue with waiting tasks, or None to skip the queue."""
        return (0 if queue.weight[0] else 1, queue.score, serial)

    def service_order(self, root: Queue, group: TaskGroup | None = None) -> ServiceOrder:  # noqa: ARG002
        """Return the order in which queues are served if their first tasks can start.

        If given, `group` counts as the first one of its queue. Scores that depend on a server are
        then those on the server that lacks the smallest fraction of its demand.
        """
        order = ServiceOrder()
        order.measure = self.measure
        return order

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:  # noqa: ARG002
        """Return a lower bound of `score_of` that is quick to compute.

        `server` is None if the server is not chosen yet.
        """
        return queue.score

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:  # noqa: ARG002
        """Return the score of a queue for its next task, of a shape, on a server."""
        return queue.score


class TaskCriterion(Criterion):
    """Scores a queue for its next task, or for this task and a server.

    A score never falls while tasks start, as queues hold more then, and servers have less free.
    Without a task all queues score 0. So `rank` is the order of adding, with weight 0 last.
    """

    def score(self, queue: Queue) -> int:  # noqa: ARG002 (only tasks have scores)
        return 0

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:
        raise NotImplementedError

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:
        raise NotImplementedError

    def service_order(self, root: Queue, group: TaskGroup | None = None) -> ServiceOrder:
        """Return queues by score, each on the server nearest to its task, or to that of `group`."""
        order = FlatOrder(self.measure)
        servers = self.servers.values()
        own = None if group is None else group.waiting_list.queue
        server: Server | None = None
        if group is not None and own is not None:
            server = None if own.rank is None else nearest_server(servers, next_shape(group))
            if server is None:
                return order
            order.measure = self.measure_on(server)
        for queue in root.ranked:
            first = group if queue is own else first_waiting(queue)
            if first is not None:
                shape = next_shape(first)
                nearest = nearest_server(servers, shape) if server is None else server
                if nearest is not None:
                    key = self.key(queue, shape, nearest)
                    order.add(key, queue, key[1] / ONE)
        return order

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


def next_shape(group: TaskGroup) -> Shape:
    """Return the shape of a group's next task; if all its tasks run, its first shape."""
    return group.shape_of(group.first_index()) if group.waiting > 0 else group.shape


def weighted(share: int, bits: int, queue: Queue) -> int:
    """Return the score of a queue from its share in units of ``2**-bits``, rounded down.

    Queues of weight 0 are served last, and among themselves as if of weight 1.
    """
    numerator, denominator = queue.weight
    if numerator == 0:
        return share >> (bits - ONE_BITS)
    return (share * denominator) // (numerator << (bits - ONE_BITS))


def dominant_score(queue: Queue, demand: vec[i64], pool: vec[i64]) -> int:
    """Return the score of a queue's dominant share of a pool, by the resources that a task takes.

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

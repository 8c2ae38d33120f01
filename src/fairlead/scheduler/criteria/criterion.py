"""What every criterion has: a score for each queue, kept as tasks start and end.

A score is a whole number, ``floor(share / weight * 2**64)``, computed from integer amounts and a
weight that is a ratio of integers. Equal shares are equal scores; the earlier queue goes first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler.explanation import NAMED, Ahead, Standing
from fairlead.scheduler.shortage import server_in_view
from fairlead.scheduler.tables import Queue, Server, Shape, Task, TaskGroup, Turn, add_to, zeros
from fairlead.scheduler.waiting import first_waiting

ONE_BITS: Final = 64  # a share of 1 is 2**64 in a score
ONE: Final = 2**64


class Criterion:
    """Dominant-share bookkeeping that all criteria share."""

    measure = "dominant share by weight"  # what scores are, for people
    mechanism = "drfh"  # whose shares are fair under it
    splits_by_limit = False  # groups of a shape with other time limits wait in other lines
    width: i64
    total: vec[i64]  # (W,) capacity of the servers that are there, draining ones included

    def __init__(self, width: i64) -> None:
        self.width = width
        self.total = zeros(width)

    def count_server(self, server: Server, sign: i64) -> None:
        """Count a server that joins (1) or leaves (-1)."""
        add_to(self.total, server.capacity, sign)

    def count_task(self, task: Task, sign: i64) -> None:
        """Count a task that starts (1) or ends (-1), in its queue and in those above."""
        node: Queue | None = task.group.line.queue
        while node is not None and node.parent is not None:
            add_to(node.held, task.shape.demand, sign)
            node.score = self.score(node)
            node = node.parent

    def count_again(self, shapes: Iterable[Shape]) -> None:
        """Prepare to score all queues anew, after servers came, went or changed."""

    def score(self, queue: Queue) -> int:
        """Return a queue's score by the servers that are there now."""
        raise NotImplementedError

    def turn(self, queue: Queue, serial: int) -> Turn | None:
        """Return when a queue with waiting tasks is served, the least first; None for never."""
        return (0 if queue.weight[0] else 1, queue.score, serial)

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:  # noqa: ARG002
        """Return quickly at most the score of a queue with a task, on a server if it is known."""
        return queue.score

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:  # noqa: ARG002
        """Return the score of a queue with a task that could start on a server."""
        return queue.score

    def standing(
        self,
        group: TaskGroup,
        shape: Shape,  # noqa: ARG002 (other criteria use it)
        servers: Iterable[Server],  # noqa: ARG002
    ) -> Standing:
        """Return the place of a group's queue, and of those above it, among their siblings.

        `shape` is that of the group's first task.
        """
        ahead: list[Ahead] = []
        n_ahead = 0
        path = path_of(group.line.queue)
        for queue in path:
            if queue.parent is not None and queue.turn is not None:
                before = bisect_left(queue.parent.turns, queue.turn)
                n_ahead += before
                ahead += [named(q) for q in queue.parent.served[: min(before, NAMED)]]
        above = [named(queue) for queue in path[:-1]]
        return Standing(self.measure, named(path[-1]).score, ahead[:NAMED], n_ahead, above)


class AtHand(Criterion):
    """Criteria whose scores depend on the next task, or on its server.

    A score never falls while tasks start, as queues hold more then, and servers have less free.
    Queues have no score of their own, so all turns are by order of adding, weight 0 last.
    """

    def score(self, queue: Queue) -> int:  # noqa: ARG002 (there is none)
        """Return 0."""
        return 0

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:
        """Return quickly at most the score of a queue with a task, on a server if it is known."""
        raise NotImplementedError

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:
        """Return the score of a queue with a task that could start on a server."""
        raise NotImplementedError

    def standing(self, group: TaskGroup, shape: Shape, servers: Iterable[Server]) -> Standing:
        """Return which queues have lower scores with their first tasks.

        Scores are those with the server that lacks the least part of what the group's task takes.
        """
        view = server_in_view(servers, shape)
        mine = group.line.queue
        if view is None or mine.turn is None or mine.parent is None:
            return Standing(self.measure, 0.0, [], 0, [])
        own = self.key(mine, shape, view)
        before: list[tuple[Turn, str]] = []
        for queue in mine.parent.served:
            first = first_waiting(queue)
            if queue is not mine and first is not None:
                key = self.key(queue, first.shape_of(first.first_index()), view)
                if key < own:
                    before.append((key, queue.name))
        before.sort()
        ahead = [Ahead(name, key[1] / ONE) for key, name in before[:NAMED]]
        return Standing(self.measure_on(view), own[1] / ONE, ahead, len(before), [])

    def key(self, queue: Queue, shape: Shape, server: Server) -> Turn:
        """Return when a queue with a task is served: by weight 0, score, and order of adding."""
        turn = queue.turn
        last = 0.0 if turn is None else turn[2]
        return (0 if queue.weight[0] else 1, self.score_of(queue, shape, server), last)

    def measure_on(self, server: Server) -> str:  # noqa: ARG002 (per-server scores name it)
        """Return what scores are with a server."""
        return self.measure


def weighted(share: int, bits: int, queue: Queue) -> int:
    """Return the score of a share that is given in parts of ``2**-bits``, rounded down.

    A queue of weight 0 is served after the others; among its like it counts as of weight 1.
    """
    over, under = queue.weight
    if over == 0:
        return share >> (bits - ONE_BITS)
    return (share * under) // (over << (bits - ONE_BITS))


def dominant_score(queue: Queue, demand: vec[i64], over: vec[i64]) -> int:
    """Return the score of the largest share that a queue holds of what a task takes.

    The share is ``max over r of held[r] / over[r]``, over resources with d[r] > 0 and over[r] > 0.
    """
    held = queue.held
    scale, weight = scale_of(queue)
    most = 0
    for r in range(len(demand)):
        if demand[r] > 0 and held[r] > 0 and over[r] > 0:
            most = max(most, (int(held[r]) * scale) // (int(over[r]) * weight))
    return most


def scale_of(queue: Queue) -> tuple[int, int]:
    """Return two numbers: a share times the first, over the second, is a score."""
    over, under = queue.weight
    return (ONE, 1) if over == 0 else (under << ONE_BITS, over)


def path_of(queue: Queue) -> list[Queue]:
    """Return the queues above a queue, from the top down, and then the queue."""
    path: list[Queue] = []
    node: Queue | None = queue
    while node is not None and node.parent is not None:
        path.insert(0, node)
        node = node.parent
    return path


def named(queue: Queue) -> Ahead:
    """Return a queue's name and its score as a share, for people."""
    return Ahead(queue.name, queue.score / (1 << ONE_BITS))

"""What every criterion has: a score for each queue, kept as tasks start and end.

A score is a whole number, ``floor(share / weight * 2**64)``, computed from integer amounts and a
weight that is a ratio of integers. Equal shares are equal scores; the earlier queue goes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mypy_extensions import i64

from fairlead.core.tables import Queue, Server, Shape, Task, Turn, zeros

ONE_BITS: Final = 64  # a share of 1 is 2**64 in a score


class Criterion:
    """Dominant-share bookkeeping that all criteria share.

    Attributes
    ----------
    total : vec of W
        Capacity of the servers that are there, draining ones included.
    """

    def __init__(self, width: i64) -> None:
        self.width: i64 = width
        self.total = zeros(width)

    def count_server(self, server: Server, sign: i64) -> None:
        """Count a server that joins (1) or leaves (-1)."""
        for r in range(self.width):
            self.total[r] += sign * server.capacity[r]

    def count_task(self, task: Task, sign: i64) -> None:
        """Count a task that starts (1) or ends (-1), in its queue and in those above."""
        shape = task.shape
        node: Queue | None = task.group.line.queue
        while node is not None and node.parent is not None:
            held = node.held
            for r in range(self.width):
                held[r] += sign * shape.demand[r]
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


def weighted(share: int, bits: int, queue: Queue) -> int:
    """Return the score of a share that is given in parts of ``2**-bits``, rounded down.

    A queue of weight 0 is served after the others; among its like it counts as of weight 1.
    """
    over, under = queue.weight
    if over == 0:
        return share >> (bits - ONE_BITS)
    return (share * under) // (over << (bits - ONE_BITS))

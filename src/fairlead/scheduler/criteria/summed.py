"""Criteria whose share is a sum over running tasks: each adds a part that its shape decides.

Parts are counted in units of ``2**-192``, rounded up, so that sums of equal shares are equal
whatever the shapes: what rounding adds to the sum of 2**62 parts is less than 2**-130, and a share
below the next whole score by less than that has a denominator above 2**66.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mypy_extensions import i64

from fairlead.scheduler.criteria.criterion import Criterion, weighted
from fairlead.scheduler.tables import Queue, Server, Shape, Task, add_to

PART_BITS: Final = 192


class SummedParts(Criterion):
    """Scores queues by the sum of what each of their running tasks adds."""

    kinds: dict[tuple[tuple[int, ...], int], int]  # servers by capacity and number of their kind

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.kinds = {}

    def count_server(self, server: Server, sign: i64) -> None:
        """Count a server that joins (1) or leaves (-1), by its capacity and class."""
        super().count_server(server, sign)
        key = (tuple([int(amount) for amount in server.capacity]), int(server.kind))
        count = self.kinds.get(key, 0) + int(sign)
        if count:
            self.kinds[key] = count
        else:
            del self.kinds[key]

    def count_task(self, task: Task, sign: i64) -> None:
        """Count a task that starts (1) or ends (-1)."""
        queue, shape = task.group.line.queue, task.shape
        add_to(queue.held, shape.demand, sign)
        by_shape = queue.running_by_shape
        running = by_shape.get(shape, 0) + int(sign)
        if running:
            by_shape[shape] = running
        else:
            del by_shape[shape]
        queue.share += int(sign) * self.part_of(shape)
        queue.score = weighted(queue.share, PART_BITS, queue)

    def count_again(self, shapes: Iterable[Shape]) -> None:
        """Forget the parts of shapes, after servers came, went or changed."""
        for shape in shapes:
            shape.part = -1

    def score(self, queue: Queue) -> int:
        """Return a queue's score by the servers that are there now."""
        share = 0
        for shape, running in queue.running_by_shape.items():
            share += running * self.part_of(shape)
        queue.share = share
        return weighted(share, PART_BITS, queue)

    def part_of(self, shape: Shape) -> int:
        """Return what a running task adds to its queue's share."""
        if shape.part < 0:
            shape.part = self.count_part(shape)
        return shape.part

    def count_part(self, shape: Shape) -> int:
        """Return what a running task adds, from the servers that are there."""
        raise NotImplementedError

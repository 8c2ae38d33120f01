"""Dominant resource fairness: the queue with the least dominant share of the whole cluster.

The dominant share is ``max over r of held[r] / total[r]``, the total being that of all servers that
are there. In a tree of queues, a queue holds what the queues below it hold.
"""

from __future__ import annotations

from mypy_extensions import i64

from fairlead.scheduler.criteria.criterion import ONE_BITS, Criterion
from fairlead.scheduler.tables import Queue


class DominantShare(Criterion):
    """Scores queues by their dominant share."""

    def score(self, queue: Queue) -> int:
        """Return a queue's score by the servers that are there now."""
        return self.dominant(queue, self.width)

    def dominant(self, queue: Queue, width: i64) -> int:
        """Return the score of the dominant share of the first amounts."""
        over, under = queue.weight
        if over == 0:
            over = 1
            under = 1
        scale = under << ONE_BITS
        most = 0
        for r in range(width):
            held = queue.held[r]
            if held > 0 and self.total[r] > 0:
                part = (int(held) * scale) // (int(self.total[r]) * over)
                most = max(most, part)
        return most

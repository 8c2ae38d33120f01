"""Dominant resource fairness: the queue with the least dominant share of the whole cluster.

The dominant share is ``max over r of held[r] / total[r]``, where the total is that of all
present servers. In a tree of queues, a queue holds what the queues below it hold.
"""

from __future__ import annotations

from fairlead.scheduler._entities import Queue
from fairlead.scheduler.criteria.criterion import Criterion, dominant_score


class DominantShare(Criterion):
    def score(self, queue: Queue) -> int:
        return dominant_score(queue, self.total, self.total)

"""Past use with a half-life: a queue that used much lately is served after others.

The past use U of a queue approaches its holdings s with a half-life h. After a time D with constant
s, U becomes ``U 2**(-D/h) + s (1 - 2**(-D/h))``, which is exact between events, not sampled. The
share of a queue is ``max over r of (s[r] + U[r]) / total[r]``. With U only, a queue that has used
nothing yet could take everything at once. In trees `QueueCycle` ranks the siblings level by level
from the top, as in Slurm's Fair Tree; an inner queue has the holdings and the use of its subtree.
"""

from __future__ import annotations

from math import exp2
from typing import Final

from mypy_extensions import i64

from fairlead.scheduler._entities import Queue, Task
from fairlead.scheduler.criteria.criterion import ONE_BITS, Criterion, weighted

# Scores are rounded to this many bits, so that rounding errors do not order queues of equal use.
USE_BITS: Final = 32


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

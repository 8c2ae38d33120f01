"""Past use with a half-life: a queue that used much lately is served after others.

The use U of a queue follows what it holds, s, with a half-life h: after a time D in which s stays,
``U 2**(-D/h) + s (1 - 2**(-D/h))``. This is exact between events, not sampled. Queues are served by
``max over r of (s[r] + U[r]) / total[r]`` over their weight. U alone would let a queue take
everything at once, as it has used nothing yet. In trees `QueueCycle` ranks the siblings level by
level from the top, as in Slurm's Fair Tree; an inner queue holds and used what those below it did.
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
    measure = "dominant share with past use by weight"

    def count_task(self, task: Task, sign: i64) -> None:
        node: Queue | None = task.group.waiting_list.queue
        while node is not None and node.parent is not None:
            self.advance(node)
            node = node.parent
        super().count_task(task, sign)

    def advance(self, queue: Queue) -> None:
        """Bring the use of a queue to the present time."""
        elapsed = self.time - queue.used_at
        if elapsed <= 0.0:
            return
        kept = exp2(-elapsed / self.half_life)
        used = queue.used or [0.0] * int(self.width)
        queue.used = [
            used[r] * kept + float(queue.held[r]) * (1.0 - kept) for r in range(self.width)
        ]
        queue.used_at = self.time

    def score(self, queue: Queue) -> int:
        self.advance(queue)
        share = 0.0
        for r in range(self.shared):
            if self.total[r] > 0:
                used = queue.used[r] if queue.used else 0.0
                share = max(share, (float(queue.held[r]) + used) / float(self.total[r]))
        return weighted(
            round(share * float(1 << USE_BITS)) << (ONE_BITS - USE_BITS), ONE_BITS, queue
        )

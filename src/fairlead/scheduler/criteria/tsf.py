"""Task share fairness: the queue with the least share of the tasks it could run alone.

A running task adds ``1 / gamma``, where gamma is the number of such tasks, whole or not, that all
servers would take if there were no constraints: ``sum over servers of min over r of c[r] / d[r]``.
A queue whose tasks are alike has the share ``tasks / gamma``.
"""

from __future__ import annotations

from fractions import Fraction

from fairlead.scheduler.criteria.summed import PART_BITS, SummedParts
from fairlead.scheduler.tables import Shape


class TaskShare(SummedParts):
    """Scores queues by their tasks over the tasks that all servers would take."""

    measure = "tasks, of those that could run alone, by weight"
    mechanism = "tsf"

    def count_part(self, shape: Shape) -> int:
        """Return what a running task adds, from the servers that are there."""
        gamma = Fraction(0)
        for (capacity, _), count in self.kinds.items():
            gamma += count * tasks_that_fit(shape, capacity)
        if gamma == 0:
            return 0
        return -(-(gamma.denominator << PART_BITS) // gamma.numerator)


def tasks_that_fit(shape: Shape, capacity: tuple[int, ...]) -> Fraction:
    """Return how many tasks, whole or not, an empty server takes."""
    rooms = [Fraction(c, int(d)) for c, d in zip(capacity, shape.demand, strict=True) if d > 0]
    return min(rooms)

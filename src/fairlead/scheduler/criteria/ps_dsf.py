"""Per-server dominant share fairness, as a sum over servers (Kesidis et al.).

A running task adds ``sum over servers where it may run of max over r of d[r] / c[r]``; a server
that lacks a resource of it adds nothing. For the criterion per server see selection `joint`.
"""

from __future__ import annotations

from fractions import Fraction

from fairlead.scheduler.criteria.summed import PART_BITS, SummedParts
from fairlead.scheduler.criteria.tsf import tasks_that_fit
from fairlead.scheduler.tables import Shape


class PerServerShare(SummedParts):
    """Scores queues by the sum over servers of the dominant share there."""

    measure = "sum of shares of servers by weight"
    mechanism = "ps-dsf"

    def count_part(self, shape: Shape) -> int:
        """Return what a running task adds, from the servers that are there."""
        part = Fraction(0)
        for (capacity, kind), count in self.kinds.items():
            tasks = tasks_that_fit(shape, capacity) if shape.place.allowed[kind] else Fraction(0)
            if tasks > 0:
                part += count / tasks
        return -(-(part.numerator << PART_BITS) // part.denominator)

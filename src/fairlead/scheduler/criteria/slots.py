"""Slots: the queue with the least share of all slots is next.

A slot is ``1/N`` of the largest server. This is not a real server: it has, of each resource that
all servers have, the largest capacity of any. A server has the whole slots that fit in it; a task
takes the whole slots that cover its demand. Other resources are counted as amounts. (Wang, Liang
and Li 2014, VI.)
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from fairlead.scheduler._entities import Counting, Queue, Server, Shape
from fairlead.scheduler.criteria.criterion import dominant_score
from fairlead.scheduler.criteria.drf import DominantShare

# Largest number of slots of a server, so that the sum over all servers fits in 64 bits. A task that
# needs more slots fits on no server.
SERVER_SLOTS: Final = 2**40


class Slots(Counting):
    """Counts slots in the first column, and then amounts of the resources that are not in slots."""

    def __init__(self, resources: i64, number: int, largest: list[int] | None) -> None:
        super().__init__(resources)
        self.width = resources + 1
        self.compared = resources + 1
        self.number = number  # slots of the largest server
        self.is_given = largest is not None  # whether `largest` is given; else servers determine it
        # (R,) capacity of the largest server, in quanta; 0 for resources that are not in slots.
        self.largest = largest or [0] * int(resources)

    def of_server(self, given: list[int]) -> vec[i64]:
        rows = zip(given, self.largest, strict=True)
        slots = [amount * self.number // largest for amount, largest in rows if largest > 0]
        return self.with_others(min([SERVER_SLOTS, *slots]) if slots else 0, vec[i64](given))

    def of_task(self, given: vec[i64]) -> vec[i64]:
        rows = zip(given, self.largest, strict=True)
        slots = [
            -(-int(amount) * self.number // largest) for amount, largest in rows if largest > 0
        ]
        return self.with_others(min(max(slots), SERVER_SLOTS + 1) if slots else 1, given)

    def with_others(self, slots: int, given: vec[i64]) -> vec[i64]:
        """Return (W,) slots, then the given amounts of resources that are not in slots."""
        counted = vec[i64]([slots])
        for r in range(self.resources):
            counted = append(counted, 0 if self.largest[r] > 0 else given[r])
        return counted

    def recount(self, servers: Iterable[Server]) -> bool:
        if self.is_given:
            return False
        given = [server.given for server in servers]
        largest: list[int] = []
        for r in range(self.resources):
            amounts = [row[r] for row in given]
            largest.append(max(amounts) if amounts and min(amounts) > 0 else 0)
        has_changed = largest != self.largest
        self.largest = largest
        return has_changed

    def names(self, resources: list[str]) -> list[str]:
        return ["slots", *resources]

    def units(self, quanta: list[Fraction]) -> list[Fraction]:
        return [Fraction(1), *quanta]

    def fitting_amount(self, shape: Shape, free: vec[i64], r: i64, above: int) -> int:
        """Return the demand of a resource that the free slots cover, if the task then fits."""
        covered = int(free[0]) * self.largest[r] // self.number
        if not above < covered < int(shape.given[r]):
            return 0
        given = shape.given[:]
        given[r] = covered
        demand = self.of_task(given)
        for other in range(self.width):
            if demand[other] > 0 and free[other] < demand[other]:
                return 0
        return covered


class SlotShare(DominantShare):
    """Scores queues by their shares of all slots."""

    measure = "share of slots by weight"

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.shared = 1

    def score(self, queue: Queue) -> int:
        slots = self.total[:1]
        return dominant_score(queue, slots, slots)

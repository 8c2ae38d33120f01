"""Amounts in slots, by the definition."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

Row = list[Fraction]


def in_slots(capacity: list[Row], shapes: list[Row], slots: int) -> tuple[list[Row], list[Row]]:
    """Return capacities and demands with slots in place of the resources that all servers have."""
    shared = [r for r in range(len(capacity[0])) if all(c[r] > 0 for c in capacity)]
    others = [r for r in range(len(capacity[0])) if r not in shared]
    slot = {r: max(c[r] for c in capacity) / slots for r in shared}
    rows = [
        [Fraction(min(floor(c[r] / slot[r]) for r in shared)), *(c[r] for r in others)]
        for c in capacity
    ]
    tasks = [
        [Fraction(max(ceil(d[r] / slot[r]) for r in shared)), *(d[r] for r in others)]
        for d in shapes
    ]
    return rows, tasks

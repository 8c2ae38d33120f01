"""How a policy counts amounts: as they are given, or in slots."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler.tables import Server, Shape


class Counting:
    """Counts amounts as they are given."""

    resources: i64
    width: i64  # the number of amounts

    def __init__(self, resources: i64) -> None:
        self.resources = resources
        self.width = resources

    def of_server(self, given: list[int]) -> vec[i64]:
        """Return a server's capacity as the policy counts it."""
        return vec[i64](given)

    def of_task(self, given: vec[i64]) -> vec[i64]:
        """Return a task's demand as the policy counts it."""
        return given

    def cut(self, servers: Iterable[Server]) -> bool:  # noqa: ARG002 (slots depend on them)
        """Note which servers are there; return whether everything counts anew by that."""
        return False

    # For explanations

    def names(self, resources: list[str]) -> list[str]:
        """Return what each amount is called."""
        return resources

    def units(self, quanta: list[Fraction]) -> list[Fraction]:
        """Return what one of each amount is."""
        return quanta

    def less(self, shape: Shape, free: vec[i64], r: i64, least: int) -> int:
        """Return with how much of a resource a task without room here would have room, or 0.

        Amounts up to `least` do not matter.
        """
        if free[r] >= shape.need[r] or free[r] <= least:
            return 0
        for other in range(self.width):
            if other != r and free[other] < shape.need[other]:
                return 0
        return int(free[r])

"""What servers lack for a task, counted by one scan of all servers.

A resource that the task does not take is never lacking, even on a server that is overcommitted.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler.counting import Counting
from fairlead.scheduler.explanation import NAMED
from fairlead.scheduler.tables import Server, Shape, fits, zeros

ONE: Final = 2**64  # the whole demand
ABOVE: Final = 1.0 + 1e-12  # more than the relative error of a rough part
INFINITE: Final = float("inf")

Near = tuple[int, Server]  # the lacking part, and the server


class Shortage:
    """What servers lack for a task of a shape."""

    shape: Shape
    counting: Counting
    width: i64
    servers: int = 0  # that are there
    allowed: int = 0  # servers where the task may run
    open: int = 0  # allowed servers that do not drain
    fitting: int = 0  # open servers with room now
    lacking: vec[i64]  # (W,) open servers with too little of each amount
    nearest: list[Near]  # open servers by the largest lacking part of the demand; at most `NAMED`
    farthest: float = INFINITE  # at least the part that the last of the nearest lacks
    # (R,) the most of each resource, below the demand, with which the task would have room
    # somewhere if it asked for no more of it; 0 where there is none.
    less: list[int]
    large: int = 0  # allowed servers that have room when they are empty, drained ones included
    too_small: vec[i64]  # (W,) allowed servers with too little capacity of each amount
    most: vec[i64]  # (W,) the largest capacity of an allowed server
    least_short: Server | None = None  # the allowed server that is too small in the fewest amounts
    fewest: i64  # those amounts

    def __init__(self, servers: Iterable[Server], shape: Shape, counting: Counting) -> None:
        width = counting.width
        self.shape = shape
        self.counting = counting
        self.width = width
        self.lacking = zeros(width)
        self.nearest = []
        self.less = [0] * int(counting.resources)
        self.too_small = zeros(width)
        self.most = vec[i64]([-1] * int(width))
        self.fewest = width + 1
        for server in servers:
            self.servers += 1
            if shape.place.allowed[server.kind]:
                self.count(server)

    def count(self, server: Server) -> None:
        """Count a server where the task may run."""
        self.allowed += 1
        self.count_size(server)
        if server.is_draining:
            return
        self.open += 1
        if fits(self.shape.need, server.free):
            self.fitting += 1
            return
        self.count_lacking(server)
        for r in range(self.counting.resources):
            at = int(r)
            most = self.counting.less(self.shape, server.free, r, self.less[at])
            self.less[at] = max(self.less[at], most)

    def count_size(self, server: Server) -> None:
        """Count in which amounts a server is too small even when it is empty."""
        need, capacity = self.shape.need, server.capacity
        short: i64 = 0
        for r in range(self.width):
            self.most[r] = max(self.most[r], capacity[r])
            if capacity[r] < need[r]:
                self.too_small[r] += 1
                short += 1
        if short == 0:
            self.large += 1
        best = self.least_short
        if best is None or short < self.fewest or (short == self.fewest and server < best):
            self.fewest = short
            self.least_short = server

    def count_lacking(self, server: Server) -> None:
        """Count what an open server lacks, and whether it is among the nearest."""
        need, free = self.shape.need, server.free
        rough = 0.0
        for r in range(self.width):
            if free[r] < need[r]:
                self.lacking[r] += 1
                rough = max(rough, (float(need[r]) - float(free[r])) / float(need[r]))
        if rough > self.farthest:  # most servers; exact parts take long to compute
            return
        nearest = self.nearest
        insort(nearest, (lacking_part(self.shape, free), server))
        if len(nearest) >= NAMED:
            del nearest[NAMED:]
            self.farthest = ABOVE * (nearest[-1][0] / ONE)

    def short_of(self) -> list[int]:
        """Return of which amounts no allowed server has enough; none if a server is large enough.

        If some server has enough of each amount alone, those of `least_short`.
        """
        if self.large > 0 or self.allowed == 0:
            return []
        found = [int(r) for r in range(self.width) if self.too_small[r] == self.allowed]
        best = self.least_short
        if found or best is None:
            return found
        return lacks(self.shape, best.capacity)


def server_in_view(servers: Iterable[Server], shape: Shape) -> Server | None:
    """Return the server that lacks the least part of what a task takes, the first of equals.

    Of open servers where it may run; if there are none, of drained ones; if there are none, of all.
    """
    best: Server | None = None
    least = (3, 0)
    for server in servers:
        is_allowed = shape.place.allowed[server.kind]
        tier = 2 if not is_allowed else 1 if server.is_draining else 0
        key = (tier, lacking_part(shape, server.free))
        if best is None or key < least or (key == least and server < best):
            least = key
            best = server
    return best


def lacking_part(shape: Shape, free: vec[i64]) -> int:
    """Return the largest lacking part of the demand, in parts of 2**-64."""
    need = shape.need
    part = 0
    for r in range(len(need)):
        if free[r] < need[r]:
            part = max(part, (int(need[r]) - int(free[r])) * ONE // int(need[r]))
    return part


def lacks(shape: Shape, amounts: vec[i64]) -> list[int]:
    """Return of which amounts there is too little for a task."""
    found: list[int] = []
    for r in range(len(amounts)):
        if amounts[r] < shape.need[r]:
            found.append(r)
    return found


def has_rooms(servers: Iterable[Server], shape: Shape, tasks: int) -> bool:
    """Return whether all servers together, emptied and opened, have room for tasks of a shape."""
    rest = tasks
    for server in servers:
        if shape.place.allowed[server.kind]:
            rest -= count_rooms(shape, server.capacity)
            if rest <= 0:
                return True
    return False


def count_rooms(shape: Shape, amounts: vec[i64]) -> int:
    """Return how many tasks amounts have room for."""
    lead = shape.lead
    least = amounts[lead] // shape.demand[lead]
    for r in range(len(amounts)):
        if shape.demand[r] > 0:
            least = min(least, amounts[r] // shape.demand[r])
    return int(least)

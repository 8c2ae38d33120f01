"""The amounts that servers lack for a task, and how many tasks fit on servers together.

Only demanded resources can be lacking, even on an overcommitted server.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import (
    Counting,
    Gang,
    Server,
    Shape,
    TaskGroup,
    fits,
    has_room,
    zeros,
)
from fairlead.scheduler.explanation import NAMED

ONE: Final = 2**64  # a fraction of 1: the whole demand


class Shortage:
    """The amounts that servers lack for a task of a shape, counted by one scan of all servers."""

    def __init__(self, servers: Iterable[Server], shape: Shape, counting: Counting) -> None:
        width = counting.compared
        self.shape = shape
        self.counting = counting
        self.width = width
        # Of the servers that the constraint admits and that are open:
        self.open = 0  # their number
        self.fitting = 0  # number of those with room now
        self.lacking = zeros(width)  # (C,) number of those with too little in each column
        # (R,) for each resource, the largest smaller demand with which the task would fit on one of
        # them, in quanta; 0 if there is none.
        self.smaller_demand = [0] * int(counting.resources)
        # Those without room, each with the largest lacking fraction of the demand.
        self.without_room: list[tuple[int, Server]] = []
        self.allowed_servers = [s for s in servers if shape.constraint.admits[s.kind]]
        for server in self.allowed_servers:
            self.count(server)
        self.nearest = [server for _, server in nsmallest(NAMED, self.without_room)]

    def count(self, server: Server) -> None:
        """Count an allowed server, unless it drains."""
        if server.is_draining:
            return
        self.open += 1
        need, free = self.shape.need, server.free
        if fits(need, free):
            self.fitting += 1
            return
        self.without_room.append((lacking_fraction(self.shape, free), server))
        for r in range(self.width):
            if free[r] < need[r]:
                self.lacking[r] += 1
        for r in range(self.counting.resources):
            found = self.smaller_demand[int(r)]
            fitting = self.counting.fitting_amount(self.shape, free, r, found)
            self.smaller_demand[int(r)] = max(found, fitting)

    def too_small(self) -> dict[int, int]:
        """Return the resources of which no allowed server has enough, with the largest capacities.

        Empty if a server is large enough. If each resource suffices on some server, but not all on
        one server, return the resources that are too small on the server with the fewest of these.
        """
        need = self.shape.need
        capacities = [server.capacity for server in sorted(self.allowed_servers)]
        for capacity in capacities:
            if fits(need, capacity):
                return {}
        if not capacities:
            return {}
        width = self.counting.width
        largest = {int(r): max([int(c[r]) for c in capacities]) for r in range(width)}
        short_everywhere = [r for r in largest if largest[r] < int(need[r])]
        fewest = min([lacks(self.shape, capacity) for capacity in capacities], key=len)
        return {r: largest[r] for r in short_everywhere or fewest if r < int(width)}


def nearest_server(servers: Iterable[Server], shape: Shape) -> Server | None:
    """Return the server that lacks the smallest fraction of a task's demand; ties by order.

    Allowed open servers come first, then allowed draining ones, then all others.
    """
    rows: list[tuple[int, int, Server]] = []
    for server in servers:
        is_allowed = shape.constraint.admits[server.kind]
        tier = 2 if not is_allowed else 1 if server.is_draining else 0
        rows.append((tier, lacking_fraction(shape, server.free), server))
    return min(rows)[2] if rows else None


def lacking_fraction(shape: Shape, free: vec[i64]) -> int:
    """Return the largest lacking fraction of the demand over all columns, times 2**64."""
    need = shape.need
    fraction = 0
    for r in range(len(need)):
        if free[r] < need[r]:
            fraction = max(fraction, (int(need[r]) - int(free[r])) * ONE // int(need[r]))
    return fraction


def lacks(shape: Shape, amounts: vec[i64]) -> list[int]:
    """Return the columns in which amounts are too small for a task."""
    return [int(r) for r in range(len(shape.need)) if amounts[r] < shape.need[r]]


def fit_together(
    servers: Iterable[Server], shape: Shape, tasks: int, free: dict[str, vec[i64]] | None = None
) -> bool:
    """Return whether `tasks` tasks of a shape fit on the servers if all are empty and open.

    With `free`, the servers have these free amounts, by name, instead of their capacity.
    """
    rest = tasks
    for server in servers:
        if shape.constraint.admits[server.kind]:
            amounts = server.capacity if free is None else free[server.name]
            rest -= max(count_fitting(shape, amounts), 0)
            if rest <= 0:
                return True
    return False


def count_fitting(shape: Shape, amounts: vec[i64]) -> int:
    """Return how many tasks of a shape fit in free amounts; negative if these are negative."""
    lead = shape.lead
    fitting = amounts[lead] // shape.demand[lead]
    for r in range(len(shape.demand)):
        if shape.demand[r] > 0:
            fitting = min(fitting, amounts[r] // shape.demand[r])
    for columns in shape.taken_columns:
        fitting = min(fitting, columns.count_fitting(shape.demand[columns.resource], amounts))
    return int(fitting)


class FittingTogether:
    """How many tasks of each shape of a gang fit on open servers, counted server by server.

    The numbers are exact for one shape, and upper bounds for several. Groups that are not gangs are
    not counted.
    """

    def __init__(self, group: TaskGroup, servers: Iterable[Server]) -> None:
        self.wanted = group.tasks_together()  # number of tasks of each shape
        self.fitting = dict.fromkeys(
            self.wanted, 0
        )  # summed over servers, at most `wanted` of each
        if isinstance(group, Gang):
            for server in servers:
                if not server.is_draining:
                    self.count(server, 1)

    def count(self, server: Server, sign: int) -> None:
        """Add the number of tasks that fit on a server (1), or subtract it (-1)."""
        for shape, wanted in self.wanted.items():
            if has_room(server, shape):
                self.fitting[shape] += sign * min(wanted, count_fitting(shape, server.free))

    def is_enough(self) -> bool:
        """Return whether all tasks of each shape fit, each shape for itself."""
        for shape, wanted in self.wanted.items():  # noqa: SIM110 (a loop that is compiled)
            if self.fitting[shape] < wanted:
                return False
        return True

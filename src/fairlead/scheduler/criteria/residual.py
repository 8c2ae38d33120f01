"""Residual criteria: shares of the free amounts of all servers, for the next task of a queue.

drf: ``max over r of held[r] / left[r]``, over the resources that the task takes; ``left[r]`` is the
sum over all servers of what each has free, 0 of servers that are overcommitted.

tsf: ``(max over r of held[r] / d[r]) / rooms``, over the same resources; ``rooms`` counts the
tasks, whole or not, that still fit without constraints: the sum over all servers of
``min over r of free[r] / d[r]``.

Draining servers are among all servers. Both scores are of a task that has room somewhere.
"""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler.criteria.criterion import AtHand, dominant_score, scale_of
from fairlead.scheduler.tables import Queue, Server, Shape, Task, zeros


class Residual(AtHand):
    """Knows all servers, and when they have less free than before, or perhaps more."""

    servers: dict[str, Server]
    starts: i64 = 0  # of tasks so far

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.servers = {}

    def count_server(self, server: Server, sign: i64) -> None:
        """Count a server that joins (1) or leaves (-1)."""
        super().count_server(server, sign)
        if sign > 0:
            self.servers[server.name] = server
        else:
            del self.servers[server.name]
        self.forget()

    def count_task(self, task: Task, sign: i64) -> None:
        """Count a task that starts (1) or ends (-1)."""
        super().count_task(task, sign)
        self.starts += 1
        if sign < 0:
            self.forget()

    def forget(self) -> None:
        """Forget what servers have free, as it may be more now."""
        raise NotImplementedError


class ResidualDominantShare(Residual):
    """Scores by the dominant share of the free amounts of the whole cluster."""

    measure = "dominant share of what is free"
    left: vec[i64]  # (W,) what all servers have free
    counted_at: i64 = -1  # the number of starts before `left` was counted

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.left = zeros(width)

    def forget(self) -> None:
        """Forget what servers have free, as it may be more now."""
        self.counted_at = -1

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:  # noqa: ARG002
        """Return the score: it is computed as quickly as any bound."""
        if self.counted_at != self.starts:
            self.counted_at = self.starts
            self.count()
        return dominant_score(queue, shape.demand, self.left)

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:
        """Return the score of a queue with a task."""
        return self.bound(queue, shape, server)

    def count(self) -> None:
        """Count what all servers have free."""
        left = zeros(self.width)
        for server in self.servers.values():
            free = server.free
            for r in range(self.width):
                if free[r] > 0:
                    left[r] += free[r]
        self.left = left


class Rooms:
    """The number of tasks of a shape that still fit, as `tasks` over `parts`."""

    tasks: int
    parts: int
    # The number of starts before they were counted; since then there is room for fewer.
    counted_at: i64

    def __init__(self, tasks: int, parts: int, counted_at: i64) -> None:
        self.tasks = tasks
        self.parts = parts
        self.counted_at = counted_at


class ResidualTaskShare(Residual):
    """Scores by tasks over the tasks that would still fit."""

    measure = "part of the tasks that what is free would take"
    mechanism = "tsf"
    rooms: dict[Shape, Rooms]  # as they were last counted

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.rooms = {}

    def forget(self) -> None:
        """Forget what servers have free, as it may be more now."""
        self.rooms = {}

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:  # noqa: ARG002
        """Return the score by the rooms when they were last counted, 0 if they were not."""
        rooms = self.rooms.get(shape)
        return 0 if rooms is None else share_of_rooms(queue, shape, rooms)

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:  # noqa: ARG002
        """Return the score of a queue with a task. O(servers)."""
        rooms = self.rooms.get(shape)
        if rooms is None or rooms.counted_at != self.starts:
            rooms = self.count(shape)
            self.rooms[shape] = rooms
        return share_of_rooms(queue, shape, rooms)

    def count(self, shape: Shape) -> Rooms:
        """Count the tasks of a shape that would fit: by resource, where that is the scarcest."""
        demand = shape.demand
        width = self.width
        sums = zeros(width)
        for server in self.servers.values():
            free = server.free
            scarcest = shape.lead
            r = scarcest + 1
            while r < width:
                if demand[r] > 0 and is_less(free[r], demand[r], free[scarcest], demand[scarcest]):
                    scarcest = r
                r += 1
            if free[scarcest] > 0:
                sums[scarcest] += free[scarcest]
        tasks, parts = 0, common_parts(shape)
        for r in range(width):
            if sums[r] > 0:
                tasks += int(sums[r]) * (parts // int(demand[r]))
        return Rooms(tasks, parts, self.starts)


def share_of_rooms(queue: Queue, shape: Shape, rooms: Rooms) -> int:
    """Return the score of a queue for a task of a shape, whose rooms are known."""
    held, demand, parts = queue.held, shape.demand, rooms.parts
    most = 0
    for r in range(len(held)):
        if demand[r] > 0 and held[r] > 0:
            most = max(most, int(held[r]) * (parts // int(demand[r])))
    scale, weight = scale_of(queue)
    return (most * scale) // (rooms.tasks * weight) if rooms.tasks > 0 else 0


def common_parts(shape: Shape) -> int:
    """Return a number that all amounts of a task divide."""
    parts = 1
    for amount in shape.demand:
        if amount > 0:
            parts *= int(amount)
    return parts


def is_less(a: i64, b: i64, c: i64, d: i64) -> bool:
    """Return whether a / b < c / d; exactly, for b and d above 0, by whole parts and the rest."""
    if a <= 0 or c <= 0:
        return a <= 0 < c
    while True:
        whole, other = a // b, c // d
        if whole != other:
            return whole < other
        rest, left = a - whole * b, c - other * d
        if left == 0 or rest == 0:
            return rest == 0 < left
        a, b, c, d = d, left, b, rest  # rest / b < left / d where d / left < b / rest

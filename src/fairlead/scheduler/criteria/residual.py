"""Residual criteria: shares of the free amounts of all servers, for the next task of a queue.

drf: ``max over r of held[r] / left[r]``, over the resources that the task takes; ``left[r]`` is the
sum over all servers of the free amounts, 0 of servers that are overcommitted.

tsf: ``(max over r of held[r] / d[r]) / fitting``, over the same resources; ``fitting`` counts the
tasks, whole or not, that still fit without constraints: the sum over all servers of
``min over r of free[r] / d[r]``.

Draining servers are among all servers. Both scores are of a task that has room somewhere.
"""

from __future__ import annotations

from math import prod

from mypy_extensions import i64

from fairlead.scheduler._entities import Queue, Server, Shape, Task, zeros
from fairlead.scheduler.criteria.criterion import TaskCriterion, dominant_score, scale_of


class Residual(TaskCriterion):
    """Drops its counts when free amounts may have grown."""

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.starts: i64 = 0  # number of starts of tasks so far

    def count_server(self, server: Server, sign: i64) -> None:
        super().count_server(server, sign)
        self.forget()

    def count_task(self, task: Task, sign: i64) -> None:
        super().count_task(task, sign)
        self.starts += 1
        if sign < 0:
            self.forget()

    def forget(self) -> None:
        raise NotImplementedError


class ResidualDominantShare(Residual):
    measure = "dominant share of the free amounts"

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.left = zeros(width)  # (W,) the free amounts of all servers
        self.counted_at: i64 = -1  # the number of starts before `left` was counted

    def forget(self) -> None:
        self.counted_at = -1

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:  # noqa: ARG002
        """Return the exact score, which is as quick to compute as a bound."""
        if self.counted_at != self.starts:
            self.counted_at = self.starts
            self.count()
        return dominant_score(queue, shape.demand, self.left)

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:
        return self.bound(queue, shape, server)

    def count(self) -> None:
        left = zeros(self.width)
        for server in self.servers.values():
            free = server.free
            for r in range(self.width):
                if free[r] > 0:
                    left[r] += free[r]
        self.left = left


class FittingTasks:
    """The number of tasks of a shape that still fit, as `tasks` over `parts`.

    It was counted after `counted_at` starts of tasks; since then fewer fit.
    """

    def __init__(self, tasks: int, parts: int, counted_at: i64) -> None:
        self.tasks = tasks
        self.parts = parts
        self.counted_at = counted_at


class ResidualTaskShare(Residual):
    measure = "tasks over those that still fit"
    mechanism = "tsf"

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.fitting: dict[Shape, FittingTasks] = {}  # as last counted

    def forget(self) -> None:
        self.fitting = {}

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:  # noqa: ARG002
        """Return the score for the last count of fitting tasks, or 0 without a count."""
        fitting = self.fitting.get(shape)
        return 0 if fitting is None else share_of_fitting(queue, shape, fitting)

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:  # noqa: ARG002
        """Return the score of a queue with a task. O(servers)."""
        fitting = self.fitting.get(shape)
        if fitting is None or fitting.counted_at != self.starts:
            fitting = self.count(shape)
            self.fitting[shape] = fitting
        return share_of_fitting(queue, shape, fitting)

    def count(self, shape: Shape) -> FittingTasks:
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
        tasks, parts = 0, prod([int(amount) for amount in demand if amount > 0])
        for r in range(width):
            if sums[r] > 0:
                tasks += int(sums[r]) * (parts // int(demand[r]))
        return FittingTasks(tasks, parts, self.starts)


def share_of_fitting(queue: Queue, shape: Shape, fitting: FittingTasks) -> int:
    held, demand, parts = queue.held, shape.demand, fitting.parts
    most = 0
    for r in range(len(held)):
        if demand[r] > 0 and held[r] > 0:
            most = max(most, int(held[r]) * (parts // int(demand[r])))
    scale, weight = scale_of(queue)
    return (most * scale) // (fitting.tasks * weight) if fitting.tasks > 0 else 0


def is_less(a: i64, b: i64, c: i64, d: i64) -> bool:
    """Return whether a / b < c / d, exactly and in 64 bits, for b and d above 0."""
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

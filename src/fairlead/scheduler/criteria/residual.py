"""Residual criteria: shares of the free amounts of all servers, for the next task of a queue.

Residual drf: ``max over r of held[r] / free[r]``, over the resources that the task takes.
``free[r]`` is the sum of the free amounts of all servers, to which overcommitted ones add 0.

Residual tsf: ``(max over r of held[r] / d[r]) / fitting``, over the same resources of the demand d.
``fitting`` is the number of tasks, whole or not, that still fit without constraints: the sum over
all servers of ``min over r of free[r] / d[r]``.

Draining servers count, too. While tasks are placed, only tasks with room on some server are scored.
"""

from __future__ import annotations

from math import prod

from mypy_extensions import i64

from fairlead.scheduler._entities import Queue, Server, Shape, Task, zeros
from fairlead.scheduler.criteria.criterion import TaskCriterion, dominant_score, score_factor


class Residual(TaskCriterion):
    """Base of both criteria: stores counts of free amounts, until these may have grown.

    While tasks only start, an earlier count still gives a lower bound of the score.
    """

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.changes: i64 = 0  # number of starts and ends of tasks so far

    def count_server(self, server: Server, sign: i64) -> None:
        super().count_server(server, sign)
        self.forget()

    def count_task(self, task: Task, sign: i64) -> None:
        super().count_task(task, sign)
        self.changes += 1
        if sign < 0:
            self.forget()

    def forget(self) -> None:
        """Forget all stored counts."""
        raise NotImplementedError


class ResidualDominantShare(Residual):
    """Scores queues by their dominant shares of all free amounts."""

    measure = "dominant share of the free amounts"

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.free = zeros(width)  # (W,) the sum of the free amounts of all servers
        self.counted_at: i64 = -1  # `changes` when `free` was computed; -1 if unknown

    def forget(self) -> None:
        self.counted_at = -1

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:  # noqa: ARG002
        """Return the exact score, which is as quick to compute as a bound."""
        if self.counted_at != self.changes:
            self.counted_at = self.changes
            self.sum_free()
        return dominant_score(queue, shape.demand, self.free)

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:
        return self.bound(queue, shape, server)

    def sum_free(self) -> None:
        """Compute the sum of the free amounts. O(servers)."""
        total = zeros(self.width)
        for server in self.servers.values():
            free = server.free
            for r in range(self.width):
                if free[r] > 0:
                    total[r] += free[r]
        self.free = total


class FittingTasks:
    """The number of tasks of a shape that still fit, whole or not: `numerator / denominator`."""

    def __init__(self, numerator: int, denominator: int, counted_at: i64) -> None:
        self.numerator = numerator
        self.denominator = denominator  # a multiple of each positive amount of the demand
        self.counted_at = counted_at  # `changes` when it was counted; fewer may fit since


class ResidualTaskShare(Residual):
    """Scores queues by their tasks over the number of tasks that still fit."""

    measure = "tasks over the tasks that still fit"
    mechanism = "tsf"

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.fitting: dict[Shape, FittingTasks] = {}  # as last counted

    def forget(self) -> None:
        self.fitting = {}

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:  # noqa: ARG002
        """Return the score by the last count of fitting tasks, or 0 without a count."""
        fitting = self.fitting.get(shape)
        return 0 if fitting is None else fitting_score(queue, shape, fitting)

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:  # noqa: ARG002
        """Return the score of a queue with a task. O(servers)."""
        fitting = self.fitting.get(shape)
        if fitting is None or fitting.counted_at != self.changes:
            fitting = self.count_fitting(shape)
            self.fitting[shape] = fitting
        return fitting_score(queue, shape, fitting)

    def count_fitting(self, shape: Shape) -> FittingTasks:
        """Count the tasks of a shape that still fit. O(servers).

        Free amounts are summed by the scarcest resource of each server, and then divided once.
        """
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
        numerator, denominator = 0, prod([int(amount) for amount in demand if amount > 0])
        for r in range(width):
            if sums[r] > 0:
                numerator += int(sums[r]) * (denominator // int(demand[r]))
        return FittingTasks(numerator, denominator, self.changes)


def fitting_score(queue: Queue, shape: Shape, fitting: FittingTasks) -> int:
    """Return the score of ``(max over r of held[r] / d[r]) / fitting``; 0 if nothing fits."""
    if fitting.numerator == 0:
        return 0
    held, demand = queue.held, shape.demand
    tasks = 0  # the number that the queue holds, in units of 1 / fitting.denominator
    for r in range(len(held)):
        if demand[r] > 0 and held[r] > 0:
            tasks = max(tasks, int(held[r]) * (fitting.denominator // int(demand[r])))
    scale, weight = score_factor(queue)
    return (tasks * scale) // (fitting.numerator * weight)


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

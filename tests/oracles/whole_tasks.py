"""Whole tasks on one pool by the definitions, task by task, in exact numbers."""

from __future__ import annotations

import heapq
from fractions import Fraction
from functools import lru_cache
from math import floor, lcm

import numpy as np

from fairlead.model.problem import Problem
from fairlead.model.quantity import exact

Amounts = list[int]

# Few enough tasks to place them one by one.
MOST_TASKS = 3_000


def count_at_most(problem: Problem) -> float:
    """Return a bound on the tasks that fit."""
    alone = problem.pooled().gamma[:, 0]
    return float(np.minimum(alone, problem.task_limit).sum())


class ExactPool:
    """The pool's capacity, the demands and the dominant share of one task of each user.

    Amounts count a unit of each resource that divides them all, which is faster than fractions.
    """

    def __init__(self, problem: Problem) -> None:
        cluster, users = problem.cluster, problem.users
        resources = range(problem.n_resources)
        self.capacity: Amounts = []
        columns = []
        for r in resources:
            servers = [exact(c) for c in cluster.capacity[:, r]]
            tasks = [exact(d) for d in users.demand[:, r]]
            unit = lcm(*(amount.denominator for amount in (*servers, *tasks)))
            in_all = sum(int(k) * c for k, c in zip(cluster.count, servers, strict=True))
            self.capacity.append(int(unit * in_all))
            columns.append([int(unit * d) for d in tasks])
        self.demand: list[Amounts] = [list(row) for row in zip(*columns, strict=True)]
        weight = users.resource_weight
        if weight is None:
            weight = np.repeat(users.weight[:, None], problem.n_resources, axis=1)
        self.share = [
            max(row[r] / (exact(weight[n, r]) * self.capacity[r]) for r in resources if row[r] > 0)
            for n, row in enumerate(self.demand)
        ]
        self.limit = [None if np.isinf(k) else floor(k) for k in users.task_limit]

    def has_more(self, n: int, tasks: int) -> bool:
        """Return whether user n has more tasks than these."""
        limit = self.limit[n]
        return limit is None or tasks < limit


# Tests solve one problem by all mechanisms, before the next problem.
exact_pool = lru_cache(maxsize=1)(ExactPool)


def room_after(pool: ExactPool, tasks: list[int]) -> Amounts:
    """Return the amount of each resource that tasks leave free."""
    return [
        c - sum(k * row[r] for k, row in zip(tasks, pool.demand, strict=True))
        for r, c in enumerate(pool.capacity)
    ]


def fits(demand: Amounts, room: Amounts) -> bool:
    return all(d <= c for d, c in zip(demand, room, strict=True))


def tasks_by_turns(problem: Problem, *, stops: bool) -> list[int]:
    """Return the tasks of each user if the user with the least dominant share gets the next one.

    `stops` is whether the filling ends at the first task without room, as in DRF's Algorithm 1.
    """
    pool = exact_pool(problem)
    tasks = [0] * problem.n_users
    room = list(pool.capacity)
    unit = lcm(*(ds.denominator for ds in pool.share))
    share = [int(unit * ds) for ds in pool.share]
    waiting = [(0, -ds, n) for n, ds in enumerate(share) if pool.has_more(n, 0)]
    heapq.heapify(waiting)
    while waiting:
        _, _, n = heapq.heappop(waiting)
        if not fits(pool.demand[n], room):
            if stops:
                break
            continue
        tasks[n] += 1
        room = [c - d for c, d in zip(room, pool.demand[n], strict=True)]
        if pool.has_more(n, tasks[n]):
            heapq.heappush(waiting, (tasks[n] * share[n], -share[n], n))
    return tasks


def precomputed_tasks(problem: Problem, *, topped_up: bool) -> list[int]:
    """Return the tasks of each user by the printed formula of PDRF, with k and ds*.

    `topped_up` is whether each user may then get one more task.
    """
    pool = exact_pool(problem)
    largest = max(pool.share)
    cycle = [
        sum(
            (largest / ds * row[r] for ds, row in zip(pool.share, pool.demand, strict=True)),
            Fraction(0),
        )
        for r in range(problem.n_resources)
    ]
    k = min(c / used for c, used in zip(pool.capacity, cycle, strict=True) if used > 0)
    tasks = [floor(k * largest / ds) for ds in pool.share]
    tasks = [t if pool.limit[n] is None else min(t, pool.limit[n]) for n, t in enumerate(tasks)]
    if topped_up:
        for n in sorted(
            range(len(tasks)), key=lambda n: (tasks[n] * pool.share[n], -pool.share[n], n)
        ):
            if pool.has_more(n, tasks[n]) and fits(pool.demand[n], room_after(pool, tasks)):
                tasks[n] += 1
    return tasks


def oracle_tasks(problem: Problem, mechanism: str) -> list[int]:
    """Return the tasks of each user under a mechanism of whole tasks."""
    if mechanism.startswith("pdrf"):
        return precomputed_tasks(problem, topped_up=mechanism == "pdrf")
    return tasks_by_turns(problem, stops=mechanism == "drf-algorithm-1")

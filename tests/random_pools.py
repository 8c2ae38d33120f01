"""Random pools for whole tasks, from a seeded generator: many ties, and none; wide scales."""

from __future__ import annotations

import numpy as np

from fairlead.model.problem import Problem

KINDS = ("whole", "few", "tenths", "alike", "measured", "wide")
MOST_TASKS = 3_000


def random_pool(rng: np.random.Generator) -> Problem:
    """Return a pool that holds few enough tasks to place them one by one."""
    while True:
        problem = _draw(rng)
        if count_at_most(problem) <= MOST_TASKS:
            return problem


def count_at_most(problem: Problem) -> float:
    """Return a bound on the tasks that fit."""
    alone = problem.pooled().gamma[:, 0]
    return float(np.minimum(alone, problem.task_limit).sum())


def _draw(rng: np.random.Generator) -> Problem:
    kind = KINDS[rng.integers(len(KINDS))]
    n_users, n_groups, n_resources = rng.integers(1, (13, 4, 5))
    shape = (n_users, n_resources)
    capacity = rng.integers(1, 60, (n_groups, n_resources)).astype(float)
    if kind == "few":
        demand = rng.choice([1.0, 2.0, 3.0], shape)
        capacity = rng.choice([6.0, 12.0, 24.0], capacity.shape)
    elif kind == "alike":
        demand = rng.integers(1, 6, shape)[rng.integers(0, n_users, n_users)].astype(float)
    elif kind == "measured":
        demand, capacity = rng.uniform(0.1, 9, shape), rng.uniform(1, 60, capacity.shape)
    elif kind == "wide":
        demand = 10 ** rng.uniform(-6, 1, shape)
    else:
        demand = rng.integers(1, 12, shape).astype(float)
    if kind == "tenths":
        demand, capacity = demand / 10, capacity / 10
    demand[rng.random(shape) < rng.choice([0.0, 0.3])] = 0.0
    demand[~(demand > 0).any(axis=1), 0] = 1.0
    return Problem.from_arrays(
        capacity,
        demand,
        count=rng.integers(1, 5, n_groups),
        weight=_weights(rng, n_users, n_resources),
        task_limit=rng.choice([np.inf, 0.5, 3.0, 10.0, 40.7], n_users)
        if rng.random() < 0.4
        else None,
    )


def _weights(rng: np.random.Generator, n_users: int, n_resources: int) -> np.ndarray | None:
    match rng.integers(5):
        case 0:
            return rng.choice([0.5, 1.0, 2.0, 3.0], n_users)
        case 1:
            return rng.choice([0.5, 1.0, 2.0], (n_users, n_resources))
        case 2:
            return rng.uniform(0.25, 4.0, n_users)
        case _:
            return None

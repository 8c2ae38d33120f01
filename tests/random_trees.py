"""Random problems with users in trees of queues."""

from __future__ import annotations

from random import Random

import numpy as np

from fairlead.errors import ProblemError
from fairlead.model.problem import Problem

AMOUNTS = [0, 0, 1, 2, 3, 5, 0.3]
WEIGHTS = [1, 1, 2, 3, 0.5]


def random_tree(random: Random, *, servers: int = 1, limits: bool = False) -> Problem:
    """Return a problem of up to 7 users, 4 queues and some servers, of small or wild amounts."""
    while True:
        n_resources = random.randint(1, 3)
        n_users = random.randint(2, 7)
        n_groups = random.randint(1, servers)
        scale = random.choice([1, 1, 1e-30, 1e40, np.pi])
        capacity = [
            [random.choice([0, 1, 2, 3, 5, 8]) for _ in range(n_resources)] for _ in range(n_groups)
        ]
        demand = [[random.choice(AMOUNTS) for _ in range(n_resources)] for _ in range(n_users)]
        eligible = [[random.random() < 0.8 for _ in range(n_groups)] for _ in range(n_users)]
        has_limit = [limits and random.random() < 0.4 for _ in range(n_users)]
        try:
            problem = Problem.from_arrays(
                np.array(capacity) * scale,
                np.array(demand) * scale,
                weight=[random.choice(WEIGHTS) for _ in range(n_users)],
                eligible=eligible,
                task_limit=[random.random() * 6 if limited else np.inf for limited in has_limit],
            )
        except ProblemError:  # a user without demand, or that fits nowhere
            continue
        return problem.with_queues(*random_queues(random, n_users))


def random_queues(random: Random, n_users: int) -> tuple[list[dict[str, object]], list[str | None]]:
    """Return rows of queues, and a queue of each user."""
    names: list[str | None] = [None]
    rows: list[dict[str, object]] = []
    for q in range(random.randint(1, 4)):
        row = {"name": f"q{q}", "parent": random.choice(names), "weight": random.choice(WEIGHTS)}
        rows.append(row)
        names.append(f"q{q}")
    return rows, [random.choice(names) for _ in range(n_users)]

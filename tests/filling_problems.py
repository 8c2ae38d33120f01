"""Small problems to fill with whole tasks: many ties, zeros, decimals and odd weights."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from fairlead.errors import RefusalError
from fairlead.model.problem import Problem
from fairlead.scheduler.policies import SELECTIONS, Policy, find_policy


def _meaningful() -> list[Policy]:
    found = []
    for criterion in ("drf", "tsf", "ps-dsf"):
        for select in SELECTIONS:
            for residual in (False, True):
                try:
                    found.append(find_policy(criterion, select, residual))
                except RefusalError:
                    continue
    return found


POLICIES = _meaningful()

# Amounts are this many times smaller than small whole numbers.
_PARTS = (1, 10, 64)
_WEIGHTS = st.sampled_from([1.0, 1.0, 2.0, 3.0, 0.1, 0.3])


@st.composite
def filling_problems(
    draw: st.DrawFn, largest_users: int = 5, largest_servers: int = 8, largest_capacity: int = 12
) -> Problem:
    """Draw a valid problem in which each user fits one task somewhere."""
    n_users = draw(st.integers(1, largest_users))
    n_groups = draw(st.integers(1, 3))
    n_resources = draw(st.integers(1, 3))
    parts = draw(st.sampled_from(_PARTS))
    capacity = np.array(
        [
            [draw(st.integers(0, largest_capacity)) for _ in range(n_resources)]
            for _ in range(n_groups)
        ]
    )
    demand = np.array(
        [[draw(st.integers(0, 4)) for _ in range(n_resources)] for _ in range(n_users)]
    )
    count = [draw(st.integers(1, max(1, largest_servers // n_groups))) for _ in range(n_groups)]
    eligible = np.array([[draw(st.booleans()) for _ in range(n_groups)] for _ in range(n_users)])
    for n in range(n_users):
        if not demand[n].any():
            demand[n, draw(st.integers(0, n_resources - 1))] = 1
        if not ((capacity >= demand[n]).all(axis=1) & eligible[n]).any():
            g = draw(st.integers(0, n_groups - 1))
            eligible[n, g] = True
            capacity[g] = np.maximum(capacity[g], demand[n])
    limits = [draw(st.sampled_from([np.inf, np.inf, 1.0, 2.5, 7.0, 0.5])) for _ in range(n_users)]
    return Problem.from_arrays(
        capacity / parts,
        demand / parts,
        count=count,
        weight=[draw(_WEIGHTS) for _ in range(n_users)],
        eligible=eligible,
        task_limit=limits,
    )


def random_filling_problem(
    rng: np.random.Generator, n_users: int, n_servers: int, n_resources: int
) -> Problem:
    """Return a problem of unlike servers and users with amounts of sixteen digits."""
    n_groups = 4
    capacity = rng.uniform(0.5, 1.5, (n_groups, n_resources))
    demand = rng.uniform(0.02, 0.2, (n_users, n_resources))
    demand[rng.random(demand.shape) < 0.1] = 0.0
    demand[:, 0] = np.maximum(demand[:, 0], 0.02)
    eligible = rng.random((n_users, n_groups)) < 0.8
    eligible[:, 0] = True
    return Problem.from_arrays(
        capacity,
        demand,
        count=rng.multinomial(n_servers - n_groups, np.full(n_groups, 1 / n_groups)) + 1,
        weight=rng.uniform(0.5, 3.0, n_users),
        eligible=eligible,
        task_limit=np.where(rng.random(n_users) < 0.3, rng.integers(1, 40, n_users), np.inf),
    )

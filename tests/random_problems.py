"""Random problems from a seeded generator, for tests and benchmarks alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem

# Count, CPU and memory of the servers of a Google cluster, both normalised to the largest
# server (Wang, Liang and Li 2015, Table I).
GOOGLE_PARK = np.array(
    [
        (6732, 0.50, 0.50),
        (3863, 0.50, 0.25),
        (1001, 0.50, 0.75),
        (795, 1.00, 1.00),
        (126, 0.25, 0.25),
        (52, 0.50, 0.12),
        (5, 0.50, 0.03),
        (5, 0.50, 0.97),
        (3, 1.00, 0.50),
        (1, 0.50, 0.06),
    ]
)


def google_park(
    rng: np.random.Generator, n_users: int, constrained: float = 0.0, limited: float = 0.0
) -> Problem:
    """Return Google's park of 12,583 servers in 10 groups, shared by random users.

    Demands are uniform on 0.01..0.5 of the largest server. `constrained` and `limited` are the
    fractions of users with `random_eligibility`, and with `random_limits`.
    """
    capacity, count = GOOGLE_PARK[:, 1:], GOOGLE_PARK[:, 0]
    demand = rng.uniform(0.01, 0.5, (n_users, 2))
    return Problem.from_arrays(
        capacity,
        demand,
        count=count,
        eligible=random_eligibility(rng, n_users, len(count), constrained),
        task_limit=random_limits(rng, capacity * count[:, None], demand, limited),
        resources=("cpu", "memory"),
    )


def random_problem(
    rng: np.random.Generator,
    n_users: int,
    n_groups: int,
    n_resources: int,
    *,
    constrained: float = 0.0,
    limited: float = 0.0,
    zero_demand: float = 0.0,
    zero_capacity: float = 0.0,
    weighted: bool = False,
    decades: float = 1.0,
    largest_count: int = 5,
) -> Problem:
    """Return a random problem; users that fit nowhere have been repaired.

    - `constrained`, `limited`: fractions of users with placement constraints and finite tasks;
    - `zero_demand`, `zero_capacity`: chance of each demand and capacity to be zero;
    - `decades`: orders of magnitude over which demands and capacities are spread;
    - `largest_count`: servers per group are uniform from 1 to it.
    """
    capacity = 10 ** rng.uniform(0, decades, (n_groups, n_resources))
    capacity[rng.random(capacity.shape) < zero_capacity] = 0.0
    demand = 10 ** rng.uniform(-decades, 0, (n_users, n_resources))
    demand[rng.random(demand.shape) < zero_demand] = 0.0
    count = rng.integers(1, largest_count + 1, n_groups)
    eligible = random_eligibility(rng, n_users, n_groups, constrained)
    capacity, demand, eligible = repair(capacity, demand, eligible)
    return Problem.from_arrays(
        capacity,
        demand,
        count=count,
        weight=rng.uniform(0.5, 4.0, n_users) if weighted else None,
        eligible=eligible,
        task_limit=random_limits(rng, capacity * count[:, None], demand, limited),
    )


def random_eligibility(
    rng: np.random.Generator, n_users: int, n_groups: int, constrained: float
) -> NDArray[np.bool_]:
    """Return (N, G) bool: a random non-empty subset of the groups for some of the users."""
    eligible = np.ones((n_users, n_groups), dtype=bool)
    for n in np.flatnonzero(rng.random(n_users) < constrained):
        eligible[n] = rng.random(n_groups) < 0.5
        eligible[n, rng.integers(n_groups)] = True
    return eligible


def random_limits(
    rng: np.random.Generator,
    group_capacity: NDArray[np.float64],
    demand: NDArray[np.float64],
    limited: float,
) -> NDArray[np.float64]:
    """Return (N,) float: finite tasks for some users, from binding to beyond reach."""
    n_users = len(demand)
    asks = demand > 0
    alone = np.where(asks, group_capacity.sum(axis=0) / np.where(asks, demand, 1.0), np.inf)
    equal_share = alone.min(axis=1) / n_users
    spread = 10 ** rng.uniform(-2, 2, n_users)
    finite = rng.random(n_users) < limited
    return np.where(finite, np.maximum(equal_share * spread, 1e-6), np.inf)


def repair(
    capacity: NDArray[np.float64], demand: NDArray[np.float64], eligible: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Change as little as makes every user demand something and fit somewhere.

    A user that no group can serve keeps only those demands that some group has, all together or
    else one alone, and is allowed on the first group that can then serve it.
    """
    capacity, demand, eligible = capacity.copy(), demand.copy(), eligible.copy()
    if not (capacity > 0).any():
        capacity[0, 0] = 1.0
    for n in range(len(demand)):
        if not fits(capacity, demand[n]).any():
            richest = int((capacity > 0).sum(axis=1).argmax())
            kept = np.where(capacity[richest] > 0, demand[n], 0.0)
            if not (kept > 0).any():
                kept[int(capacity[richest].argmax())] = 1.0
            demand[n] = kept
        serving = fits(capacity, demand[n])
        if not (serving & eligible[n]).any():
            eligible[n, int(serving.argmax())] = True
    return capacity, demand, eligible


def fits(capacity: NDArray[np.float64], demand: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return (G,) bool: which groups have all that a task of this (R,) demand asks for."""
    asks = demand > 0
    if not asks.any():
        return np.zeros(len(capacity), dtype=bool)
    serving: NDArray[np.bool_] = (capacity[:, asks] > 0).all(axis=1)
    return serving

"""Best-fit among hundreds of servers with almost the same proportions of free amounts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fairlead.model.cluster import IntArray
from fairlead.scheduler.scheduler import Scheduler

SERVERS, TASKS = 300, 40


def proportions(random: np.random.Generator, size: int, resources: int, spread: float) -> IntArray:
    """Return (size, resources) whole amounts with ratios to the first within 1 +- spread."""
    first = random.integers(10**4, 10**5, size=(size, 1))
    ratio = 1.0 + spread * random.uniform(-1.0, 1.0, (size, resources - 1))
    return np.column_stack([first, np.rint(first * ratio)]).astype(np.int64)


def plain_best(demand: list[int], free: list[list[int]], pool: list[int]) -> int | None:
    """Return the first server with the least H of those with room, by fractions."""
    lead = next(r for r, amount in enumerate(demand) if amount)
    best, least = None, Fraction(0)
    for s, row in enumerate(free):
        if all(has >= wanted for has, wanted in zip(row, demand, strict=True)):
            h = sum(
                abs(Fraction(wanted, demand[lead]) - Fraction(has, row[lead]))
                * Fraction(pool[lead], pool[r])
                for r, (wanted, has) in enumerate(zip(demand, row, strict=True))
            )
            if best is None or h < least:
                best, least = s, h
    return best


@pytest.mark.parametrize(
    ("lead", "resources", "spread"),
    [(0, 2, 1e-3), (1, 2, 1e-2), (0, 3, 1e-2), (1, 3, 1e-3), (0, 3, 0.9)],
)
def test_the_best_of_many_similar_servers_is_found(
    lead: int, resources: int, spread: float
) -> None:
    """A search visits bands of ratios until no other band can be better; the last ones count."""
    random = np.random.default_rng([lead, resources, int(1e4 * spread)])
    names = [f"r{r}" for r in range(resources)]
    free = proportions(random, SERVERS, resources, spread).tolist()
    pool = np.sum(free, axis=0).tolist()
    scheduler = Scheduler(names, "drf/best-fit")
    for s, row in enumerate(free):
        scheduler.add_server(str(s), dict(zip(names, row, strict=True)))
    scheduler.add_queue("ana")
    for row in (proportions(random, TASKS, resources, spread) // 3).tolist():
        demand = [0] * lead + row[lead:]
        scheduler.submit("ana", dict(zip(names, demand, strict=True)))
        wanted = plain_best(demand, free, pool)
        (placement,) = scheduler.place()
        assert placement.server == str(wanted)
        free[wanted] = [has - takes for has, takes in zip(free[wanted], demand, strict=True)]

"""Draw small random problems on which mechanisms are audited."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import ROUNDING, BoolArray, FloatArray
from fairlead.model.problem import Problem

# Fractions of problems that are made to meet a premise that chance hardly ever meets.
ONE_BOTTLENECK = 0.2
ONE_RESOURCE = 0.1
ONE_SERVER = 0.1
# Fraction of problems with whole amounts: these tie, and witnesses can be checked by hand.
WHOLE_AMOUNTS = 0.5
LARGEST_WHOLE = 10


@dataclass(frozen=True)
class Distribution:
    """The distribution of random problems."""

    # The largest numbers; the smallest are 2 users, 1 server and 1 resource.
    users: int = 4
    servers: int = 3
    resources: int = 3
    # Orders of magnitude over which amounts spread, from 0 (all equal) to 6.
    heterogeneity: float = 1.0
    constrained: float = 0.3  # probability that a user may run on a random subset of servers only
    # Probability that a demand is 0, and that a capacity is 0.
    zero_demand: float = 0.0
    limited: float = 0.0  # probability that a user has finitely many tasks
    # Probabilities that the users of a problem have weights, and that they have given rates.
    weighted: float = 0.3
    rated: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("users", "servers", "resources"):
                least, most = (2 if field.name == "users" else 1), 1000
            else:
                least, most = 0, 6 if field.name == "heterogeneity" else 1
            if not least <= value <= most:
                raise InputError(f"must be from {least} to {most}, not {value}", field.name)

    def to_dict(self) -> dict[str, Any]:
        """Return the distribution as plain values, for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def draw(self, random: np.random.Generator) -> Problem:
        """Draw a valid problem.

        Some problems have one resource, one server, or a common bottleneck, so that properties of
        such problems are tested, too.
        """
        n_users = int(random.integers(2, self.users + 1))
        n_groups = int(random.integers(1, self.servers + 1))
        n_resources = int(random.integers(1, self.resources + 1))
        kind = random.random()
        if kind < ONE_RESOURCE:
            n_resources = 1
        elif kind < ONE_RESOURCE + ONE_SERVER:
            n_groups = 1
        bottleneck = kind > 1 - ONE_BOTTLENECK
        whole = bool(random.random() < WHOLE_AMOUNTS)
        capacity = self._draw_amounts(random, n_groups, n_resources, whole)
        demand = self._draw_amounts(random, n_users, n_resources, whole)
        eligible = self._draw_eligible(random, n_users, n_groups)
        demand, eligible = _repair(capacity, demand, eligible)
        if bottleneck:
            demand = _raise_to_bottleneck(
                capacity, demand, eligible, int(random.integers(n_resources))
            )
        capacity *= _servers_for_whole_tasks(capacity, demand, eligible)
        weight = np.ones(n_users)
        if random.random() < self.weighted:
            weight = random.integers(1, 5, n_users).astype(float)
        return Problem.from_arrays(
            capacity,
            demand,
            weight=weight,
            eligible=eligible,
            task_limit=self._draw_limits(random, capacity, demand),
            rates=self._draw_rates(random, capacity, demand),
        )

    def _draw_amounts(
        self, random: np.random.Generator, rows: int, columns: int, whole: bool
    ) -> FloatArray:
        """Draw amounts of the given heterogeneity, some of them 0."""
        shape = (rows, columns)
        if whole:
            largest = max(1, min(LARGEST_WHOLE, round(10**self.heterogeneity)))
            amounts = random.integers(1, largest + 1, shape).astype(float)
        else:
            amounts = 10.0 ** random.uniform(0.0, self.heterogeneity, shape)
        amounts[random.random(shape) < self.zero_demand] = 0.0
        return amounts

    def _draw_eligible(self, random: np.random.Generator, n_users: int, n_groups: int) -> BoolArray:
        constrained = random.random(n_users) < self.constrained
        allowed: BoolArray = ~constrained[:, None] | (random.random((n_users, n_groups)) < 0.5)
        return allowed

    def _draw_rates(
        self, random: np.random.Generator, capacity: FloatArray, demand: FloatArray
    ) -> FloatArray | None:
        """Draw rates for all users, 0 where a server lacks a demanded resource; or return None."""
        if random.random() >= self.rated:
            return None
        rates = self._draw_amounts(random, len(demand), len(capacity), True)
        lacks = ((demand > 0)[:, None, :] & ~(capacity > 0)[None, :, :]).any(axis=2)
        return np.where(lacks, 0.0, np.maximum(rates, 1.0))

    def _draw_limits(
        self, random: np.random.Generator, capacity: FloatArray, demand: FloatArray
    ) -> FloatArray:
        """Draw numbers of tasks, from a tenth of an equal share to two shares; some infinite."""
        finite = random.random(len(demand)) < self.limited
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(demand > 0, capacity.sum(axis=0) / demand, np.inf).min(axis=1)
        fraction = random.uniform(0.1, 2.0, len(demand)) / len(demand)
        return np.where(finite, np.maximum(alone * fraction, 1e-3), np.inf)


def _repair(
    capacity: FloatArray, demand: FloatArray, eligible: BoolArray
) -> tuple[FloatArray, BoolArray]:
    """Change demands and eligibility so that every user has a demand and fits on a server."""
    if not (capacity > 0).any():
        capacity[0, 0] = 1.0
    for n in range(len(demand)):
        lacks = (demand[n] > 0) & ~(capacity > 0)
        if lacks.any(axis=1).all() or not (demand[n] > 0).any():
            richest = int((capacity > 0).sum(axis=1).argmax())
            demand[n] = np.where(capacity[richest] > 0, np.maximum(demand[n], 1.0), 0.0)
            lacks = (demand[n] > 0) & ~(capacity > 0)
        serving = ~lacks.any(axis=1)
        if not (serving & eligible[n]).any():
            eligible[n, int(serving.argmax())] = True
    return demand, eligible


def _servers_for_whole_tasks(
    capacity: FloatArray, demand: FloatArray, eligible: BoolArray
) -> float:
    """Return the whole factor by which servers must grow so that a task of each user fits."""
    taken = np.full((len(demand), len(capacity)), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        for r in range(capacity.shape[1]):
            share = demand[:, r, None] / capacity[None, :, r]
            taken = np.maximum(taken, np.where(demand[:, r, None] > 0, share, 0.0))
    taken = np.where(eligible, taken, np.inf)
    return float(max(1.0, np.ceil(taken.min(axis=1).max() - ROUNDING)))


def _raise_to_bottleneck(
    capacity: FloatArray, demand: FloatArray, eligible: BoolArray, resource: int
) -> FloatArray:
    """Raise each demand for one resource until it is dominant wherever the user may run."""
    if not (capacity[:, resource] > 0).all():
        return demand
    raised = demand.copy()
    for n in range(len(demand)):
        where = eligible[n] & ~((demand[n] > 0) & ~(capacity > 0)).any(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(demand[n] > 0, demand[n] / capacity[where], 0.0)
        needed = (share.max(axis=1) * capacity[where, resource]).max()
        raised[n, resource] = max(demand[n, resource], needed)
    return raised

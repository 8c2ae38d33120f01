"""Random problems to audit mechanisms on: small ones, of all kinds that break fairness."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.fitting import ROUNDING
from fairlead.model.problem import Problem

# How many problems of a hundred are made to meet a premise that chance hardly ever meets.
ONE_BOTTLENECK = 0.2
ONE_RESOURCE = 0.1
ONE_SERVER = 0.1
# Whole amounts tie, and make witnesses that one can check by hand.
WHOLE_AMOUNTS = 0.5
LARGEST_WHOLE = 10


@dataclass(frozen=True)
class Distribution:
    """What random problems look like."""

    # The most of each; every problem has from 2 users, 1 server and 1 resource up to that.
    users: int = 4
    servers: int = 3
    resources: int = 3
    # Orders of magnitude over which amounts spread, from 0, when all are alike.
    heterogeneity: float = 1.0
    constrained: float = 0.3  # the chance that a user may run on a random part of the servers only
    # The chance that a task takes nothing of a resource, and that a server has none of it.
    zero_demand: float = 0.0
    limited: float = 0.0  # the chance that a user has finitely many tasks
    # The chance that a problem's users have weights, and that they give rates, not demands.
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

        Some have one resource, one server, or a common bottleneck,
        so that properties of such problems are tested, too.
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
        capacity = self._amounts(random, n_groups, n_resources, whole)
        demand = self._amounts(random, n_users, n_resources, whole)
        eligible = self._eligible(random, n_users, n_groups)
        demand, eligible = _repaired(capacity, demand, eligible)
        if bottleneck:
            demand = _with_bottleneck(capacity, demand, eligible, int(random.integers(n_resources)))
        capacity *= _servers_for_whole_tasks(capacity, demand, eligible)
        weight = np.ones(n_users)
        if random.random() < self.weighted:
            weight = random.integers(1, 5, n_users).astype(float)
        return Problem.from_arrays(
            capacity,
            demand,
            weight=weight,
            eligible=eligible,
            task_limit=self._limits(random, capacity, demand),
            rates=self._rates(random, capacity, demand),
        )

    def _amounts(
        self, random: np.random.Generator, rows: int, columns: int, whole: bool
    ) -> FloatArray:
        shape = (rows, columns)
        if whole:
            largest = max(1, min(LARGEST_WHOLE, round(10**self.heterogeneity)))
            amounts = random.integers(1, largest + 1, shape).astype(float)
        else:
            amounts = 10.0 ** random.uniform(0.0, self.heterogeneity, shape)
        amounts[random.random(shape) < self.zero_demand] = 0.0
        return amounts

    def _eligible(self, random: np.random.Generator, n_users: int, n_groups: int) -> BoolArray:
        kept = random.random(n_users) < self.constrained
        allowed: BoolArray = ~kept[:, None] | (random.random((n_users, n_groups)) < 0.5)
        return allowed

    def _rates(
        self, random: np.random.Generator, capacity: FloatArray, demand: FloatArray
    ) -> FloatArray | None:
        """Draw rates for all users, 0 where a server lacks what they demand, or none."""
        if random.random() >= self.rated:
            return None
        rates = self._amounts(random, len(demand), len(capacity), True)
        lacks = ((demand > 0)[:, None, :] & ~(capacity > 0)[None, :, :]).any(axis=2)
        return np.where(lacks, 0.0, np.maximum(rates, 1.0))

    def _limits(
        self, random: np.random.Generator, capacity: FloatArray, demand: FloatArray
    ) -> FloatArray:
        """Draw finite tasks, from a sliver of an equal share to several of them."""
        finite = random.random(len(demand)) < self.limited
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(demand > 0, capacity.sum(axis=0) / demand, np.inf).min(axis=1)
        part = random.uniform(0.1, 2.0, len(demand)) / len(demand)
        return np.where(finite, np.maximum(alone * part, 1e-3), np.inf)


def _repaired(
    capacity: FloatArray, demand: FloatArray, eligible: BoolArray
) -> tuple[FloatArray, BoolArray]:
    """Change as little as makes every user demand something and fit somewhere."""
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
    """Return by what whole number all servers have to grow so that a task of each user fits."""
    part = np.full((len(demand), len(capacity)), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        for r in range(capacity.shape[1]):
            taken = demand[:, r, None] / capacity[None, :, r]
            part = np.maximum(part, np.where(demand[:, r, None] > 0, taken, 0.0))
    part = np.where(eligible, part, np.inf)
    return float(max(1.0, np.ceil(part.min(axis=1).max() - ROUNDING)))


def _with_bottleneck(
    capacity: FloatArray, demand: FloatArray, eligible: BoolArray, resource: int
) -> FloatArray:
    """Raise every user's demand for one resource until it is dominant wherever it may run."""
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

"""Hypothesis strategies for small problems of every kind, ties and extremes included."""

from __future__ import annotations

from functools import cache
from itertools import compress, product

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairlead.mechanisms import catalogue
from fairlead.model.problem import Problem
from random_problems import fits, repair

# Few enough that Hypothesis draws them evenly.
SEEDS = st.integers(0, 2**24 - 1)
ALL_FEATURES = (
    catalogue.CONSTRAINTS,
    catalogue.LIMITS,
    catalogue.RATES,
    catalogue.RESOURCE_WEIGHTS,
)

# How many cells of a table that has zeros are, and how many rows repeat another.
ZEROS = 0.5
REPEATED = 0.3
# Parts of what a user could run alone: a sliver, about a fair share, all that fits, more.
PARTS = (1e-3, 0.1, 0.25, 0.5, 1.0, 2.0, 1e3)


def _amounts(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Draw amounts of a kind.

    Whole numbers tie exactly, also after a division or two; "wide" ones differ by many orders of
    magnitude (only on request: there an answer may be refused); "any" are what measurement gives.
    """
    if kind == "few":
        return rng.integers(1, 3, shape).astype(float)
    if kind == "whole":
        return rng.integers(1, 11, shape).astype(float)
    if kind == "wide":
        return rng.integers(1, 10, shape) * 10.0 ** rng.integers(-4, 5, shape)
    # A fifth are small, and a fifth are values that measurements repeat.
    values = rng.integers(1_000, 999_984, shape)
    chosen = rng.integers(0, 5, shape)
    values = np.where(chosen == 0, 1_000 + values // 200, values)
    return np.where(chosen == 1, values.flat[0], values) / 99_991


def _table(
    rng: np.random.Generator,
    kind: str,
    largest: tuple[int, int],
    shape: tuple[int, int],
    zeros: bool,
) -> NDArray[np.float64]:
    """Draw a table, with zeros in it or not; rows repeat now and then.

    It is the corner of a larger one, so that a smaller problem of a seed is a part of a larger.
    """
    table = _amounts(rng, kind, largest)
    empty = rng.random(largest) < ZEROS
    if zeros:
        table[empty] = 0.0
    rows = np.arange(largest[0])
    for k in np.flatnonzero(rng.random(largest[0]) < REPEATED):
        rows[k] = rows[rng.integers(0, k)] if k else 0
    return table[rows[: shape[0]], : shape[1]]


@cache
def _sizes_and_kinds(
    least: tuple[int, ...], most: tuple[int, ...], kinds: tuple[str, ...]
) -> st.SearchStrategy[tuple[tuple[int, ...], str]]:
    """Return a strategy for sizes from least to most, smaller in all first, with a kind each.

    One choice among all is evenly drawn, where choices one by one are made alike by Hypothesis.
    """
    sizes = product(*(range(a, z + 1) for a, z in zip(least, most, strict=True)))
    return st.sampled_from(list(product(sorted(sizes, key=sum), kinds)))


@cache
def _flags(count: int) -> st.SearchStrategy[tuple[bool, ...]]:
    return st.sampled_from(list(product((False, True), repeat=count)))


@cache
@st.composite
def problems(
    draw: st.DrawFn,
    features: tuple[str, ...] = (),
    force: tuple[str, ...] = (),
    *,
    largest_users: int = 8,
    largest_groups: int = 5,
    largest_resources: int = 4,
    zeros: bool = True,
    kinds: tuple[str, ...] = ("whole", "few", "any"),
) -> Problem:
    """Draw a valid problem: its sizes and kind one by one, all cells from one seed.

    - `features`, `force`: features that it may have, and must have, by names of the catalogue;
    - `zeros`: whether demands and capacities may be zero;
    - `kinds`: kinds of amounts to draw from, as in `_amounts`.
    """
    smallest_groups = 2 if catalogue.CONSTRAINTS in force else 1
    smallest_resources = 2 if catalogue.RESOURCE_WEIGHTS in force else 1
    most = largest_users, largest_groups, largest_resources
    least = 1, smallest_groups, smallest_resources
    (n_users, n_groups, n_resources), kind = draw(_sizes_and_kinds(least, most, kinds))
    optional = [feature for feature in ALL_FEATURES if feature in features and feature not in force]
    *chosen, with_zeros = draw(_flags(len(optional) + 1))
    with_zeros = with_zeros and zeros
    wanted = {*force, *compress(optional, chosen)}
    rng = np.random.default_rng(draw(SEEDS))
    capacity = _table(rng, kind, most[1:], (n_groups, n_resources), with_zeros)
    demand = _table(rng, kind, most[::2], (n_users, n_resources), with_zeros)
    eligible = np.ones((n_users, n_groups), dtype=bool)
    if catalogue.CONSTRAINTS in wanted:
        eligible = rng.integers(0, 2, most[:2])[:n_users, :n_groups] == 1
    capacity, demand, eligible = repair(capacity, demand, eligible)
    if catalogue.CONSTRAINTS in force:
        eligible = _constrain_somebody(capacity, demand, eligible)
    count = rng.integers(1, 6, largest_groups)[:n_groups]
    weight = _weights(rng, n_users, n_resources, catalogue.RESOURCE_WEIGHTS in wanted)
    limit = rates = None
    if catalogue.RATES in wanted:
        rates = _rates(rng, capacity, demand, eligible)
    if catalogue.LIMITS in wanted:
        limit = _limits(rng, capacity * count[:, None], demand)
    return Problem.from_arrays(
        capacity,
        demand,
        count=count,
        weight=weight,
        eligible=eligible,
        task_limit=limit,
        rates=rates,
    )


def _constrain_somebody(
    capacity: NDArray[np.float64], demand: NDArray[np.float64], eligible: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return an eligibility that keeps a user from a group."""
    if eligible.all():
        first = int(fits(capacity, demand[0]).argmax())
        eligible = eligible.copy()
        eligible[0, (first + 1) % len(capacity)] = False
    return eligible


def _weights(
    rng: np.random.Generator, n_users: int, n_resources: int, per_resource: bool
) -> NDArray[np.float64] | None:
    """Draw weights, most of them 1 or 2, or none."""
    shape = (n_users, n_resources)
    table = np.where(
        rng.integers(0, 3, shape) > 0, rng.integers(1, 3, shape), rng.uniform(0.25, 8, shape)
    )
    if per_resource and n_resources > 1:
        table[0, 0] = table[0, 1] + 1.0  # equal columns would be an ordinary weight
        return table
    return None if rng.integers(0, 2) == 0 else table[:, 0]


def _limits(
    rng: np.random.Generator, group_capacity: NDArray[np.float64], demand: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Draw finite tasks: a sliver, about a fair share, all that fits, more than ever fits, none."""
    limits = np.full(len(demand), np.inf)
    kinds = rng.integers(0, 3, len(demand))
    parts = np.where(
        kinds == 1, rng.choice(PARTS, len(demand)), rng.uniform(0.05, 1.5, len(demand))
    )
    for n in np.flatnonzero(kinds > 0):
        asks = demand[n] > 0
        alone = (group_capacity[:, asks] / demand[n, asks]).min(axis=1).sum()
        limits[n] = parts[n] * alone
    if np.isinf(limits).all():
        limits[0] = 1e9
    return limits


def _rates(
    rng: np.random.Generator,
    capacity: NDArray[np.float64],
    demand: NDArray[np.float64],
    eligible: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Draw rates for some users on the servers that have what they need; the first gives some."""
    there = np.array([fits(capacity, asked) for asked in demand]) & eligible
    whole, any_at_all = rng.integers(1, 11, there.shape), rng.uniform(0.1, 100, there.shape)
    rates = np.where(rng.integers(0, 2, there.shape) == 0, whole, any_at_all)
    given = rng.integers(0, 2, len(demand)) == 0
    given[0] = True
    return np.where(given[:, None], np.where(there, rates, 0.0), np.nan)


@cache
def admitted_by(mechanism: str, **bounds: object) -> st.SearchStrategy[Problem]:
    """Return a strategy for problems that a mechanism's definition admits."""
    accepts = catalogue.CATALOGUE[mechanism].accepts
    if mechanism != "ps-dsf":
        return problems(features=accepts, **bounds)  # type: ignore[arg-type]
    # Under resource division, rates are defined for one resource only.
    without = tuple(feature for feature in accepts if feature != catalogue.RATES)
    one_resource = bounds | {"largest_resources": 1}
    return st.one_of(
        problems(features=without, **bounds),  # type: ignore[arg-type]
        problems(features=accepts, **one_resource),  # type: ignore[arg-type]
    )

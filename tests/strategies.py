"""Hypothesis strategies for small problems of every kind, ties and extremes included."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairlead.mechanisms import catalogue
from fairlead.model.problem import Problem
from random_problems import fits, repair

ALL_FEATURES = (
    catalogue.CONSTRAINTS,
    catalogue.LIMITS,
    catalogue.RATES,
    catalogue.RESOURCE_WEIGHTS,
)

# Whole numbers tie exactly, also after a division or two; "wide" ones differ by many orders of
# magnitude (only on request: there an answer may be refused); "any" are what measurement gives.
_AMOUNTS = {
    "whole": st.integers(1, 10).map(float),
    "few": st.sampled_from([1.0, 2.0]),
    "wide": st.builds(lambda m, e: m * 10.0**e, st.integers(1, 9), st.integers(-4, 4)),
    "any": st.integers(1_000, 999_983).map(lambda k: k / 99_991),
}


def _table(
    draw: st.DrawFn, rows: int, columns: int, amounts: st.SearchStrategy[float], zeros: bool
) -> NDArray[np.float64]:
    """Draw a table, with zeros in it or not; rows repeat now and then."""
    cell = st.one_of(amounts, amounts, st.just(0.0)) if zeros else amounts
    row = st.lists(cell, min_size=columns, max_size=columns)
    table = [draw(row) for _ in range(rows)]
    for k in range(1, rows):
        if draw(st.integers(0, 5)) == 5:
            table[k] = table[draw(st.integers(0, k - 1))]
    return np.array(table, dtype=float).reshape(rows, columns)


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
    """Draw a valid problem.

    Parameters
    ----------
    draw : DrawFn
        Given by Hypothesis.
    features : tuple of str
        Optional features that the problem may have, by the names of the catalogue.
    force : tuple of str
        Features that it must have.
    largest_users, largest_groups, largest_resources : int
        Bounds on N, G and R.
    zeros : bool
        Whether demands and capacities may be zero.
    kinds : tuple of str
        Kinds of amounts to draw from.

    Returns
    -------
    Problem
    """
    smallest_groups = 2 if catalogue.CONSTRAINTS in force else 1
    smallest_resources = 2 if catalogue.RESOURCE_WEIGHTS in force else 1
    n_users = draw(st.integers(1, largest_users))
    n_groups = draw(st.integers(smallest_groups, largest_groups))
    n_resources = draw(st.integers(smallest_resources, largest_resources))
    amounts = _AMOUNTS[draw(st.sampled_from(kinds))]
    with_zeros = zeros and draw(st.booleans())
    capacity = _table(draw, n_groups, n_resources, amounts, with_zeros)
    demand = _table(draw, n_users, n_resources, amounts, with_zeros)

    def wanted(feature: str) -> bool:
        return feature in force or (feature in features and draw(st.booleans()))

    eligible = np.ones((n_users, n_groups), dtype=bool)
    if wanted(catalogue.CONSTRAINTS):
        eligible = np.array([[draw(st.booleans()) for _ in range(n_groups)] for _ in demand])
    capacity, demand, eligible = repair(capacity, demand, eligible)
    if catalogue.CONSTRAINTS in force:
        eligible = _constrain_somebody(capacity, demand, eligible)
    count = np.array([draw(st.integers(1, 5)) for _ in range(n_groups)])
    rates = None
    if wanted(catalogue.RATES):
        rates = _rates(draw, capacity, demand, eligible)
    return Problem.from_arrays(
        capacity,
        demand,
        count=count,
        weight=_weights(draw, n_users, n_resources, wanted(catalogue.RESOURCE_WEIGHTS)),
        eligible=eligible,
        task_limit=_limits(draw, capacity * count[:, None], demand)
        if wanted(catalogue.LIMITS)
        else None,
        rates=rates,
    )


def _constrain_somebody(
    capacity: NDArray[np.float64], demand: NDArray[np.float64], eligible: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return an eligibility that keeps somebody from some group."""
    if eligible.all():
        first = int(fits(capacity, demand[0]).argmax())
        eligible = eligible.copy()
        eligible[0, (first + 1) % len(capacity)] = False
    return eligible


def _weights(
    draw: st.DrawFn, n_users: int, n_resources: int, per_resource: bool
) -> NDArray[np.float64] | None:
    some = st.one_of(st.sampled_from([1.0, 2.0]), st.floats(0.25, 8))
    if per_resource and n_resources > 1:
        table = [[draw(some) for _ in range(n_resources)] for _ in range(n_users)]
        table[0][0] = table[0][1] + 1.0  # equal columns would be an ordinary weight
        return np.array(table)
    if draw(st.booleans()):
        return None
    return np.array([draw(some) for _ in range(n_users)])


def _limits(
    draw: st.DrawFn, group_capacity: NDArray[np.float64], demand: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Draw finite tasks: a sliver, about a fair share, all that fits, more than ever fits, none."""
    limits = np.full(len(demand), np.inf)
    factor = st.one_of(
        st.none(), st.sampled_from([1e-3, 0.1, 0.25, 0.5, 1.0, 2.0, 1e3]), st.floats(0.05, 1.5)
    )
    for n in range(len(demand)):
        asks = demand[n] > 0
        alone = (group_capacity[:, asks] / demand[n, asks]).min(axis=1).sum()
        part = draw(factor)
        if part is not None:
            limits[n] = part * alone
    if np.isinf(limits).all():
        limits[0] = 1e9
    return limits


def _rates(
    draw: st.DrawFn,
    capacity: NDArray[np.float64],
    demand: NDArray[np.float64],
    eligible: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Draw rates for some users on the servers that have what they need; the first gives some."""
    rates = np.full((len(demand), len(capacity)), np.nan)
    one = st.one_of(st.integers(1, 10).map(float), st.floats(0.1, 100))
    for n in range(len(demand)):
        if n > 0 and draw(st.booleans()):
            continue
        there = fits(capacity, demand[n]) & eligible[n]
        rates[n] = [draw(one) if there[g] else 0.0 for g in range(len(capacity))]
    return rates


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

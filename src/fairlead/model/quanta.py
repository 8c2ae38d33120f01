"""Amounts as whole numbers of a quantum, so that whole tasks fill a server without rounding.

A server of 0.5 holds five tasks of 0.1. In floats it may hold four: 0.1 is not 0.1 there, and
subtractions leave a little less. So amounts are read as the numbers that their writers meant, and
each resource gets a quantum that divides all its amounts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.exact import ratio
from fairlead.model.problem import Problem

LARGEST_QUANTA = 2**62


@dataclass(frozen=True, eq=False)
class Quanta:
    """A problem's amounts in whole quanta, one quantum per resource."""

    capacity: IntArray  # (G, R): of one server of each group
    demand: IntArray  # (N, R): of one task of each user; positive where the demand is
    per_unit: tuple[Fraction, ...]  # (R,): quanta per unit of the resource
    # Whether every amount is a whole number of quanta. If not, all servers together, or the largest
    # task, have 2**61 to 2**62 quanta of some resource, and amounts are rounded down, positive ones
    # to at least one, so that equal amounts stay equal. The quantum is then the exact one doubled
    # as often as it takes: most decimals stay whole beside an amount that does not.
    is_exact: bool

    def total(self, count: IntArray) -> list[int]:
        """Return R whole numbers, the quanta of all servers with (G,) `count` in each group."""
        counts = count.tolist()
        columns = self.capacity.T.tolist()
        return [sum(k * c for k, c in zip(counts, column, strict=True)) for column in columns]


def to_quanta(problem: Problem) -> Quanta:
    """Express capacities of single servers and demands of single tasks in whole quanta.

    O((N + G) R), with rational arithmetic for each distinct amount.
    """
    columns = [
        _column(problem.cluster.capacity[:, r], problem.count, problem.demand[:, r])
        for r in range(problem.n_resources)
    ]
    capacity, demand, per_unit, is_exact = zip(*columns, strict=True)
    return Quanta(
        np.stack(capacity, axis=1), np.stack(demand, axis=1), tuple(per_unit), all(is_exact)
    )


def _column(
    capacity: FloatArray, servers: IntArray, demand: FloatArray
) -> tuple[IntArray, IntArray, Fraction, bool]:
    """Find a quantum for one resource and count in it."""
    there, taken = capacity.tolist(), demand.tolist()
    amounts = {a: ratio(a) for a in {*there, *taken}}
    above = lcm(*(over for _, over in amounts.values()))
    below = gcd(*(number for number, _ in amounts.values())) or 1  # where all are 0
    whole = {a: number // below * (above // over) for a, (number, over) in amounts.items()}
    total = sum(whole[a] * n for a, n in zip(there, servers.tolist(), strict=True))
    largest = max(total, *whole.values())
    doubled = (max(-(-largest // LARGEST_QUANTA), 1) - 1).bit_length()
    counted = {a: max(amount >> doubled, 1 if amount else 0) for a, amount in whole.items()}
    per_unit = Fraction(above, below << doubled)
    columns = [
        np.array([counted[a] for a in amounts], dtype=np.int64) for amounts in (there, taken)
    ]
    return columns[0], columns[1], per_unit, not doubled

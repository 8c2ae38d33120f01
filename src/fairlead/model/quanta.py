"""Amounts as whole numbers of a quantum, so that whole tasks fill a server without rounding.

Five tasks of 0.1 fit on a server of 0.5. In floats, rounding may leave room for only four. So
amounts are read as the exact decimals that were written (`fairlead.model.quantity.exact`), and each
resource gets a quantum that divides all its amounts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.model.cluster import FloatArray, IntArray, device_columns
from fairlead.model.problem import Problem
from fairlead.model.quantity import DECIMAL_DIGITS, ratio

# The sum of two larger integers does not fit int64.
LARGEST_QUANTA = 2**62


@dataclass(frozen=True, eq=False)
class Quanta:
    """A problem's amounts in whole quanta, one quantum per resource."""

    capacity: IntArray  # (G, R): quanta of one server of each group
    demand: IntArray  # (N, R): quanta of one task of each user; at least 1 for a positive demand
    per_unit: tuple[Fraction, ...]  # (R,): quanta per unit of the resource
    device: dict[int, int]  # quanta of one device, by the index of each resource in devices
    # Whether every amount is a whole number of quanta. If not, each amount is rounded down, but a
    # positive one to at least one quantum, so that equal amounts stay equal. The quantum is then so
    # large that the total and the largest task are at most 2**62: the exact quantum, doubled often
    # enough; or a fraction of a device.
    is_exact: bool

    def total(self, count: IntArray) -> list[int]:
        """Return (R,) the quanta of all servers, with (G,) `count` in each group."""
        counts = count.tolist()
        columns = self.capacity.T.tolist()
        return [sum(k * c for k, c in zip(counts, column, strict=True)) for column in columns]


def to_quanta(problem: Problem) -> Quanta:
    """Express capacities of single servers and demands of single tasks in whole quanta."""
    by_device = device_columns(problem.cluster)
    columns = [
        (_device_column if r in by_device else _column)(
            problem.cluster.capacity[:, r], problem.count, problem.demand[:, r]
        )
        for r in range(problem.n_resources)
    ]
    capacity, demand, per_unit, is_exact = zip(*columns, strict=True)
    return Quanta(
        np.stack(capacity, axis=1),
        np.stack(demand, axis=1),
        tuple(per_unit),
        {r: int(per_unit[r]) for r in by_device},
        all(is_exact),
    )


def _column(
    capacity: FloatArray, servers: IntArray, demand: FloatArray
) -> tuple[IntArray, IntArray, Fraction, bool]:
    """Return capacities, demands, quanta per unit and exactness for one resource."""
    capacities, demands = capacity.tolist(), demand.tolist()
    whole, exactly = _exact_multiples({*capacities, *demands})
    total = sum(whole[a] * n for a, n in zip(capacities, servers.tolist(), strict=True))
    largest = max(total, *whole.values())
    doublings = (max(-(-largest // LARGEST_QUANTA), 1) - 1).bit_length()
    quanta = {a: max(amount >> doublings, 1 if amount else 0) for a, amount in whole.items()}
    per_unit = exactly / (1 << doublings)
    columns = [
        np.array([quanta[a] for a in amounts], dtype=np.int64) for amounts in (capacities, demands)
    ]
    return columns[0], columns[1], per_unit, not doublings


def _exact_multiples(amounts: Collection[float]) -> tuple[dict[float, int], Fraction]:
    """Return amounts as multiples of their greatest common quantum, and the quanta per unit."""
    ratios = {a: ratio(a) for a in amounts}
    multiple = lcm(*(denominator for _, denominator in ratios.values()))
    divisor = gcd(*(numerator for numerator, _ in ratios.values())) or 1  # 0 if all amounts are 0
    whole = {
        a: numerator // divisor * (multiple // denominator)
        for a, (numerator, denominator) in ratios.items()
    }
    return whole, Fraction(multiple, divisor)


def _device_column(
    capacity: FloatArray, servers: IntArray, demand: FloatArray
) -> tuple[IntArray, IntArray, Fraction, bool]:
    """Return the result of `_column` for a resource in devices; one device is whole quanta."""
    ratios = {a: ratio(a) for a in demand.tolist()}
    exact_unit = lcm(*(denominator for _, denominator in ratios.values()))
    devices = sum(int(c) * k for c, k in zip(capacity.tolist(), servers.tolist(), strict=True))
    unit = max(min(exact_unit, LARGEST_QUANTA // (devices + 1)), 1)
    # A task of more devices than exist fits nowhere; its demand is cut to keep integers small.
    quanta = {
        a: min(max(numerator * unit // denominator, 1 if numerator else 0), (devices + 1) * unit)
        for a, (numerator, denominator) in ratios.items()
    }
    taken = np.array([quanta[a] for a in demand.tolist()], dtype=np.int64)
    return capacity.astype(np.int64) * unit, taken, Fraction(unit), unit == exact_unit


# An array of int64, or of Python's integers as objects.
WholeArray = NDArray[Any]

# Floats represent all integers up to this one exactly.
LARGEST_WHOLE_FLOAT = 2.0**53
# Shares that differ by less, relatively, are compared in integers, as each has four roundings.
NEAR = 1e-14


@dataclass(frozen=True, eq=False)
class WholePool:
    """All servers as one pool, in integers, for whole tasks.

    Comparisons of users and of free amounts are made in integers. Arrays are int64 where that
    suffices, otherwise arrays of Python's integers.
    """

    capacity: WholeArray  # (R,): quanta of the pool
    demand: WholeArray  # (N, R): quanta of one task
    limit: FloatArray  # (N,): whole tasks that each user has; infinite for no limit
    # (N,): the dominant share of one task over the weight, ``max_r d / (phi C)``, as a fraction.
    # Weights are scaled to integers by a common factor, which does not affect comparisons.
    numerator: WholeArray
    denominator: WholeArray
    share: FloatArray  # (N, R): fraction of the pool that one task takes, rounded
    step: FloatArray  # (N,): ``numerator / denominator``, rounded

    @property
    def alone(self) -> FloatArray:
        """(N,) float: tasks that each user could run alone in the pool, rounded."""
        with np.errstate(divide="ignore"):
            fitting: FloatArray = (1.0 / self.share).min(axis=1)
        return fitting


def to_whole_pool(problem: Problem) -> WholePool:
    """Express the pool of all servers in integers, summed without rounding; O((N + G) R)."""
    one_server, demand = _in_quanta(problem.cluster.capacity, problem.demand)
    total = _sum_over_servers(one_server, problem.count)
    weight = _whole_weights(problem)
    largest = max(total) * int(weight.max())
    if demand.dtype != object and max(largest, int(demand.max())) > LARGEST_QUANTA:
        demand = demand.astype(object)
    if demand.dtype == object:
        weight = weight.astype(object)
    capacity = np.array(total, dtype=demand.dtype)
    share = (demand / np.where(capacity > 0, capacity, 1)).astype(np.float64)
    numerator, denominator, step = _dominant_shares(demand, capacity, weight, share)
    limit = np.floor(problem.task_limit)
    return WholePool(capacity, demand, limit, numerator, denominator, share, step)


def _in_quanta(capacity: FloatArray, demand: FloatArray) -> tuple[WholeArray, WholeArray]:
    """Return capacities of single servers and demands of single tasks in quanta."""
    table = np.concatenate([capacity, demand])
    whole = count_quanta(table)  # the quick way: one power of ten as the quantum of all resources
    if whole is None:
        columns = [count_quanta(column) for column in table.T]
        counted = [
            _count_exactly(table[:, r]) if column is None else column
            for r, column in enumerate(columns)
        ]
        whole = np.stack(counted, axis=1)
    return whole[: len(capacity)], whole[len(capacity) :]


def count_quanta(amounts: FloatArray) -> WholeArray | None:
    """Return amounts as multiples of a power of ten, in int64; None if they have too many digits.

    Multiples are at most 10**12, or 2**53 where all amounts are whole numbers.
    """
    for places in range(DECIMAL_DIGITS + 1):
        scale = 10.0**places
        whole = np.rint(amounts * scale)
        largest = whole.max()
        if largest > (10.0**DECIMAL_DIGITS if places else LARGEST_WHOLE_FLOAT):
            return None
        if (whole / scale == amounts).all():
            return whole.astype(np.int64)
    return None


def _count_exactly(amounts: FloatArray) -> WholeArray:
    """Return amounts as multiples of their greatest common quantum."""
    given = amounts.tolist()
    whole, _ = _exact_multiples(set(given))
    kind = np.int64 if max(whole.values()) <= LARGEST_QUANTA else object
    return np.array([whole[a] for a in given], dtype=kind)


def _sum_over_servers(one_server: WholeArray, count: NDArray[np.int64]) -> list[int]:
    """Return the total over all servers, in Python's integers."""
    if float(one_server.max()) * float(count.sum(dtype=np.float64)) >= LARGEST_QUANTA:
        one_server, count = one_server.astype(object), count.astype(object)
    return [int(total) for total in count @ one_server]


def _whole_weights(problem: Problem) -> WholeArray:
    """Return the weights, (N, R) or (N, 1), scaled to integers by a common factor."""
    weight = problem.users.resource_weight
    if weight is None:
        weight = problem.weight[:, None]
    whole = count_quanta(weight)
    if whole is None:
        return _count_exactly(weight.reshape(-1)).reshape(weight.shape)
    reduced: WholeArray = whole // np.gcd.reduce(whole, axis=None)
    return reduced


def _dominant_shares(
    demand: WholeArray, capacity: WholeArray, weight: WholeArray, share: FloatArray
) -> tuple[WholeArray, WholeArray, FloatArray]:
    """Return the largest d / (phi C) of each user as numerator, denominator and float.

    Floats find the candidates; those within `NEAR` of the largest are compared in integers.
    """
    users = np.arange(len(demand))
    over_weight = share / weight.astype(np.float64)
    dominant = over_weight.argmax(axis=1)
    close = over_weight >= (over_weight[users, dominant] * (1 - NEAR))[:, None]
    weight = np.broadcast_to(weight, demand.shape)
    for n in np.flatnonzero(close.sum(axis=1) > 1):
        for r in np.flatnonzero(close[n]):
            best = dominant[n]
            # Compare d / (phi C) of the resources r and `best`, multiplied by both divisors.
            ours = int(demand[n, r]) * int(capacity[best]) * int(weight[n, best])
            if ours > int(demand[n, best]) * int(capacity[r]) * int(weight[n, r]):
                dominant[n] = r
    numerator = demand[users, dominant]
    denominator = capacity[dominant] * weight[users, dominant]
    return numerator, denominator, (numerator / denominator).astype(np.float64)

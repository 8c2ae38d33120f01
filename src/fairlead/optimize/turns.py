"""Whose turn comes first, in exact arithmetic.

A user takes its next task at the level ``taken * numerator / denominator``, its weighted dominant
share so far. The lowest level goes first; of equal levels the user whose task is the larger share,
then the earlier one. Levels that floats cannot tell apart are compared as fractions.

The functions run compiled on int64, and as plain Python on arrays of Python's integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.whole_pool import NEAR, WholeArray

_HALF = 32
_LOW = 0xFFFFFFFF


def compare_products(p: int, q: int, r: int, s: int) -> int:
    """Return the sign of ``p q - r s`` for integers >= 0 of any size; compiled, of 63 bits."""
    ours, theirs = p * q, r * s
    return (ours > theirs) - (ours < theirs)


@register_jitable
def _long_product(p: int, q: int) -> tuple[Any, Any]:
    """Return the upper and the lower word of a product of two words."""
    half, low = np.uint64(_HALF), np.uint64(_LOW)
    a, b = np.uint64(p), np.uint64(q)
    upper_a, lower_a, upper_b, lower_b = a >> half, a & low, b >> half, b & low
    lowest = lower_a * lower_b
    middle = upper_a * lower_b + (lowest >> half)  # cannot overflow: (2^32-1)^2 + 2^32-1 < 2^64
    cross = lower_a * upper_b + (middle & low)
    upper = upper_a * upper_b + (middle >> half) + (cross >> half)
    return upper, (cross << half) | (lowest & low)


@overload(compare_products)
def _compare_long_products(p: Any, q: Any, r: Any, s: Any) -> Callable[..., int] | None:
    """Compare in two words: the products of machine integers do not fit into one."""
    if not all(isinstance(kind, types.Integer) for kind in (p, q, r, s)):
        return None

    def compare(p: Any, q: Any, r: Any, s: Any) -> int:
        upper, lower = _long_product(p, q)
        other_upper, other_lower = _long_product(r, s)
        if upper != other_upper:
            return 1 if upper > other_upper else -1
        if lower != other_lower:
            return 1 if lower > other_lower else -1
        return 0

    return compare


@register_jitable
def precedes(
    n: int,
    tasks_n: int,
    m: int,
    tasks_m: int,
    numerator: WholeArray,
    denominator: WholeArray,
    step: FloatArray,
) -> bool:
    """Whether user `n`, who has `tasks_n`, has its turn before user `m`, who has `tasks_m`.

    The dominant share of one task is a fraction, (N,) int64 or object, and rounded, `step` (N,).
    """
    ours, theirs = tasks_n * step[n], tasks_m * step[m]
    if abs(ours - theirs) > NEAR * (ours + theirs):
        return bool(ours < theirs)
    side = compare_products(
        tasks_n * numerator[n], denominator[m], tasks_m * numerator[m], denominator[n]
    )
    if side != 0:
        return side < 0
    side = compare_products(numerator[n], denominator[m], numerator[m], denominator[n])
    if side != 0:
        return side > 0
    return n < m


def sort_roughly(users: IntArray, taken: WholeArray, step: FloatArray) -> IntArray:
    """Return users by next turn; levels that floats cannot tell apart count as equal."""
    level = (taken[users] * step[users]).astype(np.float64)
    order = np.argsort(level, kind="stable")
    level = level[order]
    kind = np.empty(len(users), dtype=np.int64)
    kind[order] = np.cumsum(np.diff(level, prepend=0.0) > NEAR * level)
    return users[np.lexsort((-step[users], kind))]


@register_jitable
def sort_turns(
    order: IntArray,
    taken: WholeArray,
    numerator: WholeArray,
    denominator: WholeArray,
    step: FloatArray,
) -> None:
    """Put users, sorted roughly, in the order of their next turns.

    Insertion sort: floats leave next to nothing out of order.
    """
    for k in range(1, order.size):
        n = order[k]
        j = k
        while j > 0:
            m = order[j - 1]
            if precedes(m, taken[m], n, taken[n], numerator, denominator, step):
                break
            order[j] = m
            j -= 1
        order[j] = n


@register_jitable
def fits(n: int, demand: WholeArray, room: WholeArray) -> bool:
    """Whether there is room for one more task of user `n`."""
    for r in range(room.size):  # noqa: SIM110 (generators are not compiled)
        if demand[n, r] > room[r]:
            return False
    return True

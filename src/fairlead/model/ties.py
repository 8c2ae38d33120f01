"""Rank with ties: of numbers that differ only by rounding, the first in order wins.

So visible results (a witness, the rows of a table, colours) do not depend on how a processor adds.
The tolerance is relative. To rank relative changes, which may be near 0, pass ``1 + change``.
"""

from __future__ import annotations

import math

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray

# Relative tolerance. Different answers are rarely closer.
TIE = 1e-8


def first_largest(values: FloatArray) -> int:
    """Return the flat index of the first of the largest numbers, ignoring NaN."""
    best = float(np.nanmax(values))
    least = best - TIE * abs(best) if math.isfinite(best) else best
    return int(np.argmax(values >= least))


def first_smallest(values: FloatArray) -> int:
    """Return the flat index of the first of the smallest numbers, ignoring NaN."""
    return first_largest(-values)


def first_largest_of_rows(values: FloatArray) -> IntArray:
    """Return, for each row, the index of the first of its largest numbers; none may be negative."""
    best = values.max(axis=1, keepdims=True)
    first: IntArray = (values >= best * (1 - TIE)).argmax(axis=1)
    return first


def largest_first(values: FloatArray) -> IntArray:
    """Sort indices by value, largest first and NaN last; ties by index."""
    order = np.argsort(-values, kind="stable")
    ranked = values[order]
    with np.errstate(invalid="ignore"):  # equal infinities are in order already
        apart = ~(ranked[1:] >= ranked[:-1] - TIE * np.abs(ranked[:-1]))
    run = np.concatenate([[0], np.cumsum(apart)])
    return order[np.lexsort((order, run))] if len(order) else order

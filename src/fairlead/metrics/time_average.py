"""Exact time averages of step functions over the bins of a grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import FloatArray

DEFAULT_BINS = 300


def time_grid(until: float, bins: int = DEFAULT_BINS) -> FloatArray:
    """Return the edges of equal bins from 0 to a time, (bins + 1,) float.

    Raises
    ------
    InputError
        When the time is not positive, or the bins are fewer than one.
    """
    check_time(until, "until")
    if bins < 1:
        raise InputError(f"must be a positive number, not {bins}", "bins")
    return np.linspace(0.0, until, bins + 1)


def check_time(time: float, name: str) -> None:
    """Raise `InputError` for a time that is not positive and finite."""
    if not 0 < time < np.inf:
        raise InputError(f"must be a positive number of seconds, not {time}", name)


def time_averages(
    changes: Sequence[tuple[FloatArray, FloatArray]], edges: FloatArray
) -> FloatArray:
    """Average a step function over each bin: its integral over the bin's length.

    Parameters
    ----------
    changes : sequence of pairs of (E,) float and (E, R) float
        When the function changes, and by how much. It is 0 before the first change.
    edges : (B + 1,) float
        Ascending.

    Returns
    -------
    (B, R) float
        Never less than 0: what rounding leaves below it is none.

    Notes
    -----
    A change adds what is left of its bin after it to that bin, and all of every later one. Cost
    O(E (R + log B)).
    """
    n_bins, width = len(edges) - 1, np.diff(edges)
    n_resources = changes[0][1].shape[1]
    level, partial = np.zeros((n_bins + 2, n_resources)), np.zeros((n_bins + 2, n_resources))
    for times, amounts in changes:
        # Bin 0 is all that was before the grid, the last one all that is after it.
        within = np.searchsorted(edges, times, side="right")
        left = np.append(edges, edges[-1])[within] - times
        for r in range(n_resources):
            amount = amounts[:, r]
            level[:, r] += np.bincount(within, amount, minlength=n_bins + 2)
            partial[:, r] += np.bincount(within, amount * left, minlength=n_bins + 2)
    before = np.cumsum(level, axis=0)[:n_bins]
    averages: FloatArray = np.maximum(before + partial[1:-1] / width[:, None], 0.0)
    return averages

"""Exact time averages of step functions over the bins of a grid."""

from __future__ import annotations

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import FloatArray

DEFAULT_BINS = 300


def time_grid(until: float, bins: int = DEFAULT_BINS) -> FloatArray:
    """Return (bins + 1,) edges of equal bins from 0 to a time; InputError without time or bins."""
    check_time(until, "until")
    if bins < 1:
        raise InputError(f"must be a positive number, not {bins}", "bins")
    return np.linspace(0.0, until, bins + 1)


def check_time(time: float, name: str) -> None:
    """Raise `InputError` for a time that is not positive and finite."""
    if not 0 < time < np.inf:
        raise InputError(f"must be a positive number of seconds, not {time}", name)


def time_averages(
    begin: FloatArray, end: FloatArray, amount: FloatArray, edges: FloatArray
) -> FloatArray:
    """Average over each bin a sum of amounts that are there from a beginning to an end.

    Parameters
    ----------
    begin, end : (E,) float
        The end not before the beginning; what is outside the bins does not count.
    amount : (E, R) float
        Not negative.
    edges : (B + 1,) float
        Ascending.

    Returns
    -------
    (B, R) float
        Integral over each bin by its length.

    Notes
    -----
    An amount adds to its first bin and to its last one the time that it is there, and is at a level
    in the bins between. So little is ever taken away from much. Cost O(E (R + log B)).
    """
    n_bins, width = len(edges) - 1, np.diff(edges)
    begin, end = (np.clip(times, edges[0], edges[-1]) for times in (begin, end))
    first, last = (
        np.minimum(np.searchsorted(edges, times, side="right") - 1, n_bins - 1)
        for times in (begin, end)
    )
    one_bin = first == last
    in_first = np.where(one_bin, end, edges[first + 1]) - begin
    in_last = np.where(one_bin, 0.0, end - edges[last])
    averages = np.zeros((n_bins, amount.shape[1]))
    for r, values in enumerate(amount.T):
        apart = np.where(one_bin, 0.0, values)
        steps = np.bincount(first + 1, apart, minlength=n_bins + 1)
        steps -= np.bincount(last, apart, minlength=n_bins + 1)
        # Below 0 there is only what rounding leaves.
        level = np.maximum(np.cumsum(steps[:n_bins]), 0.0)
        partial = np.bincount(first, values * in_first, minlength=n_bins)
        partial += np.bincount(last, values * in_last, minlength=n_bins)
        averages[:, r] = level + partial / width
    return averages

"""How measured values are spread: quantiles, the cumulative distribution, Jain's index."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray


def cumulative_distribution(
    values: FloatArray, points: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return which part of the values does not exceed each value.

    Parameters
    ----------
    values : (V,) float
        What is not a number does not count.
    points : int, optional
        The most points, evenly spaced in the part and with both ends; every value when absent.

    Returns
    -------
    value, part : (Q,) float
        Ascending; ``part[q]`` of the values are at most ``value[q]``, and equal values have one
        point. Empty where there is no value.

    Notes
    -----
    Cost O(V log V).
    """
    ordered, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    part = np.cumsum(counts) / max(1, counts.sum())
    if points is not None and len(ordered) > points:
        wanted = np.searchsorted(part, np.linspace(part[0], 1.0, points))
        chosen = np.unique(np.minimum(wanted, len(part) - 1))
        ordered, part = ordered[chosen], part[chosen]
    return ordered, part


def percentile(values: FloatArray, percent: float) -> float:
    """Return the least value that at least `percent` percent of the values do not exceed.

    It is a value that is there, not a mean of two; not a number where there is no value.
    """
    there = values[~np.isnan(values)]
    if not len(there):
        return float("nan")
    return float(np.percentile(there, percent, method="inverted_cdf"))


def mean(values: FloatArray) -> float:
    """Return the mean of the values that are numbers; not a number where there is none."""
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("nan")


def mean_by_user(values: FloatArray, user: np.ndarray, n_users: int) -> FloatArray:
    """Return (N,) the mean of each user's values that are numbers, or not a number."""
    there = ~np.isnan(values)
    count = np.bincount(user[there], minlength=n_users)
    total = np.bincount(user[there], values[there], minlength=n_users)
    means: FloatArray = np.divide(total, count, out=np.full(n_users, np.nan), where=count > 0)
    return means


def jain_index(x: FloatArray) -> float:
    """Return ``(sum x)^2 / (n sum x^2)``: 1 when all have the same, 1/n when one has all.

    It is not a number where nobody has anything. Source: Jain, Chiu and Hawe 1984, DEC-TR-301.
    """
    squares = float((x**2).sum())
    return float(x.sum()) ** 2 / (len(x) * squares) if squares > 0 else float("nan")

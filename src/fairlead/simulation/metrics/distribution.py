"""Means and their margins, percentiles, distributions and Jain's index of measured values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairlead.model.cluster import FloatArray

CONFIDENCE = 0.95


def cumulative_distribution(
    values: FloatArray, points: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values, ascending, and the fraction of all values up to each of them.

    NaN does not count. At most `points` values are returned, evenly spaced in the fraction, with
    the smallest and the largest. O(V log V) for V values.
    """
    ordered, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    fraction = np.cumsum(counts) / max(1, counts.sum())
    if points is not None and len(ordered) > points:
        wanted = np.searchsorted(fraction, np.linspace(fraction[0], 1.0, points))
        chosen = np.unique(np.minimum(wanted, len(fraction) - 1))
        ordered, fraction = ordered[chosen], fraction[chosen]
    return ordered, fraction


def percentile(values: FloatArray, percent: float) -> float:
    """Return the smallest value that at least `percent` percent of the values do not exceed.

    It is one of the values, not a mean of two; NaN without values. NaN does not count.
    """
    numbers = values[~np.isnan(values)]
    if not len(numbers):
        return float("nan")
    return float(np.percentile(numbers, percent, method="inverted_cdf"))


def mean(values: FloatArray) -> float:
    """Return the mean of the values other than NaN; NaN without such values."""
    numbers = values[~np.isnan(values)]
    return float(numbers.mean()) if len(numbers) else float("nan")


def margin_of_mean(sd: ArrayLike, count: int) -> FloatArray:
    """Return half the width of Student's 95 % confidence interval of a mean.

    `sd` are sample standard deviations, of any shape, of `count` values each.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 (slow to import, seldom needed)

    quantile = float(stdtrit(count - 1, (1.0 + CONFIDENCE) / 2.0))
    return np.asarray(quantile * np.asarray(sd) / np.sqrt(count))


def mean_by_user(values: FloatArray, user: np.ndarray, n_users: int) -> FloatArray:
    """Return (N,) the mean of each user's values other than NaN; NaN without such values."""
    is_number = ~np.isnan(values)
    count = np.bincount(user[is_number], minlength=n_users)
    total = np.bincount(user[is_number], values[is_number], minlength=n_users)
    return ratio(total, count)


def ratio(amount: ArrayLike, of: ArrayLike) -> FloatArray:
    """Divide `amount` by `of`; NaN where `of` is not positive."""
    above, below = np.asarray(amount, dtype=np.float64), np.asarray(of, dtype=np.float64)
    divided: FloatArray = np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
    return divided


def jain_index(x: FloatArray) -> float:
    """Return ``(sum x)^2 / (n sum x^2)``: 1 if all values are equal, 1/n if only one is not 0.

    NaN if all are 0. Source: Jain, Chiu and Hawe 1984, DEC-TR-301.
    """
    squares = float((x**2).sum())
    return float(x.sum()) ** 2 / (len(x) * squares) if squares > 0 else float("nan")

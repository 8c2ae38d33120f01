"""Quantiles of Student's t, for intervals of means."""

from __future__ import annotations

from functools import cache
from math import atan, cos, pi, sin, sqrt, tan
from statistics import NormalDist

# From here on the expansion around the normal distribution is good to eight digits.
MANY_DEGREES = 200


@cache
def student_quantile(confidence: float, degrees: int) -> float:
    """Return the t with that probability between -t and t.

    Parameters
    ----------
    confidence : float
        The probability, more than 0 and less than 1.
    degrees : int
        Degrees of freedom, at least 1.

    Returns
    -------
    float

    Notes
    -----
    Abramowitz and Stegun 1964: 26.7.3 and 26.7.4, finite sums, inverted by bisection; from 200
    degrees on the expansion 26.7.5.
    """
    if degrees >= MANY_DEGREES:
        return _expansion(NormalDist().inv_cdf((1 + confidence) / 2), degrees)
    low, high = 0.0, pi / 2
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return sqrt(degrees) * tan(middle)
        if _probability(middle, degrees) < confidence:
            low = middle
        else:
            high = middle


def student_probability(t: float, degrees: int) -> float:
    """Return the probability between -t and t, exact up to rounding. O(degrees)."""
    return _probability(atan(t / sqrt(degrees)), degrees)


def _probability(angle: float, degrees: int) -> float:
    """Sum 26.7.3 (odd) or 26.7.4 (even) at t = sqrt(degrees) tan(angle)."""
    is_odd = degrees % 2 == 1
    term = cos(angle) if is_odd else 1.0
    total = 0.0
    for k in range(2 if is_odd else 1, degrees, 2):
        total += term
        term *= k / (k + 1) * cos(angle) ** 2
    if is_odd:
        return 2 / pi * (angle + sin(angle) * total)
    return sin(angle) * total


def _expansion(x: float, degrees: int) -> float:
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
    )
    return x + sum(term / float(degrees) ** k for k, term in enumerate(terms, start=1))

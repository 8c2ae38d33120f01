"""Numbers of 106 bits as pairs of floats: equal products and quotients are seen to be equal.

Two scores that are equal as fractions seldom come out as the same float. Here a number is a pair
``(high, low)`` with ``low`` at most half a unit in the last place of ``high``; results are right to
about 2**-100, and two numbers closer than 2**-70 are the same. (Dekker 1971.)
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.optimize.compiling import kernel

SAME = 2.0**-70
_SPLITTER = 134217729.0  # 2**27 + 1


def to_pairs(numbers: list[Fraction]) -> tuple[FloatArray, FloatArray]:
    """Return (K,) high and (K,) low parts of rational numbers."""
    high = np.array([float(number) for number in numbers])
    low = [float(number - Fraction(h)) for number, h in zip(numbers, high.tolist(), strict=True)]
    return high, np.array(low, dtype=np.float64)


@kernel
def of_whole(number: int) -> tuple[float, float]:
    """Return a 64-bit whole number as a pair, exactly."""
    high = float(number >> 32) * 4294967296.0
    low = float(number & 0xFFFFFFFF)
    total = high + low
    return total, low - (total - high)


@kernel
def add(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """Return the sum of two pairs."""
    total = a + b
    part = total - a
    rest = (a - (total - part)) + (b - part) + (a_low + b_low)
    high = total + rest
    return high, rest - (high - total)


@kernel
def product(a: float, b: float) -> tuple[float, float]:
    """Return the product of two floats, exactly."""
    c = _SPLITTER * a
    a_head = c - (c - a)
    a_tail = a - a_head
    c = _SPLITTER * b
    b_head = c - (c - b)
    b_tail = b - b_head
    high = a * b
    return high, ((a_head * b_head - high) + a_head * b_tail + a_tail * b_head) + a_tail * b_tail


@kernel
def times(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """Return the product of two pairs."""
    first, rest = product(a, b)
    rest += a * b_low + a_low * b
    high = first + rest
    return high, rest - (high - first)


@kernel
def divide(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """Return the quotient of two pairs; the divisor is not zero."""
    first = a / b
    taken, taken_low = times(first, 0.0, b, b_low)
    rest = ((a - taken) - taken_low + a_low) / b
    taken, taken_low = times(rest, 0.0, b, b_low)
    high = first + rest
    low = rest - (high - first)
    return high, low


@kernel
def compare(a: float, a_low: float, b: float, b_low: float) -> int:
    """Return -1, 0 or 1 as one pair is less than, the same as or more than another."""
    difference = (a_low - b_low) if a == b else (a - b) + (a_low - b_low)
    if abs(difference) <= SAME * min(abs(a), abs(b)):
        return 0
    return -1 if difference < 0.0 else 1

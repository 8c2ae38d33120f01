"""Floats as the numbers that their writers meant."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

# A number of at most this many decimal digits was written as a decimal.
DECIMAL_DIGITS = 12


def exact(amount: float) -> Fraction:
    """Return the number that an amount, finite and not negative, stands for.

    Returns
    -------
    Fraction
        The decimal of at most twelve digits that the float was written as, if there is one (0.1 is
        1/10); otherwise the binary fraction that the float is (a third of a GiB, a measurement).
    """
    return Fraction(*ratio(float(amount)))


def ratio(amount: float) -> tuple[int, int]:
    """Return the number that an amount stands for as numerator and denominator."""
    shortest = repr(amount)
    digits = shortest.partition("e")[0].replace(".", "").strip("0")
    number = Decimal(shortest) if len(digits) <= DECIMAL_DIGITS else amount
    return number.as_integer_ratio()

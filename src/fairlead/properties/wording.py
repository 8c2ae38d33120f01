"""Numbers as the sentence of a verdict says them."""

from __future__ import annotations

import math

# Below this, relative to what it is compared with, a difference is rounding.
NEGLIGIBLE = 1e-6


def say(number: float) -> str:
    """Return a number with four digits, or all before its point."""
    if not math.isfinite(number):
        return "infinitely many" if number > 0 else str(number)
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.4g}"


def say_change(before: float, after: float) -> tuple[str, str]:
    """Return two numbers with as many digits as it takes to see that they differ."""
    for digits in range(4, 17):
        first, second = f"{before:.{digits}g}", f"{after:.{digits}g}"
        if first != second and abs(float(first) - float(second)) > 0.5 * abs(after - before):
            break
    if digits == 4:
        return say(before), say(after)
    return first, second


def say_percent(fraction: float) -> str:
    """Return a fraction in percent, with two digits at least."""
    if not math.isfinite(fraction):
        return "infinitely"
    percent = 100 * fraction
    return f"{percent:,.0f} %" if abs(percent) >= 10 else f"{percent:.2g} %"


def counted(n: int, noun: str) -> str:
    """Write a count with its noun: ``1 server``, ``12,583 servers``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"

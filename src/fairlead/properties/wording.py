"""Numbers as the sentence of a verdict says them."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Below this, relative to what it is compared with, a difference is rounding.
NEGLIGIBLE = 1e-6
# A smaller difference, relative, is none to a reader.
UNCHANGED = 1e-3
# Longer numbers are said in powers of ten.
TOO_LONG = 1e15
NEXT_TO_NOTHING = "~0 %"
# How many of many users are named.
NAMED = 5


def say(number: float) -> str:
    """Return a number with four digits, or all before its point."""
    if not math.isfinite(number):
        return "infinitely many" if number > 0 else str(number)
    if 1000 <= abs(number) < TOO_LONG:
        return f"{number:,.0f}"
    return f"{number:.4g}"


def of_tasks(said: str) -> str:
    """Return a number that was put in words, with its noun: ``1 task``, ``2.5 tasks``."""
    return f"{said} task" if said in ("1", "-1") else f"{said} tasks"


def say_change(before: float, after: float) -> tuple[str, str]:
    """Return two numbers with as many digits as it takes to see how they differ."""
    if not (math.isfinite(before) and math.isfinite(after)):
        return say(before), say(after)
    difference = abs(after - before)
    for digits in range(4, 17):
        first, second = _with_digits(before, digits), _with_digits(after, digits)
        seen = abs(float(first.replace(",", "")) - float(second.replace(",", "")))
        if 0.5 * difference < seen < 2.0 * difference:
            break
    return first, second


def _with_digits(number: float, digits: int) -> str:
    """Return a number with at least `digits` digits, never in powers of ten where it is large."""
    if 1000 <= abs(number) < TOO_LONG:
        after_point = max(digits - len(str(int(abs(number)))), 0)
        text = f"{number:,.{after_point}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{number:.{digits}g}"


def next_to_nothing(fraction: float) -> bool:
    """Return whether the percentage would take a power of ten: it is mostly rounding then."""
    return 0 < abs(fraction) < 1e-6


def say_percent(fraction: float) -> str:
    """Return a fraction in percent, with two digits at least."""
    if not math.isfinite(fraction):
        return "infinitely"
    if next_to_nothing(fraction):
        return NEXT_TO_NOTHING
    percent = 100 * fraction
    return f"{percent:,.0f} %" if abs(percent) >= 10 else f"{percent:.2g} %"


def say_unasked(names: Sequence[str], n_users: int, why: str) -> str:
    """Add to a sentence of how many users its verdict says nothing, and who they are."""
    if not names:
        return ""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    listed = f"{', '.join(names[:NAMED])}{more}"
    return f"; nothing is said of {len(names):,} of {counted(n_users, 'user')}, {why} ({listed})"


def counted(n: int, noun: str) -> str:
    """Write a count with its noun: ``1 server``, ``12,583 servers``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"

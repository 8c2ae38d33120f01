"""Format numbers, names and counts in the sentences of verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence

NEGLIGIBLE = 1e-6  # smaller relative differences are rounding errors
UNCHANGED = 1e-3  # smaller relative differences are not shown
TOO_LONG = 1e15  # larger numbers are written in powers of ten
NEARLY_ZERO = "~0 %"
MOST_NAMES = 5  # largest number of users that a sentence names


def format_number(number: float) -> str:
    """Return a number with four digits, or all digits before its point."""
    if not math.isfinite(number):
        return "infinitely many" if number > 0 else str(number)
    number += 0.0  # makes 0 of -0
    if 1000 <= abs(number) < TOO_LONG:
        return f"{number:,.0f}"
    return f"{number:.4g}"


def format_tasks(number: str) -> str:
    """Add the noun to a formatted number: ``1 task``, ``2.5 tasks``."""
    return f"{number} task" if number in ("1", "-1") else f"{number} tasks"


def format_change(before: float, after: float) -> tuple[str, str]:
    """Return two numbers with enough digits to show their difference."""
    if not (math.isfinite(before) and math.isfinite(after)):
        return format_number(before), format_number(after)
    difference = abs(after - before)
    for digits in range(4, 17):
        first, second = _with_digits(before, digits), _with_digits(after, digits)
        shown = abs(float(first.replace(",", "")) - float(second.replace(",", "")))
        if 0.5 * difference < shown < 2.0 * difference:
            break
    return first, second


def _with_digits(number: float, digits: int) -> str:
    """Return a number with at least `digits` digits; large ones never in powers of ten."""
    if 1000 <= abs(number) < TOO_LONG:
        after_point = max(digits - len(str(int(abs(number)))), 0)
        text = f"{number:,.{after_point}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{number:.{digits}g}"


def is_nearly_zero(fraction: float) -> bool:
    """Return whether a fraction is not zero, but so small that it is mostly a rounding error."""
    return 0 < abs(fraction) < 1e-6


def format_percent(fraction: float) -> str:
    """Return a positive fraction in percent, with at least two digits."""
    if not math.isfinite(fraction):
        return "infinitely"
    percent = 100 * fraction
    return f"{percent:,.0f} %" if percent >= 10 else f"{percent:.2g} %"


def format_vacuous(names: Sequence[str], n_users: int, why: str) -> str:
    """Return the end of a sentence on the users for whom a property could not fail."""
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    listed = f"{', '.join(names[:MOST_NAMES])}{more}"
    be = "is" if len(names) == 1 else "are"
    return f"; {len(names):,} of {counted(n_users, 'user')} {be} not judged, {why} ({listed})"


def counted(n: int, noun: str) -> str:
    """Return a count with its noun: ``1 server``, ``12,583 servers``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"

"""What the scheduler alone is told: exact amounts, labels, conditions; or an error naming it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import isfinite
from numbers import Integral, Real

from fairlead.errors import InputError
from fairlead.model.exact import exact

# Quanta and tasks add up to this at most, so that nothing wraps.
LARGEST = 2**62
LEAST_WEIGHT = Fraction(1, 10**100)


def number(value: object, what: str) -> Fraction:
    """Return a finite number as its writer meant it."""
    if type(value) is float and isfinite(value):  # mostly; abstract classes take long to ask
        return exact(value)
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InputError(f"must be a number, not {value!r:.60}", what)
    if isinstance(value, Integral | Fraction):
        return Fraction(value)
    if not isfinite(value):
        raise InputError(f"must be finite, not {value!r}", what)
    return exact(float(value))


def real(value: object, what: str) -> float:
    """Return a finite number as a float."""
    if isinstance(value, float) and isfinite(value):
        return value
    try:
        return float(number(value, what))
    except OverflowError:
        raise InputError("is more than can be counted", what) from None


def positive(value: object, what: str) -> Fraction:
    """Return a number above 0."""
    found = number(value, what)
    if found <= 0:
        raise InputError(f"must be positive, not {value!r:.60}", what)
    return found


def weight_of(value: object) -> Fraction:
    """Return a weight whose inverse is a float, too."""
    found = positive(value, "weight")
    if not LEAST_WEIGHT <= found <= 1 / LEAST_WEIGHT:
        raise InputError("must be from 1e-100 to 1e100", "weight")
    return found


def name_of(value: object, what: str) -> str:
    """Return a name."""
    if not isinstance(value, str) or not value:
        raise InputError(f"must be a name, not {value!r:.60}", what)
    return value


def labels_of(labels: object) -> dict[str, str]:
    """Return labels, none for None."""
    if labels is not None and not isinstance(labels, Mapping):
        raise InputError("must be a mapping of names to names", "labels")
    pairs = (labels or {}).items()
    return {name_of(key, "labels"): name_of(value, "labels") for key, value in pairs}


Predicate = tuple[tuple[str, str], ...] | frozenset[str] | None


def predicate(where: object) -> Predicate:
    """Return labels that must all match, or names of servers; they need not be there yet."""
    if where is None:
        return None
    if isinstance(where, Mapping):
        return tuple(sorted(labels_of(where).items()))
    if isinstance(where, str) or not isinstance(where, Sequence | set | frozenset) or not where:
        raise InputError("must be labels, or a list of names", "where")
    return frozenset(name_of(name, "where") for name in where)

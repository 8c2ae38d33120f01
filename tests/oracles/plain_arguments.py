"""Arguments of a scheduler: numbers, names, labels; anything else is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import isfinite
from numbers import Integral, Real
from unicodedata import category

import numpy as np

from fairlead.errors import InputError
from fairlead.model.quantity import exact

LARGEST = 2**62


def number(value, what: str) -> Fraction:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InputError(f"must be a number, not {value!r}", what)
    if isinstance(value, Integral | Fraction):
        return Fraction(value)
    if not isfinite(value):
        raise InputError(f"must be finite, not {value!r}", what)
    return exact(float(value))


def positive(value, what: str) -> Fraction:
    if number(value, what) <= 0:
        raise InputError(f"must be positive, not {value!r}", what)
    return number(value, what)


def weight_of(value) -> Fraction:
    if number(value, "weight") < 0:
        raise InputError(f"must not be negative, not {value!r}", "weight")
    return number(value, "weight")


def whole(value, least: int, what: str, most: int = LARGEST) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"must be a whole number from {least} to {most}, not {value!r}", what)
    return int(value)


def truth(value, what: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"must be true or false, not {value!r}", what)
    return bool(value)


def name_of(value, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"must be a name, not {value!r}", what)
    if any(category(c) in {"Cc", "Cs"} for c in value):
        raise InputError(f"must have no control characters: {value!r}", what)
    return value


def found(table, key, what: str):
    is_key = isinstance(key, str | Integral) and not isinstance(key, bool)
    if not is_key or key not in table:
        raise InputError(f"there is no {what} {key!r}", what)
    return table[key]


def labels_of(labels) -> dict[str, str]:
    if labels is not None and not isinstance(labels, Mapping):
        raise InputError("must be a mapping of names to names", "labels")
    pairs = (labels or {}).items()
    return {name_of(key, "labels"): name_of(value, "labels") for key, value in pairs}


def predicate(where) -> dict[str, str] | tuple[str, ...] | None:
    """Labels that must all match, or names of which one must; they need not be there yet."""
    if where is None:
        return None
    if isinstance(where, Mapping):
        return labels_of(where)
    if isinstance(where, str) or not isinstance(where, Sequence | set | frozenset) or not where:
        raise InputError("must be labels, or a list of names", "where")
    return tuple(sorted(name_of(name, "where") for name in where))

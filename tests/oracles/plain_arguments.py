"""Parse the arguments of a plain scheduler; each function raises InputError for wrong ones."""

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


def parse_number(value, what: str) -> Fraction:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InputError(f"must be a number, not {value!r}", what)
    if isinstance(value, Integral | Fraction):
        return Fraction(value)
    if not isfinite(value):
        raise InputError(f"must be finite, not {value!r}", what)
    return exact(float(value))


def parse_positive(value, what: str) -> Fraction:
    if parse_number(value, what) <= 0:
        raise InputError(f"must be positive, not {value!r}", what)
    return parse_number(value, what)


def parse_weight(value) -> Fraction:
    if parse_number(value, "weight") < 0:
        raise InputError(f"must not be negative, not {value!r}", "weight")
    return parse_number(value, "weight")


def parse_whole(value, least: int, what: str, most: int = LARGEST) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"must be a whole number from {least} to {most}, not {value!r}", what)
    return int(value)


def parse_bool(value, what: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"must be true or false, not {value!r}", what)
    return bool(value)


def parse_name(value, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"must be a name, not {value!r}", what)
    if any(category(c) in {"Cc", "Cs"} for c in value):
        raise InputError(f"must have no control characters: {value!r}", what)
    return value


def find(table, key, what: str):
    """Return the row of a key; raise InputError without one."""
    is_key = isinstance(key, str | Integral) and not isinstance(key, bool)
    if not is_key or key not in table:
        raise InputError(f"there is no {what} {key!r}", what)
    return table[key]


def parse_labels(labels) -> dict[str, str]:
    if labels is not None and not isinstance(labels, Mapping):
        raise InputError("must be a mapping of names to names", "labels")
    pairs = (labels or {}).items()
    return {parse_name(key, "labels"): parse_name(value, "labels") for key, value in pairs}


def parse_constraint(where) -> dict[str, str] | tuple[str, ...] | None:
    """Return labels that must all match, or names of which one must match; None for any server."""
    if where is None:
        return None
    if isinstance(where, Mapping):
        return parse_labels(where)
    if isinstance(where, str) or not isinstance(where, Sequence | set | frozenset) or not where:
        raise InputError("must be labels, or a list of names", "where")
    return tuple(sorted(parse_name(name, "where") for name in where))

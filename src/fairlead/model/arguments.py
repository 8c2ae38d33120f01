"""Check arguments of public functions; errors name the argument."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.model.names import check_name
from fairlead.model.quantity import show

LONGEST_NAME = 253


def whole_number(value: Any, name: str, least: int = 0, most: int | None = None) -> int:
    """Return a whole number from `least` to `most`, or raise InputError, also for a bool."""
    if type(value) is int and least <= value and (most is None or value <= most):
        return value  # the usual case first: checks of abstract classes are slow
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < least:
        wanted = f"a whole number from {least}" if least != 1 else "a positive whole number"
        raise InputError(f"must be {wanted}, not {value!r:.60}", name)
    if most is not None and value > most:
        raise InputError(f"must be at most {most:,}, not {show(value)}", name)
    return int(value)


def number(value: Any, name: str) -> float:
    """Return a number as a float, or raise InputError, also for text or a bool."""
    try:
        if isinstance(value, Real) and not isinstance(value, bool):
            return float(value)
    except OverflowError:
        pass
    raise InputError(f"must be a number, not {value!r:.60}", name)


def switch(value: Any, name: str) -> bool:
    """Return a bool, or raise InputError."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"must be True or False, not {value!r:.60}", name)
    return bool(value)


def file_name(value: Any, name: str) -> str | os.PathLike[str]:
    """Return the path of a file or folder, or raise InputError."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"must be the name of a file, not of type {type(value).__name__}", name)
    return value


def several(values: Any, name: str, what: str = "names") -> tuple[Any, ...]:
    """Return a sequence as a tuple; raise ProblemError for text, a set or an iterator.

    `what` names the entries in the error.
    """
    if isinstance(values, str | bytes | set | frozenset) or not hasattr(values, "__len__"):
        raise ProblemError(f"must be a list of {what}, not {values!r:.60}", name)
    return tuple(values)


def text(value: Any, place: str) -> str:
    """Return a name as text; ProblemError unless it is text or a whole number."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, str):
        quotes = "; put it in quotes" if isinstance(value, bool | float) else ""
        raise ProblemError(f"must be text, not {show(value)}{quotes}", place)
    return check_name(str(value), place)


def name_text(value: Any, place: str) -> str:
    """Return a name as `text` does; ProblemError also if it is empty or very long."""
    name = text(value, place)
    if not name or name.isspace():
        raise ProblemError("is an empty name", place)
    if len(name) > LONGEST_NAME:
        raise ProblemError(f"is longer than {LONGEST_NAME} characters: {show(name)}", place)
    return name


def texts(values: Any, name: str, field: str = "") -> tuple[str, ...]:
    """Return names as text; errors name the entry: ``users[1].name`` with field ``.name``."""
    entries = enumerate(several(values, name))
    return tuple(text(value, f"{name}[{k}]{field}") for k, value in entries)


def one_or_several(names: str | Sequence[str], what: str) -> tuple[str, ...]:
    """Return one name, or a sequence of names, as a tuple of texts."""
    return (names,) if isinstance(names, str) else texts(names, what)

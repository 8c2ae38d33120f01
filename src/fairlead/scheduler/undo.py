"""What if: events on a copy of all that is so, which is forgotten at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

_NEVER_CHANGED = (str, int, float, bool, tuple, frozenset, type(None))


@contextmanager
def undone(scheduler: Any) -> Iterator[None]:
    """Have a scheduler go on with a copy of its data, and with the data as they were at the end."""
    kept = dict(vars(scheduler))
    memo: dict[int, Any] = {}
    vars(scheduler).update({name: _copied(value, memo) for name, value in kept.items()})
    try:
        yield
    finally:
        vars(scheduler).clear()
        vars(scheduler).update(kept)


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """Return a copy; an array that is there twice is one array in it, too."""
    if isinstance(value, np.ndarray):
        if id(value) not in memo:
            memo[id(value)] = value.copy()
        return memo[id(value)]
    if isinstance(value, tuple) and hasattr(value, "_replace"):  # arrays by name
        return type(value)(*(_copied(part, memo) for part in value))
    if isinstance(value, _NEVER_CHANGED) or callable(value):
        return value
    if isinstance(value, list):  # what stands in a list is never changed
        return value.copy()
    if isinstance(value, dict):
        is_nested = isinstance(next(iter(value.values()), None), dict | list)
        return {key: v.copy() for key, v in value.items()} if is_nested else value.copy()
    return deepcopy(value)

"""Figures as the plain values that JSON knows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def plain(value: Any) -> Any:
    """Return mappings, sequences and arrays as plain ones, None for what is not a finite number."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def rows_of(names: Sequence[str], columns: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
    """Return a table by rows: the value in each column, for each name."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return {
        name: dict(zip(columns, row, strict=True)) for name, row in zip(names, rows, strict=True)
    }

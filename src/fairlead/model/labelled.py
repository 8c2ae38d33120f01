"""Tables whose rows and columns have labels, laid out by name: frames and series.

Neither pandas nor polars is imported: whatever has ``to_numpy`` and ``columns`` is a frame, its
``index``, if it has one, names its rows, and else its only column of text does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.errors import ProblemError


@dataclass(frozen=True)
class Labels:
    """Labels of one axis; `chosen` where somebody chose them, and they do not merely count."""

    names: tuple[str, ...]
    chosen: bool


@dataclass(frozen=True, eq=False)
class Table:
    """Values with what their axes are called, None where an axis has no labels."""

    name: str
    values: Any
    axes: tuple[Labels | None, Labels | None] = (None, None)

    def laid_out(self, rows: Sequence[str] | None, columns: Sequence[str] | None = None) -> Any:
        """Return the values in the order of these names; as they are where there are no labels."""
        values = self.values
        for axis, names in enumerate((rows, columns)):
            labels = self.axes[axis]
            if labels is None or names is None:
                continue
            if sorted(labels.names) == sorted(names):
                position = {label: k for k, label in enumerate(labels.names)}
                values = np.take(values, [position[name] for name in names], axis)
            elif labels.chosen:
                raise ProblemError(_difference(labels.names, names), self.name)
        return values


def read_table(values: Any, name: str, *, vector: bool = False) -> Table:
    """Take an array, a frame or a series.

    For a vector a frame of one column will do, and for a matrix a series is its only row.

    Raises
    ------
    ProblemError
        For labels that stand twice.
    """
    if not hasattr(values, "to_numpy"):
        return Table(name, values)
    index, columns = getattr(values, "index", None), getattr(values, "columns", None)
    if columns is None:
        row = None if index is None else _labels(index, name)
        content = np.asarray(values.to_numpy())
        return (
            Table(name, content, (row, None)) if vector else Table(name, content[None], (None, row))
        )
    if index is None:
        texts = [c for c in columns if all(isinstance(x, str) for x in values[c].to_numpy())]
        if len(texts) == 1:
            index = values[texts[0]].to_numpy()
            values = values[[c for c in columns if c != texts[0]]]
    row = None if index is None else _labels(index, name)
    content = np.asarray(values.to_numpy())
    if vector and content.shape[1] == 1:
        return Table(name, content[:, 0], (row, None))
    return Table(name, content, (row, _labels(values.columns, name)))


def name_axis(
    given: Sequence[str] | None, tables: Sequence[tuple[Table, int]]
) -> Sequence[str] | None:
    """Return the names of an axis: those given, or else the first that a table has."""
    if given is not None:
        return given
    for table, axis in tables:
        labels = table.axes[axis]
        if labels is not None and labels.chosen:
            return labels.names
    return None


def _labels(labels: Any, name: str) -> Labels:
    """Read labels; 0, 1, 2, ... and column_0, column_1, ... are what frames call the nameless."""
    names = tuple(str(label) for label in labels)
    if len(set(names)) < len(names):
        twice = next(label for k, label in enumerate(names) if label in names[:k])
        raise ProblemError(f"has the label {twice!r} twice", name)
    counted = any(
        names == tuple(f"{start}{k}" for k in range(len(names))) for start in ("", "column_")
    )
    return Labels(names, not counted)


def _difference(labels: Sequence[str], names: Sequence[str]) -> str:
    """Say which label is missing or unknown."""
    known = set(names)
    for label in labels:
        if label not in known:
            return f"has {label!r}, which is none of {', '.join(map(str, names))}"
    missing = next(name for name in names if name not in labels)
    return f"has no {missing!r}, only {', '.join(labels)}"

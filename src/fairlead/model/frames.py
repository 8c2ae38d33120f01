"""Read arrays, frames and series, and arrange labelled ones by name.

Neither pandas nor polars is imported. An object with ``to_numpy`` is a frame if it has ``columns``,
else a series. The ``index`` of a frame names its rows; if it has none, or a default one, the only
column of text does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import ProblemError
from fairlead.model.cluster import BoolArray, FloatArray, sealed
from fairlead.model.names import check_name


@dataclass(frozen=True)
class Labels:
    """Labels of one axis."""

    names: tuple[str, ...]
    chosen: bool  # False for default labels, such as 0, 1, 2


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """A table of one or two axes, with labels."""

    name: str  # of the argument, for errors
    values: Any
    axes: tuple[Labels | None, Labels | None] = (None, None)  # None: an axis without labels

    def laid_out(self, rows: Sequence[str] | None, columns: Sequence[str] | None = None) -> Any:
        """Return the values in the order of these names; an axis without labels is unchanged.

        Raises ProblemError for chosen labels that are not these names.
        """
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


def read_table(values: Any, name: str, *, vector: bool = False) -> LabelledTable:
    """Read an array, a frame or a series.

    With `vector`, a series and a frame of one column have one axis. Otherwise a series is the only
    row of a table. Raises ProblemError for a duplicate label, and for text among the numbers.
    """
    if not hasattr(values, "to_numpy"):
        return LabelledTable(name, values)
    index, columns = getattr(values, "index", None), getattr(values, "columns", None)
    content = np.asarray(values.to_numpy())
    texts = [] if columns is None else _columns_of_text(content)
    # An index of numbers next to a column of names is a default index, sorted or filtered.
    are_numbers = len(texts) == 1 and getattr(getattr(index, "dtype", None), "kind", "") in "iu"
    row = None if index is None or are_numbers else _read_labels(index, name)
    if columns is None:  # a series
        if vector:
            return LabelledTable(name, content, (row, None))
        return LabelledTable(name, content[None], (None, row))
    columns = tuple(columns)
    if len(texts) == 1 and (row is None or not row.chosen):
        (names,) = texts
        row = _read_labels(content[:, names], name)
        content, columns = np.delete(content, names, 1), columns[:names] + columns[names + 1 :]
    elif texts:
        in_columns = " and ".join(repr(str(columns[k])) for k in texts)
        fault = f"has text in {in_columns}; one column, or an index, may name the rows"
        raise ProblemError(fault, name)
    if vector and content.shape[1] == 1:
        return LabelledTable(name, content[:, 0], (row, None))
    return LabelledTable(name, content, (row, _read_labels(columns, name)))


def read_numbers(values: Any, name: str) -> FloatArray:
    """Return a read-only copy of a table of numbers, or raise ProblemError."""
    rows = values if isinstance(values, list | tuple) else (values,)
    if any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in rows):
        raise ProblemError("has masked values, where there must be numbers", name)
    try:
        given = np.asarray(values)
        if given.dtype.kind in "cmM":
            raise ProblemError(f"must be a table of numbers, not of {given.dtype}", name)
        return sealed(np.array(given, dtype=np.float64))
    except (TypeError, ValueError, OverflowError) as error:
        raise ProblemError(f"must be a table of numbers ({error})", name) from None


def read_switches(values: Any, name: str) -> BoolArray:
    """Return a read-only copy of a table of bools (or 1 and 0) as bools, or raise ProblemError."""
    if isinstance(values, np.ndarray) and values.dtype == bool and not np.ma.is_masked(values):
        return sealed(np.array(values))
    numbers = read_numbers(values, name)
    if not np.isin(numbers, (0, 1)).all():
        raise ProblemError("must be a table of True and False", name)
    return sealed(numbers.astype(bool))


def name_axis(
    given: Sequence[str] | None, tables: Sequence[tuple[LabelledTable, int]]
) -> Sequence[str] | None:
    """Return the given names of an axis, or else the labels of the first table that has some."""
    if given is not None:
        return given
    for table, axis in tables:
        labels = table.axes[axis]
        if labels is not None and labels.chosen:
            return labels.names
    return None


def _columns_of_text(content: NDArray[Any]) -> list[int]:
    """Return the indices of columns that contain text."""
    if content.dtype.kind not in "OUT":  # a column with text and numbers is of objects
        return []
    return [k for k, column in enumerate(content.T) if any(isinstance(x, str) for x in column)]


def _read_labels(labels: Any, name: str) -> Labels:
    """Read labels; ``0, 1, ...`` and ``column_0, ...`` are default names of frames."""
    names = tuple(check_name(str(label), name) for label in labels)
    if len(set(names)) < len(names):
        twice = next(label for k, label in enumerate(names) if label in names[:k])
        raise ProblemError(f"has the label {twice!r} twice", name)
    are_default = any(
        names == tuple(f"{prefix}{k}" for k in range(len(names))) for prefix in ("", "column_")
    )
    return Labels(names, not are_default)


def _difference(labels: Sequence[str], names: Sequence[str]) -> str:
    """Describe the first unknown or missing label."""
    known = set(names)
    for label in labels:
        if label not in known:
            return f"has {label!r}, which is none of {', '.join(map(str, names))}"
    missing = next(name for name in names if name not in labels)
    return f"has no {missing!r}, only {', '.join(labels)}"

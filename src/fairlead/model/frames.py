"""Read arrays, frames and series, and arrange labelled ones by name.

Neither pandas nor polars is imported: a frame is an object with ``to_numpy`` and ``columns``. Its
rows are named by its ``index``, or by its only column of text if the index is a default range.
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
    """Labels of one axis; `chosen` is False for default labels, such as 0, 1, 2."""

    names: tuple[str, ...]
    chosen: bool


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """A table and the labels of its rows and columns, None for an axis without labels."""

    name: str
    values: Any
    axes: tuple[Labels | None, Labels | None] = (None, None)

    def laid_out(self, rows: Sequence[str] | None, columns: Sequence[str] | None = None) -> Any:
        """Return the values in the order of these names; unchanged without labels.

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
    """Read an array, a frame or a series. A frame of one column is a vector, a series a row.

    Raises ProblemError for a duplicate label, and for text among the numbers.
    """
    if not hasattr(values, "to_numpy"):
        return LabelledTable(name, values)
    index, columns = getattr(values, "index", None), getattr(values, "columns", None)
    content = np.asarray(values.to_numpy())
    texts = [] if columns is None else _columns_of_text(content)
    # An index of numbers next to a column of names is a default index, sorted or filtered.
    are_numbers = len(texts) == 1 and getattr(getattr(index, "dtype", None), "kind", "") in "iu"
    row = None if index is None or are_numbers else _labels(index, name)
    if columns is None:  # a series
        if vector:
            return LabelledTable(name, content, (row, None))
        return LabelledTable(name, content[None], (None, row))
    columns = tuple(columns)
    if len(texts) == 1 and (row is None or not row.chosen):
        (names,) = texts
        row = _labels(content[:, names], name)
        content, columns = np.delete(content, names, 1), columns[:names] + columns[names + 1 :]
    elif texts:
        held = " and ".join(repr(str(columns[k])) for k in texts)
        raise ProblemError(f"has text in {held}; one column, or an index, may name the rows", name)
    if vector and content.shape[1] == 1:
        return LabelledTable(name, content[:, 0], (row, None))
    return LabelledTable(name, content, (row, _labels(columns, name)))


def read_numbers(values: Any, name: str) -> FloatArray:
    """Return a read-only copy of a table of numbers, or raise ProblemError."""
    rows = values if isinstance(values, list | tuple) else (values,)
    if any(np.ma.is_masked(row) for row in rows):
        raise ProblemError("has masked values, where there must be numbers", name)
    try:
        kind = np.asarray(values).dtype
        if kind.kind in "cmM":
            raise ProblemError(f"must be a table of numbers, not of {kind}", name)
        return sealed(np.array(values, dtype=np.float64))
    except (TypeError, ValueError, OverflowError) as error:
        raise ProblemError(f"must be a table of numbers ({error})", name) from None


def read_switches(values: Any, name: str) -> BoolArray:
    """Return a read-only copy of a table of bools, or 1 and 0; or raise ProblemError."""
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
    """Return the columns that contain text; numbers beside text are objects."""
    if content.dtype.kind not in "OUT":
        return []
    return [k for k, column in enumerate(content.T) if any(isinstance(x, str) for x in column)]


def _labels(labels: Any, name: str) -> Labels:
    """Read labels; ``0, 1, ...`` and ``column_0, ...`` are the default names of frames."""
    names = tuple(check_name(str(label), name) for label in labels)
    if len(set(names)) < len(names):
        twice = next(label for k, label in enumerate(names) if label in names[:k])
        raise ProblemError(f"has the label {twice!r} twice", name)
    counted = any(
        names == tuple(f"{start}{k}" for k in range(len(names))) for start in ("", "column_")
    )
    return Labels(names, not counted)


def _difference(labels: Sequence[str], names: Sequence[str]) -> str:
    """Describe the first unknown or missing label."""
    known = set(names)
    for label in labels:
        if label not in known:
            return f"has {label!r}, which is none of {', '.join(map(str, names))}"
    missing = next(name for name in names if name not in labels)
    return f"has no {missing!r}, only {', '.join(labels)}"

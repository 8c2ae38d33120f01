"""Rows of a CSV file with a header, quotes and all, whose faults name row and column."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead.errors import InputError
from fairlead.traces.lines import ProgressReport, read_lines

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
LARGEST_WHOLE = 2**53


@dataclass(slots=True)
class Row:
    """One row; its number counts from 1, the header included, and `columns` is the header."""

    source: str
    row: int
    columns: Sequence[str]
    fields: list[str]

    def fault(self, column: int, fault: str) -> InputError:
        """Return the error that shows the value of a column and says what is wrong with it."""
        text = self.fields[column]
        shown = repr(text if len(text) <= 40 else text[:37] + "...")
        return InputError(
            f"{self.columns[column]}: {shown} {fault}", f"row {self.row}", self.source
        )

    def number(self, column: int, *, least: float) -> float:
        """Return a finite number that is at least `least`; any other field raises InputError."""
        text = self.fields[column]
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not math.isfinite(value):
            raise self.fault(column, "is not a number")
        if value < least:
            raise self.fault(column, f"is less than {least:.15g}")
        return value

    def whole(self, column: int) -> int:
        """Return a positive whole number; any other field raises InputError."""
        text = self.fields[column]
        value = int(text) if re.fullmatch(r"[0-9]{1,16}", text) else 0
        if not 0 < value <= LARGEST_WHOLE:
            raise self.fault(column, "is not a positive whole number of usable size")
        return value


def truth(row: Row, column: int) -> bool:
    """Return whether a field is ``true``; raises InputError when it is not ``false`` either."""
    text = row.fields[column]
    if text not in ("true", "false"):
        raise row.fault(column, "is neither true nor false")
    return text == "true"


def read_rows(
    path: Path,
    columns: Sequence[str],
    on_progress: ProgressReport | None = None,
    optional: Sequence[str] = (),
) -> Iterator[Row]:
    """Yield the rows below the header; empty lines are skipped.

    Parameters
    ----------
    path : Path
        The file, gzipped or plain.
    columns : sequence of str
        What the header has to be.
    on_progress : callable, optional
        See `read_lines`.
    optional : sequence of str
        Columns that may follow; a file may have the first few of them alone.

    Raises
    ------
    InputError
        For an unreadable file, another header, or a row with a wrong number of columns. It names
        file and row.

    Notes
    -----
    Memory O(1) in the length of the file.
    """
    source = str(path)
    row = 0

    def lines() -> Iterator[str]:
        nonlocal row
        for number, line in read_lines(path, on_progress):
            row = number
            yield line

    begun = False
    try:
        for fields in csv.reader(lines(), strict=True):
            if not begun:
                begun = True
                more = fields[len(columns) :]
                if fields != [*columns, *optional[: len(more)]]:
                    fault = f"the header is {','.join(fields)[:80]!r} and not {','.join(columns)!r}"
                    raise InputError(fault, f"row {row}", source)
                columns = fields
            elif fields:
                if len(fields) != len(columns):
                    fault = f"{len(fields)} columns separated by commas, not {len(columns)}"
                    raise InputError(fault, f"row {row}", source)
                yield Row(source, row, columns, fields)
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", f"row {row}", source) from None
    if not begun:
        raise InputError("is empty", "", source)

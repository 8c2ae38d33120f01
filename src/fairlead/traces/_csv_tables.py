"""Read tables of comma-separated text block by block; errors name row and column.

The tables of cluster traces are long, and plain or compressed. polars splits and converts a whole
block of text at a time. Rows with too few columns, and text in place of numbers, are refused here,
as polars would accept them. Rows with quotes are rare, and split one by one.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Literal

import polars as pl

from fairlead.errors import InputError
from fairlead.traces._stored_files import ProgressReport, quoted, read_texts

ROW = "row"


@dataclass(frozen=True, slots=True)
class TraceColumn:
    """A column of a table: its name, and the values it may have."""

    name: str
    # Whole numbers, finite real numbers, flags (``true`` or ``false``), or text.
    kind: Literal["whole", "real", "flag", "text"] = "text"
    least: int = 0  # the smallest number allowed
    most: float = inf  # the largest number allowed; by default 2^53 for whole numbers
    optional: bool = False  # whether fields may be empty, and are then read as null


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a table; the column `ROW` has the number of each row in the file, from 1."""

    source: str  # the file
    frame: pl.DataFrame  # the converted values
    texts: pl.DataFrame  # the fields as the file has them, for errors

    def refuse(self, wrong: pl.Series, fault: str, column: str = "") -> None:
        """Raise InputError for the first wrong row, with its value in `column` if that is given."""
        first = first_true(wrong)
        if first is not None:
            raise self.error(first, fault, column)

    def error(self, row: int, fault: str, column: str = "") -> InputError:
        """Return the error for a row, given by its index in the block."""
        if column:
            fault = f"{column}: {quoted(self.texts[column][row])} {fault}"
        return InputError(fault, f"row {self.frame[ROW][row]}", self.source)


def keep_usable(
    frame: pl.DataFrame, notes: Counter[str], usable: Mapping[str, pl.Expr]
) -> pl.DataFrame:
    """Return the rows that meet all conditions; count the others in `notes`.

    A row is counted under the first condition it does not meet; keys of `usable` are the notes.
    """
    for reason, condition in usable.items():
        kept = frame.filter(condition)
        notes[reason] += len(frame) - len(kept)
        frame = kept
    return frame


def first_true(flags: pl.Series) -> int | None:
    """Return the index of the first true flag; None if none is true."""
    return flags.arg_max() if flags.any() else None


def read_blocks(
    path: Path,
    columns: Sequence[TraceColumn],
    *,
    header: bool = False,
    on_progress: ProgressReport | None = None,
) -> Iterator[Block]:
    """Yield the rows of a table, plain or compressed, a block of text at a time.

    Empty lines, and blanks around fields, are skipped. With `header` the first row has the names of
    columns, in any order; columns not in `columns` stay text. Memory O(block).

    Raises InputError with file, row and column for

    - a file that cannot be read, is damaged or is not text;
    - a header that lacks one of `columns`, or repeats a name;
    - a row with a wrong number of columns;
    - a field that is empty, not a number, or out of range.
    """
    source = str(path)
    names = [column.name for column in columns]
    empty = True
    for row, content in read_texts(path, on_progress):
        text = content
        if header and row == 1:
            first, _, rest = content.partition("\n")
            names = _read_header(first.strip(), names, source)
            text = f"\n{rest}"  # an empty first line keeps the numbers of rows
        empty = False
        lines = numbered_lines(text, row)
        if len(lines):
            yield convert(split_rows(lines, names, source), columns, source)
    if header and empty:
        raise InputError("is empty", "", source)


def _read_header(line: str, wanted: Sequence[str], source: str) -> list[str]:
    """Return the names in a header; raise InputError if a wanted one is absent, or any repeated."""
    names = [name.strip() for name in split_row(line, 1, source)]
    absent = [name for name in wanted if name not in names]
    if absent:
        raise InputError(f"the header lacks {', '.join(absent)}: {quoted(line)}", "row 1", source)
    if len(set(names)) < len(names):
        raise InputError(f"the header repeats a name: {quoted(line)}", "row 1", source)
    return names


def split_row(line: str, row: int, source: str) -> list[str]:
    """Split a row at its commas; raise InputError for malformed quotes."""
    if '"' not in line:
        return line.split(",")
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", f"row {row}", source) from None


def numbered_lines(text: str, first_row: int) -> pl.DataFrame:
    """Return the stripped lines of a text that are not empty, with their row numbers."""
    lines = pl.Series([text]).str.split("\n").explode().str.strip_chars()
    frame = pl.DataFrame({"line": lines}).with_row_index(ROW, offset=first_row)
    return frame.filter(pl.col("line") != "")


def split_rows(lines: pl.DataFrame, names: Sequence[str], source: str) -> pl.DataFrame:
    """Return the fields of numbered lines by column.

    Raises InputError for a row with a wrong number of fields.
    """
    has_quotes = lines["line"].str.contains('"', literal=True).any()
    if has_quotes:
        rows = [split_row(line, row, source) for row, line in lines.select(ROW, "line").iter_rows()]
        counts = pl.Series([len(row) for row in rows], dtype=pl.Int64)
    else:
        counts = lines["line"].str.count_matches(",", literal=True) + 1
    first = first_true(counts != len(names))
    if first is not None:
        fault = f"{counts[first]} columns separated by commas, not {len(names)}"
        raise InputError(fault, f"row {lines[ROW][first]}", source)
    if has_quotes:
        fields = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    else:
        fields = lines["line"].str.split_exact(",", len(names) - 1).struct.unnest()
        fields.columns = list(names)
    return fields.with_columns(lines[ROW])


def convert(texts: pl.DataFrame, columns: Sequence[TraceColumn], source: str) -> Block:
    """Check and convert the fields of a block; raise InputError for the first invalid one."""
    block = Block(source, texts, texts)
    return Block(source, texts.with_columns([_convert_column(block, c) for c in columns]), texts)


def _convert_column(block: Block, column: TraceColumn) -> pl.Series:
    """Check and convert a column; empty fields of an optional one become null."""
    name = column.name
    text = block.frame[name].str.strip_chars()
    empty = text == ""
    if not column.optional and empty.any():
        block.refuse(empty, f"{name}: is empty")
    present = block.frame.select(pl.when(~empty).then(text))[name]
    if column.kind == "text":
        return present
    if column.kind == "flag":
        return present == "true"
    is_whole = column.kind == "whole"
    numbers = present.cast(pl.Int64 if is_whole else pl.Float64, strict=False)
    if not is_whole:
        numbers = numbers.set(~numbers.is_finite(), None)
    wanted = "a whole number below 2^63" if is_whole else "a number"
    block.refuse(numbers.is_null() & present.is_not_null(), f"is not {wanted}", name)
    largest = 2**53 if is_whole and column.most == inf else column.most
    block.refuse((numbers > largest).fill_null(False), f"is more than {largest:.0f}", name)
    block.refuse((numbers < column.least).fill_null(False), f"is less than {column.least}", name)
    return numbers

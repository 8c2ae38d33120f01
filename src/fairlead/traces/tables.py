"""Tables of comma-separated text without quotes, read block by block, faults naming the row.

The tables of cluster traces are long, plain and gzipped. A block of text is split and converted
in one go by polars; what it would pass over in silence (short rows, text in place of numbers) is
looked for and refused.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fairlead.errors import InputError
from fairlead.traces.lines import ProgressReport, faults_of_reading, open_stored

if TYPE_CHECKING:
    import polars as pl

BYTES_PER_BLOCK = 16 * 2**20
BYTES_PER_READ = 2**16
ROW = "row"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        As the header or the published schema has it.
    kind : str
        ``whole`` numbers, ``real`` numbers (finite), or ``text``.
    least, most : int
        The least and the largest number that are usable.
    optional : bool
        Whether it may be empty, which reads as null; empty text too.
    """

    name: str
    kind: Literal["whole", "real", "text"] = "text"
    least: int = 0
    most: int = 2**53
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a table, by column; the column `ROW` has the number of each, from 1."""

    source: str
    frame: pl.DataFrame

    def refuse(self, wrong: pl.Series, fault: str, column: str = "") -> None:
        """Raise InputError for the first wrong row, with its value in the column given, if any."""
        first = first_true(wrong)
        if first is None:
            return
        place = f"row {self.frame[ROW][first]}"
        if column:
            fault = f"{column}: {show(self.frame[column][first])} {fault}"
        raise InputError(fault, place, self.source)


def first_true(flags: pl.Series) -> int | None:
    """Return the position of the first true flag, or None."""
    return flags.arg_max() if flags.any() else None


def show(value: Any) -> str:
    """Return a value as a message shows it, cut where it is long."""
    text = str(value)
    return repr(text if len(text) <= 40 else text[:37] + "...")


def read_blocks(
    path: Path,
    columns: Sequence[Column],
    *,
    header: bool = False,
    on_progress: ProgressReport | None = None,
) -> Iterator[Block]:
    """Yield the rows of a table, a block of text at a time; empty lines are skipped.

    Parameters
    ----------
    path : Path
        The file, gzipped or plain.
    columns : sequence of Column
        All columns, in order.
    header : bool
        Whether the first row has to be the columns' names.
    on_progress : callable, optional
        Called with (bytes read, bytes in all) of the stored file.

    Yields
    ------
    Block
        At least one row each.

    Raises
    ------
    InputError
        For a file that cannot be read, is damaged or truncated, is not text, has another header, a
        row with a wrong number of columns, or a field that is empty where it must not be, no
        number, or less than its least. It names file, row and column.

    Notes
    -----
    Memory O(block), whatever the length of the file.
    """
    source = str(path)
    row = 1
    for content in _texts(path, on_progress):
        text = content
        if header and row == 1:
            first, _, text = content.partition("\n")
            _check_header(first.rstrip("\r"), columns, source)
            row += 1
        block = _block(text, row, columns, source)
        row += text.count("\n")
        if len(block.frame):
            yield block


def _texts(path: Path, on_progress: ProgressReport | None) -> Iterator[str]:
    """Yield the text of a file in blocks of whole rows."""
    source = str(path)
    rows_before, pieces, length = 0, list[bytes](), 0

    def here() -> int:
        return rows_before + sum(piece.count(b"\n") for piece in pieces) + 1

    with faults_of_reading(source, here), open_stored(path) as (stream, stored, size):
        while True:
            piece = stream.read1(BYTES_PER_READ)  # type: ignore[attr-defined]
            pieces.append(piece)
            length += len(piece)
            if piece and length < BYTES_PER_BLOCK:
                continue
            whole, newline, rest = b"".join(pieces).rpartition(b"\n")
            if rows_before == 0:
                whole = whole.removeprefix(codecs.BOM_UTF8)
            if not piece:
                whole, newline, rest = whole + newline + rest, b"", b""
            if piece and not newline:
                raise InputError(f"longer than {BYTES_PER_BLOCK} bytes", f"row {here()}", source)
            if whole:
                yield _decoded(whole + newline, rows_before + 1, source)
            if on_progress is not None:
                on_progress(stored.tell() if piece else size, size)
            if not piece:
                return
            rows_before += whole.count(b"\n") + 1
            pieces, length = [rest], len(rest)


def _decoded(content: bytes, row: int, source: str) -> str:
    zero = content.find(b"\0")
    if zero >= 0:
        here = row + content.count(b"\n", 0, zero)
        raise InputError("not text: it holds a zero byte", f"row {here}", source)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        here = row + content.count(b"\n", 0, error.start)
        raise InputError("not text in UTF-8", f"row {here}", source) from None


def _check_header(line: str, columns: Sequence[Column], source: str) -> None:
    expected = ",".join(column.name for column in columns)
    if line != expected:
        fault = f"the header is {show(line)} and not {expected!r}"
        raise InputError(fault, "row 1", source)


def _block(text: str, first_row: int, columns: Sequence[Column], source: str) -> Block:
    import polars as pl

    lines = pl.Series([text]).str.split("\n").explode().str.strip_suffix("\r")
    frame = pl.DataFrame({"line": lines}).with_row_index(ROW, offset=first_row)
    frame = frame.filter(pl.col("line") != "")
    commas = frame["line"].str.count_matches(",", literal=True)
    first = first_true(commas != len(columns) - 1)
    if first is not None:
        fault = f"{commas[first] + 1} columns separated by commas, not {len(columns)}"
        raise InputError(fault, f"row {frame[ROW][first]}", source)
    fields = frame["line"].str.split_exact(",", len(columns) - 1).struct.unnest()
    fields.columns = [column.name for column in columns]
    block = Block(source, fields.with_columns(frame[ROW]))
    return Block(
        source, block.frame.with_columns([_converted(block, column) for column in columns])
    )


def _converted(block: Block, column: Column) -> pl.Series:
    import polars as pl

    name = column.name
    text = block.frame[name]
    empty = text == ""
    if not column.optional and empty.any():
        block.refuse(empty, f"{name}: is empty")
    given = block.frame.select(pl.when(~empty).then(text))[name]
    if column.kind == "text":
        return given
    dtype = pl.Int64 if column.kind == "whole" else pl.Float64
    numbers = given.cast(dtype, strict=False)
    what = "a whole number" if column.kind == "whole" else "a number"
    block.refuse(numbers.is_null() & given.is_not_null(), f"is not {what} of usable size", name)
    if column.kind == "real":
        block.refuse((~numbers.is_finite()).fill_null(False), "is not a number", name)
    for wrong, fault in (
        (numbers < column.least, f"is less than {column.least}"),
        (numbers > column.most, f"is more than {column.most}"),
    ):
        block.refuse(wrong.fill_null(False), fault, name)
    return numbers

"""Text files read row by row, gzipped or plain, with faults that name the row."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from fairlead.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"
# A row that lists a host per core of the largest machines stays far below this; a file without
# line ends must not be read into memory whole.
LONGEST_ROW = 16 * 2**20
ROWS_PER_REPORT = 4096

ProgressReport = Callable[[int, int], None]
"""Called now and then with the bytes read of the file and the bytes in it."""


def read_lines(
    path: Path, progress: ProgressReport | None = None, *, comment: str | None = None
) -> Generator[tuple[int, str], None, None]:
    """Yield the rows of a text file one by one: number, from 1, and text without blanks around it.

    The first bytes decide whether the file is gzipped, not its name. A byte order mark goes.

    Parameters
    ----------
    progress : callable, optional
        Called with (bytes read, bytes in all) of the stored file every few thousand rows and at
        the end.
    comment : str, optional
        What a comment begins with, which may be in Latin-1 where all else is UTF-8.

    Raises
    ------
    InputError
        When the file cannot be opened, is a damaged or truncated gzip file, or is not text. It
        names the file and the row.

    Notes
    -----
    Memory O(1) in the length of the file.
    """
    source = str(path)
    row = 0
    with faults_of_reading(source, lambda: row + 1), open_stored(path) as (stream, stored, size):
        while line := stream.readline(LONGEST_ROW + 1):
            row += 1
            if row == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            yield row, _text(line, row, source, comment)
            if progress is not None and row % ROWS_PER_REPORT == 0:
                progress(stored.tell(), size)
        if progress is not None:
            progress(size, size)


@contextmanager
def open_stored(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO, int]]:
    """Open a file, gzipped or plain by its first bytes.

    Yields the content, the file as stored (its position tells the progress), and its bytes.
    """
    with path.open("rb") as stored:
        size = path.stat().st_size
        zipped = stored.read(2) == GZIP_MAGIC
        stored.seek(0)
        if zipped:
            with gzip.open(stored) as stream:
                yield cast(BinaryIO, stream), stored, size
        else:
            yield stored, stored, size


@contextmanager
def faults_of_reading(source: str, row: Callable[[], int]) -> Iterator[None]:
    """Turn what an unreadable or damaged file raises into an InputError with file and row."""
    try:
        yield
    except EOFError:
        fault = "the gzip file ends before its data does (truncated?)"
        raise InputError(fault, f"row {row()}", source) from None
    except (zlib.error, gzip.BadGzipFile) as error:
        fault = f"the gzip file is damaged: {error}"
        raise InputError(fault, f"row {row()}", source) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", "", source) from None


def show(field: object) -> str:
    """Return a field as a message shows it, cut where it is long."""
    text = str(field)
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _text(line: bytes, row: int, source: str, comment: str | None) -> str:
    if len(line) > LONGEST_ROW:
        raise InputError(f"longer than {LONGEST_ROW} bytes", f"row {row}", source)
    if b"\0" in line:
        raise InputError("not text: it holds a zero byte", f"row {row}", source)
    try:
        return line.decode("utf-8").strip()
    except UnicodeDecodeError:
        text = line.decode("latin-1").strip()
        if comment is not None and text.startswith(comment):
            return text
        raise InputError("not text in UTF-8", f"row {row}", source) from None

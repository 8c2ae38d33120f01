"""Text files read row by row, compressed or plain, with faults that name the row."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Generator
from pathlib import Path

from fairlead.errors import InputError
from fairlead.traces.stored import faults_of_reading, open_stored

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

    The first bytes decide whether the file is compressed, not its name. A byte order mark goes.

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
        When the file cannot be opened, is a damaged, truncated or unknown compressed file, or is
        not text. It names the file and the row.

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


def show(field: object) -> str:
    """Return a field as a message shows it, cut where it is long."""
    text = str(field)
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _text(line: bytes, row: int, source: str, comment: str | None) -> str:
    if len(line) > LONGEST_ROW:
        raise InputError(f"longer than {LONGEST_ROW} bytes", f"row {row}", source)
    if b"\0" in line:
        raise InputError("not text: it holds a zero byte", f"row {row}", source)
    line = line.strip()
    if b"\r" in line:
        raise InputError("holds a carriage return; rows end with a line feed", f"row {row}", source)
    try:
        return line.decode("utf-8").strip()
    except UnicodeDecodeError:
        text = line.decode("latin-1").strip()
        if comment is not None and text.startswith(comment):
            return text
        raise InputError("not text in UTF-8", f"row {row}", source) from None

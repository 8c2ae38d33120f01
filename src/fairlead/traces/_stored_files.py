"""Read files that are stored plain or compressed: their rows as text, or JSON.

A compressed file is recognised by its first bytes, whatever its name.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from fairlead.errors import InputError
from fairlead.formats.documents import parse_json
from fairlead.garbage_collection import garbage_collection_paused

SUFFIXES = (".gz", ".bz2", ".xz")
# The longest rows list a host for each core of the largest machines, and are far shorter. With this
# limit, a file without line ends is not read into memory completely.
LONGEST_ROW = 16 * 2**20
BYTES_PER_BLOCK = 2**20
NEWLINE = b"\n"
# A parsed text takes some ten times its length in memory: 10 GB at this limit.
LARGEST_JSON = 2**30

ProgressReport = Callable[[int, int], None]
"""Called from time to time with the bytes read so far and the size of the file."""

# The name and the opener of each compression, by the first bytes of files.
_COMPRESSIONS: dict[bytes, tuple[str, Callable[[BinaryIO], object]]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ\0": ("xz", lzma.open),
}
_REFUSED = {
    b"PK\x03\x04": "is a zip archive; unpack it and name the file",
    b"\x28\xb5\x2f\xfd": "is compressed by zstd; decompress it first: zstd -d",
    b"\xff\xfe": "is text in UTF-16; convert it to UTF-8 first",
    b"\xfe\xff": "is text in UTF-16; convert it to UTF-8 first",
}
_LONGEST_MAGIC = max(map(len, (*_COMPRESSIONS, *_REFUSED)))
_TAR_MARK = slice(257, 262)  # where a tar archive has the bytes ustar
# At the end of a row. A file converted twice has several.
_CARRIAGE_RETURNS = re.compile(rb"(?<!\r)\r++(?=\n|\Z)")
_NOT_IN_TEXT = {
    b"\0": "not text: it holds a zero byte",
    b"\r": "holds a carriage return; rows end with a line feed",
}
_MOST_NAMED = 5  # files listed in an error


def read_texts(
    path: Path,
    progress: ProgressReport | None = None,
    *,
    comment: str = "",
    on_cut: Callable[[], None] | None = None,
) -> Iterator[tuple[int, str]]:
    """Yield the text of a file in blocks of whole rows, each with the number of its first row.

    `progress` is called after each block and at the end. `on_cut` is called if the last row has no
    line end, as the file may be truncated there. Rows that begin with `comment` may be in
    any encoding, such as Latin-1; all others must be UTF-8. Raises InputError with file and row for
    a file that cannot be opened, is damaged or not text, or is compressed in an unknown way or
    incompletely.
    """
    source, row, content = str(path), 1, b"\n"
    with open_stored(path, lambda: row) as (stream, stored, size):
        while content_read := stream.read(BYTES_PER_BLOCK):
            rest = stream.readline(LONGEST_ROW)
            content = content_read + rest
            if len(rest) == LONGEST_ROW:
                here = f"row {row + content_read.count(NEWLINE)}"
                raise InputError(f"longer than {LONGEST_ROW} bytes", here, source)
            text = content.removeprefix(codecs.BOM_UTF8) if row == 1 else content
            yield row, _decode(text, row, source, comment)
            row += content.count(NEWLINE)
            if progress is not None:  # the whole size is reported only once, at the end
                progress(min(stored.tell(), size - 1), size)
        if on_cut is not None and not content.endswith(NEWLINE):
            on_cut()
        if progress is not None:
            progress(size, size)


def _decode(content: bytes, row: int, source: str, comment: str) -> str:
    """Return some rows as text; `row` is the number of the first."""
    content = _CARRIAGE_RETURNS.sub(b"", content)
    for byte, fault in _NOT_IN_TEXT.items():
        found = content.find(byte)
        if found >= 0:
            raise InputError(fault, f"row {row + content.count(NEWLINE, 0, found)}", source)
    if comment and not content.isascii():
        comments = re.compile(rb"(?m)^[ \t]*" + re.escape(comment.encode()) + rb".*")
        content = comments.sub(lambda line: line[0].decode("utf-8", "replace").encode(), content)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        here = f"row {row + content.count(NEWLINE, 0, error.start)}"
        raise InputError("not text in UTF-8", here, source) from None


def read_lines(
    path: Path,
    progress: ProgressReport | None = None,
    *,
    comment: str = "",
    on_cut: Callable[[], None] | None = None,
) -> Generator[tuple[int, str], None, None]:
    """Yield the rows of a text file one by one: the number, from 1, and the stripped text.

    See `read_texts` for the arguments and errors.
    """
    for first, text in read_texts(path, progress, comment=comment, on_cut=on_cut):
        yield from enumerate(map(str.strip, text.removesuffix("\n").split("\n")), first)


def quoted(field: object) -> str:
    """Return a field in quotes for a message, shortened to 40 characters."""
    text = str(field)
    return repr(text if len(text) <= 40 else text[:37] + "...")


def listed(names: Sequence[str], n_first: int, noun: str = "") -> str:
    """Join the first names by commas; then give the number of the others, and a noun."""
    left = len(names) - n_first
    rest = f" and {left:,} more{noun and f' {noun}'}" if left > 0 else ""
    return ", ".join(names[:n_first]) + rest


@contextmanager
def open_stored(
    path: Path, row: Callable[[], int] = lambda: 1
) -> Iterator[tuple[BinaryIO, BinaryIO, int]]:
    """Open a file, plain or compressed by gzip, bzip2 or xz.

    Yields the decompressed stream, the stored file (its position shows the progress), and the size
    of the stored file. Raises InputError for a file that cannot be read, other compressed files,
    archives, and damaged data, which is in `row` or later.
    """
    source, compression = str(path), "plain"
    try:
        with ExitStack() as opened:
            stored: BinaryIO = opened.enter_context(path.open("rb"))
            start = stored.read(_LONGEST_MAGIC)
            stored.seek(0)
            for magic, fault in _REFUSED.items():
                if start.startswith(magic):
                    raise InputError(fault, "", source)
            stream = stored
            for magic, (name, decompress) in _COMPRESSIONS.items():
                if start.startswith(magic):
                    compression = name
                    stream = opened.enter_context(cast(BinaryIO, decompress(stored)))
            if stream.read(_TAR_MARK.stop)[_TAR_MARK] == b"ustar":
                raise InputError("is a tar archive; unpack it and name the file", "", source)
            stream.seek(0)
            yield stream, stored, path.stat().st_size
    except EOFError:
        fault = f"the {compression} file ends before its data does (truncated?)"
        raise InputError(fault, f"row {row()} or later", source) from None
    except (OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise InputError(f"cannot be read: {error.strerror}", "", source) from None
        # gzip and bz2 raise an OSError without a number for damaged data.
        fault = f"the {compression} file is damaged: {error}"
        raise InputError(fault, f"row {row()} or later", source) from None


def uncompressed_name(path: Path) -> Path:
    """Return a path without the suffix of a compressed file."""
    return path.with_suffix("") if path.suffix in SUFFIXES else path


def only_file(folder: Path, pattern: str, remedy: str) -> Path:
    """Return the only file in a folder that matches a pattern; raise InputError otherwise."""
    found = sorted(folder.glob(pattern))
    if len(found) == 1:
        return found[0]
    names = listed([path.name for path in found], _MOST_NAMED)
    fault = f"has {len(found)} files {pattern}{': ' if found else ''}{names}; {remedy}"
    raise InputError(fault, "", str(folder))


@contextmanager
def error_source(source: str, place: str | Callable[[], str] = "") -> Iterator[None]:
    """Add a file, and a place if given, to InputErrors of a ``with`` block that name no file."""
    try:
        yield
    except InputError as error:
        if error.source:
            raise
        here = place if isinstance(place, str) else place()
        raise InputError(error.fault, here or error.place, source) from None


def read_json(path: Path, on_progress: ProgressReport | None = None) -> object:
    """Return the values of a JSON file of at most `LARGEST_JSON` bytes.

    Raises InputError with the file if it is larger, or is not JSON.
    """
    source = str(path)
    with open_stored(path) as (stream, _, size):
        content = stream.read(LARGEST_JSON + 1)
    if len(content) > LARGEST_JSON:
        raise InputError(f"is larger than {LARGEST_JSON // 2**20} MiB", "", source)
    if on_progress is not None:
        on_progress(size, size)
    try:
        with garbage_collection_paused():
            return parse_json(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InputError("is not JSON in UTF-8", "", source) from None
    except InputError as error:
        raise error.within(source) from None


def start_of_text(path: Path, length: int) -> str:
    """Return at most the first `length` bytes of a file as text, without its byte order mark."""
    with open_stored(path) as (stream, _, _):
        return stream.read(length).decode("utf-8-sig", errors="replace")

"""Read JSON files, plain or compressed, and check their values.

A JSON text is parsed at once, so memory grows with its length. The checks raise InputError with
`place`, the path of keys to the value, such as ``jobs[3].res``.
"""

from __future__ import annotations

from math import isfinite
from pathlib import Path

from fairlead.errors import InputError
from fairlead.formats.documents import parse_json
from fairlead.garbage_collection import garbage_collection_paused
from fairlead.model.names import check_name
from fairlead.traces._stored_files import ProgressReport, open_stored, quoted, read_errors

# A parsed text takes some ten times its length in memory: 10 GB at this limit.
LARGEST_JSON = 2**30
BYTES_PER_READ = 2**20


def read_json(path: Path, on_progress: ProgressReport | None = None) -> object:
    """Return the values of a JSON file of at most `LARGEST_JSON` bytes.

    Raises InputError with the file if it is larger, or is not JSON.
    """
    source = str(path)
    pieces, length = list[bytes](), 0
    with read_errors(source, lambda: 1), open_stored(path) as (stream, stored, size):
        while piece := stream.read(BYTES_PER_READ):
            pieces.append(piece)
            length += len(piece)
            if length > LARGEST_JSON:
                raise InputError(f"is larger than {LARGEST_JSON // 2**20} MiB", "", source)
            if on_progress is not None:
                on_progress(stored.tell(), size)
        if on_progress is not None:
            on_progress(size, size)
    try:
        with garbage_collection_paused():
            return parse_json(b"".join(pieces).decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InputError("is not JSON in UTF-8", "", source) from None
    except InputError as error:
        raise error.within(source) from None


def start_of_text(path: Path, length: int) -> str:
    """Return at most the first `length` bytes of a file as text, without its byte order mark."""
    with read_errors(str(path), lambda: 1), open_stored(path) as (stream, _, _):
        return stream.read(length).decode("utf-8-sig", errors="replace")


def mapping(value: object, place: str) -> dict[str, object]:
    """Return a JSON object as a mapping."""
    if not isinstance(value, dict):
        raise InputError(f"must be an object, not {quoted(value)}", place)
    return value


def sequence(value: object, place: str) -> list[object]:
    """Return a JSON array as a list."""
    if not isinstance(value, list):
        raise InputError(f"must be an array, not {quoted(value)}", place)
    return value


def field(values: dict[str, object], name: str, place: str) -> object:
    """Return the value of a field; raise InputError if it is absent."""
    if name not in values:
        raise InputError(f"has no {name!r}", place)
    return values[name]


def text(value: object, place: str) -> str:
    """Return a non-empty text without control characters; a whole number becomes its digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        raise InputError(f"must be a text that is not empty, not {quoted(value)}", place)
    return check_name(value, place)


def real(value: object, place: str) -> float:
    """Return a finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # a whole number of hundreds of digits
            number = float("inf")
        if isfinite(number):
            return number
    raise InputError(f"must be a number, not {quoted(value)}", place)


def positive(value: object, place: str) -> float:
    """Return a finite number above 0."""
    number = real(value, place)
    if number <= 0:
        raise InputError(f"must be a positive number, not {quoted(value)}", place)
    return number


def whole(value: object, place: str, *, least: int = 0) -> int:
    """Return a whole number of at least `least`; 3.0 counts as a whole number."""
    number = real(value, place)
    if not number.is_integer() or number < least:
        raise InputError(f"must be a whole number from {least}, not {quoted(value)}", place)
    return int(number)

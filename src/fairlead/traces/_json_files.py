"""Read JSON files, plain or compressed.

A JSON text is parsed at once, so memory grows with its length.
"""

from __future__ import annotations

from pathlib import Path

from fairlead.errors import InputError
from fairlead.formats.documents import parse_json
from fairlead.garbage_collection import garbage_collection_paused
from fairlead.traces._stored_files import ProgressReport, open_stored

# A parsed text takes some ten times its length in memory: 10 GB at this limit.
LARGEST_JSON = 2**30


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

"""The number of the last acknowledged event, in a small file beside the journal.

SQLite ends its write-ahead log at the first frame that is damaged, without an error: the journal
would be shorter, and still be sound. This file tells how long it was. It is written after each
commit and not synced, so after a power failure it may lag behind, and never runs ahead.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

WIDTH = 20  # digits, so that each write replaces the one before


class Acknowledged:
    """The open file; see the module.

    Parameters
    ----------
    journal : Path
        The file is its neighbour, ``JOURNAL-acknowledged``.
    """

    def __init__(self, journal: Path) -> None:
        self._file = os.open(name_of(journal), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def write(self, seq: int) -> None:
        """Note that all events up to a number are acknowledged; a full disk is no fault."""
        with suppress(OSError):
            os.pwrite(self._file, f"{seq:0{WIDTH}d}\n".encode(), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def name_of(journal: Path) -> Path:
    """Return the path of the file that belongs to a journal."""
    real = journal.resolve()  # as SQLite names its write-ahead log
    return real.with_name(f"{real.name}-acknowledged")


def read(journal: Path) -> int:
    """Return the number of the last acknowledged event; 0 where it is not known."""
    try:
        return int(name_of(journal).read_bytes()[:WIDTH])
    except (OSError, ValueError):
        return 0


def remove(journal: Path) -> None:
    """Remove the file, as a new journal begins."""
    name_of(journal).unlink(missing_ok=True)

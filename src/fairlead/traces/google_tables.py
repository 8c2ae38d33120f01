"""The parts of one table of Google's trace, read in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fairlead.errors import InputError
from fairlead.traces.lines import ProgressReport
from fairlead.traces.tables import Block, Column, read_blocks

PART = "part-*-of-*.csv*"


def parts_of(folder: Path, table: str) -> list[Path]:
    """Return a table's parts in order, none without its folder; InputError for a part twice."""
    parts = sorted((folder / table).glob(PART))
    numbers = [part.name.partition(".")[0] for part in parts]
    for one, other, part in zip(numbers, numbers[1:], parts, strict=False):
        if one == other:
            raise InputError("is there twice, plain and gzipped", "", str(part))
    return parts


class Progress:
    """Sums up the bytes of all `files`, and calls `report` with (bytes read, bytes in all)."""

    def __init__(self, report: ProgressReport | None, files: Sequence[Path]) -> None:
        self._report = report
        self._before = 0
        self._total = sum(file.stat().st_size for file in files)

    def within(self, done: int, size: int) -> None:
        """Report how much of the present file was read; a file ends when all of it was."""
        if self._report is not None:
            self._report(self._before + done, self._total)
        if done == size:
            self._before += size


def read_parts(
    parts: Sequence[Path], columns: Sequence[Column], progress: Progress
) -> Iterator[Block]:
    """Yield the blocks of a table; times may not run backwards, within parts or between them.

    Raises
    ------
    InputError
        For whatever `read_blocks` refuses, and times that run backwards. It names file and row.

    Notes
    -----
    Memory O(block).
    """
    latest = 0
    for part in parts:
        for block in read_blocks(part, columns, on_progress=progress.within):
            time = block.frame["time"]
            earlier = time.shift(1, fill_value=latest)
            block.refuse(time < earlier, "is before the row above", "time")
            latest = int(time[-1])
            yield block

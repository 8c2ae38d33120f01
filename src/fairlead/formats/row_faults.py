"""What becomes of a fault of one row: it ends the reading, or the row is passed over and noted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.errors import InputError

# A file may hold a hundred thousand faults; to look for a similar name takes milliseconds.
_MOST_SUGGESTIONS = 10


class RowFaults:
    """The faults of single rows: raised, or if `lenient` noted in `skipped`, one line each."""

    def __init__(self, lenient: bool) -> None:
        self.lenient = lenient
        self.skipped: list[str] = []

    @contextmanager
    def passed_over(self, source: str = "") -> Iterator[None]:
        """Pass over a row at fault that the block reads, or raise InputError if not lenient.

        `source` names the file of the row, where rows come from several files.
        """
        try:
            yield
        except InputError as error:
            fault = error.within(source) if source else error
            if not self.lenient:
                raise fault from None
            self.skipped.append(str(fault))

    @property
    def worth_a_suggestion(self) -> bool:
        """Whether to look for what a wrong name may have meant."""
        return len(self.skipped) < _MOST_SUGGESTIONS

    def check_left(self, left: int) -> None:
        """Raise InputError when all rows of a source were passed over, so that none are left."""
        if not left and self.skipped:
            rest = len(self.skipped) - 1
            more = f" (and {rest:,} more)" if rest else ""
            raise InputError(f"nothing of it can be used: {self.skipped[0]}{more}")

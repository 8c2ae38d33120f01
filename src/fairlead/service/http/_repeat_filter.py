"""A log filter that shows a repeated fault once a minute."""

from __future__ import annotations

import logging
from time import monotonic

SECONDS = 60.0
MOST = 1000  # kinds of messages that are remembered


class RepeatFilter(logging.Filter):
    """Shows each kind of warning once a minute, with how many were left out since."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[tuple[str, str], float] = {}
        self._left_out: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to show a record."""
        if record.levelno < logging.WARNING:
            return True
        # Two errors with other names are two faults; such warnings are one.
        is_error = record.levelno >= logging.ERROR
        kind = record.name, record.getMessage() if is_error else str(record.msg)
        now = monotonic()
        if now - self._shown.get(kind, -SECONDS) < SECONDS:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        if len(self._shown) >= MOST:
            self._shown.clear()
            self._left_out.clear()
        self._shown[kind] = now
        if left_out := self._left_out.pop(kind, 0):
            record.msg = f"{record.getMessage()} ({left_out:,} more like it in the last minute)"
            record.args = ()
        return True

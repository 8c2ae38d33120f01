"""Say when kernels are compiled: once per installation, and again when their source changes.

Loading a compiled kernel from its cache on disk says nothing. The message goes to the logger
``fairlead``; the command line shows it on standard error.
"""

from __future__ import annotations

import inspect
import logging
from types import ModuleType
from zlib import crc32

from numba.core import event

_LOGGER = logging.getLogger("fairlead")


class _Announcement(event.Listener):
    """Logs the first compilation of a process."""

    def __init__(self) -> None:
        self.announced = False

    def on_start(self, _event: event.Event) -> None:
        """Log, unless that was done."""
        if not self.announced:
            self.announced = True
            _LOGGER.info("compiling for the first use on this installation; a few seconds ...")

    def on_end(self, _event: event.Event) -> None:
        """Say nothing: the answer that follows tells."""


def announce_compilation() -> None:
    """Log a line to ``fairlead`` when this process first compiles a kernel."""
    event.register("numba:compile", _ANNOUNCEMENT)  # type: ignore[no-untyped-call]


def stamp_sources(*modules: ModuleType) -> int:
    """Return a number >= 0 that changes when the source of these modules does.

    The cache on disk notices when the file of a kernel changes, not when that of a function which
    the kernel calls does; but it does notice when a variable changes that the kernel encloses.
    """
    return crc32("".join(inspect.getsource(module) for module in modules).encode())


_ANNOUNCEMENT = _Announcement()

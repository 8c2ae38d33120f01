"""Say when kernels are compiled: once per installation, and again when their source changes.

Loading a compiled kernel from its cache on disk says nothing. The message goes to the logger
``fairlead``; the command line shows it on standard error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
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


_ANNOUNCEMENT = _Announcement()

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compile a function that allocates nothing, on its first use, and keep it on disk.

    Without allocation there is nothing to count references to. Counting costs more than the work
    where many arrays are passed around: kernels that pass a tuple of twenty run up to twenty times
    faster for it. Dividing by zero gives infinity.
    """
    announce_compilation()
    options: Any = {"cache": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
    return cast("_Function", njit(**options)(function))

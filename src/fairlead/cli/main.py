"""The console script ``fairlead``: handle interruptions, then import and run the command.

This module imports almost nothing, so that Ctrl-C at the start rarely prints a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from _thread import get_ident, start_new_thread
from time import monotonic, sleep

TYPE_CHECKING = False  # as in `typing`, which is slow to import
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

INTERRUPTED = 130
# A second interruption within these seconds is a copy of the first: `timeout`, for example, sends
# its signal to the process and to its group.
REPEAT_SECONDS = 0.5
RETRY_SECONDS = 0.01


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status; the console script's entry point.

    Parameters
    ----------
    arguments : list of str, optional
        The command line after the program's name. When absent, that of the process; then
        interruptions are handled, and ignored once the command has ended.

    Returns
    -------
    int
        The exit status.
    """
    if arguments is not None:
        return _run(arguments)
    _replace_closed_streams()
    handles_interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if handles_interrupts:
            signal.signal(signal.SIGINT, _Interruptions())
            sys.unraisablehook = _raise_again
        return _run(sys.argv[1:])
    finally:
        if handles_interrupts:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(arguments: list[str]) -> int:
    try:
        if "worker" in arguments:  # before slow imports: a worker may hold a token in its memory
            from fairlead.service.worker.worker_token import hide_memory

            hide_memory()
        from fairlead.cli import _application

        return _application.run_command(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("fairlead: interrupted\n")
        return INTERRUPTED


def _replace_closed_streams() -> None:
    """Replace closed standard streams by the null device, opened in the wrong direction.

    Reading or writing such a stream fails, and no other file gets its descriptor.
    """
    for name, flags, mode in (
        ("stdin", os.O_WRONLY, "r"),
        ("stdout", os.O_RDONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),  # errors are reported by exit status only
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, closefd=False))


class _Interruptions:
    """Signal handler that raises `KeyboardInterrupt` once for signals in quick succession."""

    def __init__(self) -> None:
        self.last = float("-inf")

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        previous, self.last = self.last, monotonic()
        if self.last - previous > REPEAT_SECONDS:
            raise KeyboardInterrupt


def _raise_again(unraisable: Any) -> None:
    """Repeat an interruption soon if it was raised where Python ignores exceptions."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    signal.signal(signal.SIGINT, _Interruptions())
    # An exception raised here would be ignored again.
    start_new_thread(_interrupt_soon, (get_ident(),))


def _interrupt_soon(thread: int) -> None:
    sleep(RETRY_SECONDS)
    signal.pthread_kill(thread, signal.SIGINT)


if __name__ == "__main__":
    sys.exit(run())

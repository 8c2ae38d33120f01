"""The console script ``fairlead``: it hears interruptions before it imports the command.

Importing this module imports next to nothing, so that there is hardly a moment in which Ctrl-C is
a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from _thread import get_ident, start_new_thread
from time import monotonic, sleep

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all that is here
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

INTERRUPTED = 130
# Within these seconds a second interruption is the first one again: what starts a command, such
# as `timeout`, may send it to the process and to its group.
ONE_INTERRUPTION = 0.5
A_LITTLE_LATER = 0.01


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status; the console script's entry point.

    Parameters
    ----------
    arguments : list of str, optional
        The command line after the program's name; the process's own when absent, and then the
        process is taken to do nothing else: interruptions are handled, and ignored in the end.

    Returns
    -------
    int
        The exit status.
    """
    if arguments is not None:
        return _run(arguments)
    _replace_closed_streams()
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if is_heard:
            signal.signal(signal.SIGINT, _Interruptions())
            sys.unraisablehook = _raise_again
        return _run(sys.argv[1:])
    finally:
        if is_heard:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(arguments: list[str]) -> int:
    try:
        if "worker" in arguments:  # before imports that take long: it may have a token
            from fairlead.service.worker.worker_token import hide_memory

            hide_memory()
        from fairlead.cli import _application

        return _application.run_command(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("fairlead: interrupted\n")
        return INTERRUPTED


def _replace_closed_streams() -> None:
    """Open the null device for standard streams that were closed, in the wrong direction.

    Reading or writing one is an error of the system then, and no other file gets its number.
    """
    for name, flags, mode in (
        ("stdin", os.O_WRONLY, "r"),
        ("stdout", os.O_RDONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),  # nothing can be said: the exit status alone tells
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, closefd=False))


class _Interruptions:
    """Raises `KeyboardInterrupt`, once for several interruptions that come together."""

    def __init__(self) -> None:
        self.last = float("-inf")

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        before, self.last = self.last, monotonic()
        if self.last - before > ONE_INTERRUPTION:
            raise KeyboardInterrupt


def _raise_again(unraisable: Any) -> None:
    """Repeat an interruption, a little later, that came where nothing can be raised."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    signal.signal(signal.SIGINT, _Interruptions())
    # Here it would be passed over again.
    start_new_thread(_interrupt_soon, (get_ident(),))


def _interrupt_soon(thread: int) -> None:
    sleep(A_LITTLE_LATER)
    signal.pthread_kill(thread, signal.SIGINT)


if __name__ == "__main__":
    sys.exit(run())

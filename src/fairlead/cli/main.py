"""The console script ``fairlead``: handle interruptions, then import and run the command.

This module imports almost nothing, so that Ctrl-C at the start rarely prints a traceback.
"""

from __future__ import annotations

import io
import os
import signal
import sys

TYPE_CHECKING = False  # as in `typing`, which is slow to import
if TYPE_CHECKING:
    from typing import Any

INTERRUPTED = 130
RETRY_SECONDS = 0.01


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status; the console script's entry point.

    Parameters
    ----------
    arguments : list of str, optional
        The command line after the program's name. When absent, that of the process; interruptions
        are then ignored once the command has ended.

    Returns
    -------
    int
        The exit status.
    """
    if arguments is not None:
        return _run(arguments)
    # Of streams that the caller closed; a command whose answer cannot be written fails.
    for name, mode in (("stdin", "r"), ("stdout", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for characters that the encoding lacks
    sys.unraisablehook = _raise_again
    try:
        return _run(sys.argv[1:])
    finally:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
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


def _raise_again(unraisable: Any) -> None:
    """Repeat an interruption that came in a callback, where Python drops exceptions."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    # An exception raised here would be dropped, too.
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)


if __name__ == "__main__":
    sys.exit(run())

"""The console script ``fairlead``: handle interruptions, then import and run the command.

This module imports almost nothing, so that Ctrl-C at the start rarely prints a traceback.
"""

from __future__ import annotations

import io
import os
import signal
import sys

INTERRUPTED = 130


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status; without `arguments`, the process's command.

    Interruptions are ignored once the process's command has ended.
    """
    if arguments is not None:
        return _run(arguments)
    # Open the streams that the caller closed. A closed standard output becomes unwritable, so that
    # a command fails if its answer cannot be written.
    for name, mode in (("stdin", "r"), ("stdout", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for characters that the encoding lacks
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


if __name__ == "__main__":
    sys.exit(run())

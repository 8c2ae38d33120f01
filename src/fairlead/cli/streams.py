"""What the command writes to standard output and standard error."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from fairlead.model.quantity import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairlead.report.document import Document
    from fairlead.report.live import LiveTable

LONGEST_LINE = 2000
WIDTH_OF_PIPE = 100  # of prose in a pipe or a file
IN_ASCII = str.maketrans(
    {
        "─": "-",
        "✓": "+",
        "✗": "x",
        "–": "-",
        "−": "-",
        "±": "+-",
        "×": "x",
        "…": "...",
        "\u00a0": " ",
    }
)
WRITE_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def log_on_standard_error() -> None:
    """Write warnings of all packages, and what this one logs, to standard error."""
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("fairlead").setLevel(logging.INFO)


class ReaderGoneError(Exception):
    """Whoever read standard output has gone, as ``head`` does when it has seen enough."""


class StoppedError(Exception):
    """Somebody interrupted the command, and there is more to say than that."""


def emit(text: str) -> None:
    """Write a finished text to standard output, at once.

    Raises ReaderGoneError when nobody reads it any more.
    """
    try:
        sys.stdout.write(_written_in(sys.stdout.encoding, text))
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except OSError as error:
        from fairlead.errors import InputError

        silence_standard_output()  # nor is it tried again at the end
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be written: {reason}", source="standard output") from error


def _written_in(encoding: str | None, text: str) -> str:
    """Return a text in an encoding: rules and marks in ASCII, and all else escaped, if need be."""
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(IN_ASCII)
    return text.encode(encoding, "backslashreplace").decode(encoding)


def emit_lines(lines: Iterable[str], width: int | None = None) -> None:
    """Write lines to standard output, each wrapped to a width if given.

    Names and reasons in them may come from other users, so control characters are escaped.

    Raises ReaderGoneError when standard output is closed.
    """
    safe: Iterable[str] = map(printable, lines)
    if width is not None:
        from textwrap import fill

        safe = (fill(line, width, subsequent_indent="  ") for line in safe)
    emit("".join(f"{line}\n" for line in safe))


def emit_and_write(text: str, *files: tuple[Path | None, str | None]) -> None:
    """Write a finished text to standard output, and others to their files, those that have any.

    What took hours is not lost where one of them cannot be written: the others are.

    Raises ReaderGoneError when nobody reads standard output any more. Raises InputError when a file
    cannot be written.
    """
    from fairlead.formats.atomic_files import write_text

    with ExitStack() as afterwards:
        for path, content in reversed(files):
            if path is not None and content is not None:
                afterwards.callback(write_text, path, content)
        emit(text)


def show(
    document: Document,
    as_json: bool,
    report: Path | None = None,
    *files: tuple[Path | None, str | None],
) -> None:
    """Write an answer to standard output, as JSON or as text, and as a page where one is asked for.

    `files` are as in `emit_and_write`, and so is what may be raised.
    """
    page = None
    if report is not None:
        from fairlead.report.page import to_page

        page = to_page(document)
    if as_json:
        text = document.to_json()
    else:
        from fairlead.report.terminal import to_terminal

        text = to_terminal(document, width=terminal_width(), plain=wants_plain_text())
    emit_and_write(text, (report, page), *files)


def show_table(table: LiveTable, as_json: bool) -> None:
    """Write what a service answers to standard output, as JSON or as text."""
    emit(table.to_json() if as_json else table.to_text(terminal_width(), wants_plain_text()))


def check_report(report: Path | None, source: str = "-", what: str = "problem file") -> None:
    """Refuse a page that cannot be written, or would replace `source`, which is read.

    Raises InputError when that is so.
    """
    if report is not None:
        from fairlead.formats.atomic_files import check_writable

        check_writable(report, source=source, what=what)


def complain(message: str) -> None:
    """Write one line to standard error, whatever the message holds."""
    line = printable(" ".join(message.split()))
    if len(line) > LONGEST_LINE:
        line = f"{line[:LONGEST_LINE]} ..."
    try:
        sys.stderr.write(_written_in(sys.stderr.encoding, f"fairlead: {line}\n"))
        sys.stderr.flush()
    except OSError:  # it is full or closed: the exit status alone tells
        _point_at_nothing(sys.stderr)


def fault_of(error: OSError | MemoryError | OverflowError) -> str:
    """Return the place and the reason of a failure of the system, in one line."""
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    if isinstance(error, OverflowError):
        return f"a number is too large: {error}"
    reason = (error.strerror or str(error)).lower()
    if error.filename:
        return f"{os.fsdecode(error.filename)}: {reason}"
    if error.errno in WRITE_FAULTS:  # files are written where their names are known
        silence_standard_output()
        return f"standard output: cannot be written: {reason}"
    try:
        Path.cwd()
    except OSError:
        return f"the working directory: {reason}"
    return reason


def silence_standard_output() -> None:
    """Point standard output at nothing, so that flushing it at exit cannot fail."""
    _point_at_nothing(sys.stdout)


def _point_at_nothing(stream: TextIO) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())


def wants_plain_text() -> bool:
    """Return whether tables go without colour: into a pipe or file, or with NO_COLOR set."""
    return not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR"))


def terminal_width() -> int | None:
    """Return the columns of the terminal, or None when output goes into a pipe or file."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns

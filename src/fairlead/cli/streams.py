"""What the command writes to standard output and standard error."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from fairlead.model.quantity import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairlead.report.document import Document

LONGEST_LINE = 2000


class ReaderGoneError(Exception):
    """Whoever read standard output has gone, as ``head`` does when it has seen enough."""


class StoppedError(Exception):
    """Somebody interrupted the command, and there is more to say than that."""


def emit(text: str) -> None:
    """Write a finished text to standard output, at once.

    Raises ReaderGoneError when nobody reads it any more.
    """
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except OSError as error:
        from fairlead.errors import InputError

        silence_standard_output()  # nor is it tried again at the end
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be written: {reason}", source="standard output") from error


def emit_lines(lines: Iterable[str], width: int | None = None) -> None:
    """Write lines to standard output, each wrapped to a width if given.

    Names and reasons in them may come from other users, so control characters are escaped.

    Raises ReaderGoneError when standard output is closed.
    """
    safe: Iterable[str] = map(printable, lines)
    if width is not None:
        safe = (fill(line, width, subsequent_indent="  ") for line in safe)
    emit("".join(f"{line}\n" for line in safe))


def emit_and_write(text: str, *files: tuple[Path | None, str | None]) -> None:
    """Write a finished text to standard output, and others to their files, those that have any.

    What took hours is not lost where one of them cannot be written: the others are.

    Raises ReaderGoneError when nobody reads standard output any more. Raises InputError when a file
    cannot be written.
    """
    from fairlead.formats.replacing import write_text

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


def check_report(report: Path | None, source: str = "-", what: str = "problem file") -> None:
    """Refuse a page that cannot be written, or would replace `source`, which is read.

    Raises InputError when that is so.
    """
    if report is not None:
        from fairlead.formats.replacing import check_writable

        check_writable(report, source=source, what=what)


def complain(message: str) -> None:
    """Write one line to standard error, whatever the message holds."""
    line = printable(" ".join(message.split()))
    if len(line) > LONGEST_LINE:
        line = f"{line[:LONGEST_LINE]} ..."
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(f"fairlead: {line}\n".encode(encoding, "backslashreplace").decode(encoding))
    sys.stderr.flush()


def silence_standard_output() -> None:
    """Point standard output at nothing, so that flushing it at exit cannot fail."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())


def wants_plain_text() -> bool:
    """Return whether tables go without colour: into a pipe or file, or with NO_COLOR set."""
    return not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR"))


def terminal_width() -> int | None:
    """Return the columns of the terminal, or None when output goes into a pipe or file."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns

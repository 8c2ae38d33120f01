"""Write to standard output and standard error: answers, messages and progress bars."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from fairlead.model.quantity import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fairlead.report.document import Document
    from fairlead.report.live import LiveTable

LONGEST_LINE = 2000
WIDTH_OF_PIPE = 100  # columns of prose in a pipe or a file
SECONDS_PER_HOUR = 3600.0
WRITE_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def log_on_standard_error() -> None:
    """Log to standard error: warnings of all packages, and all messages of this one."""
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("fairlead").setLevel(logging.INFO)


class Step(Protocol):
    """The function that `stages_bar` yields."""

    def __call__(self, what: str, done: int, total: int, seconds: float | None = None) -> None:
        """Report the done and total work of a stage; of a replay also the simulated seconds."""


class ReaderGoneError(Exception):
    """The reader of standard output has closed it, as ``head`` does."""


class StoppedError(Exception):
    """The command was interrupted; the message says what is kept or still runs."""


def emit(text: str) -> None:
    """Write a whole text to standard output.

    Raises ReaderGoneError when its reader has gone.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except OSError as error:
        from fairlead.errors import InputError

        silence_standard_output()  # Python would flush it again at exit
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be written: {reason}", source="standard output") from error


def emit_json(values: Mapping[str, Any]) -> None:
    """Write one JSON object to standard output."""
    import json

    emit(json.dumps(values, indent=2, allow_nan=False) + "\n")


def emit_lines(lines: Iterable[str], width: int | None = None) -> None:
    """Write lines to standard output, each wrapped to a width if given.

    Control characters are escaped, as other users choose the names and reasons in the lines.
    """
    safe: Iterable[str] = map(printable, lines)
    if width is not None:
        from textwrap import fill

        safe = (fill(line, width, subsequent_indent="  ") for line in safe)
    emit("".join(f"{line}\n" for line in safe))


def show(
    document: Document,
    as_json: bool,
    report: Path | None = None,
    *,
    table: str | None = None,
    left_out: Sequence[str] = (),
) -> None:
    """Write a document to standard output, as JSON or text, and its page to `report`.

    `table` is written instead of the text if it is given. `left_out` lists parts of the input that
    the answer lacks, and why.

    If one write fails, the other is still done, as the answer may have taken hours.
    Raises ReaderGoneError when the reader of standard output has gone, and InputError when a file
    cannot be written.
    """
    from dataclasses import replace

    from fairlead.formats.atomic_files import write_text

    document = replace(document, left_out=left_out)
    page = None
    if report is not None:
        from fairlead.report.page import to_page

        page = to_page(document)
    if table is not None:
        text = table
    elif as_json:
        text = document.to_json()
    else:
        from fairlead.report.terminal import to_terminal

        text = to_terminal(document, width=terminal_width(), plain=wants_plain_text())
    with ExitStack() as afterwards:
        if report is not None and page is not None:
            afterwards.callback(write_text, report, page)
        emit(text)


def show_table(table: LiveTable, as_json: bool) -> None:
    """Write a service's answer to standard output, as JSON or as text."""
    emit(table.to_json() if as_json else table.to_text(wants_plain_text()))


def check_report(report: Path | None, source: str = "-", what: str = "problem file") -> None:
    """Raise InputError if the page cannot be written or would replace the input `source`."""
    if report is not None:
        from fairlead.formats.atomic_files import check_writable

        check_writable(report, source=source, what=what)


def complain(message: str) -> None:
    """Write one line to standard error, with control characters escaped."""
    line = printable(" ".join(message.split()))
    if len(line) > LONGEST_LINE:
        line = f"{line[:LONGEST_LINE]} ..."
    try:
        sys.stderr.write(f"fairlead: {line}\n")
        sys.stderr.flush()
    except OSError:  # standard error is full or closed: report by exit status only
        _redirect_to_null(sys.stderr)


def describe_system_error(error: OSError | MemoryError | OverflowError) -> str:
    """Describe a system error in one line: the file or stream, and the reason."""
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    if isinstance(error, OverflowError):
        return f"a number is too large: {error}"
    reason = (error.strerror or str(error)).lower()
    if error.filename:
        return f"{os.fsdecode(error.filename)}: {reason}"
    if error.errno in WRITE_FAULTS:  # writes to files have a file name
        silence_standard_output()
        return f"standard output: cannot be written: {reason}"
    try:
        Path.cwd()
    except OSError:
        return f"the working directory: {reason}"
    return reason


def silence_standard_output() -> None:
    """Redirect standard output to the null device, so that flushing it at exit cannot fail."""
    _redirect_to_null(sys.stdout)


@contextmanager
def redirected(number: int, target: int) -> Iterator[None]:
    """Redirect a file descriptor to another one, also for C code and child processes."""
    saved = os.dup(number)
    try:
        os.dup2(target, number)
        yield
    finally:
        os.dup2(saved, number)
        os.close(saved)


def _redirect_to_null(stream: TextIO) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())


def wants_plain_text() -> bool:
    """Return whether to omit colour: output goes to a pipe or file, or NO_COLOR is set."""
    return not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR"))


def terminal_width() -> int | None:
    """Return the columns of the terminal, or None when output goes into a pipe or file."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar while standard error is a terminal.

    Yields a function of the finished and the total amount of work; None without a terminal.
    """
    with stages_bar() as report:
        yield None if report is None else partial(report, what)


@contextmanager
def stages_bar() -> Iterator[Step | None]:
    """Show a progress bar for each of several stages or replays; yield None without a terminal.

    The bar of a stage disappears when it is complete; that of a replay shows the simulated time.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bars: dict[str, TaskID] = {}

        def step(what: str, done: int, total: int, seconds: float | None = None) -> None:
            at = "" if seconds is None else f", at {seconds / SECONDS_PER_HOUR:,.1f} h"
            if what not in bars:
                bars[what] = progress.add_task(escape(what), total=total)
            shown = escape(f"{what}{at}")
            progress.update(bars[what], description=shown, completed=done, total=total)
            if seconds is None and done >= total:
                progress.remove_task(bars.pop(what))

        yield step

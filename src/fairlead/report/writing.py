"""Write a page to a file: checked early, and never left half-written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fairlead.errors import InputError


def check_writable(path: Path, source: str = "-", what: str = "problem file") -> None:
    """Refuse a path that cannot be written, before any work is done for it.

    Parameters
    ----------
    path : Path
        Where the page is to go.
    source : str
        What is read, which the page must not replace, or a folder of it; ``-`` is standard input.
    what : str
        What that is, in words.

    Raises
    ------
    InputError
        When the path is a folder, its folder is missing or read-only, or it is what is read.
    """
    folder = path.parent
    if path.is_dir():
        raise InputError("is a folder, not a file to write", source=str(path))
    if not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}", source=str(path))
    target = path if path.exists() and not path.is_file() else folder
    if not os.access(target, os.W_OK):
        raise InputError("cannot be written: permission denied", source=str(path))
    with suppress(OSError):
        if source != "-" and path.samefile(source):
            raise InputError(f"is the {what} itself", source=str(path))
        if path.exists() and Path(source).is_dir() and path.parent.samefile(source):
            raise InputError(f"is a part of the {what}", source=str(path))


def write_page(path: Path, page: str) -> None:
    """Write a page to a file, all of it or nothing.

    Raises
    ------
    InputError
        When the file cannot be written; an older file of that name is then left as it was.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(
                page, encoding="utf-8", errors="replace"
            )  # a device or a pipe: nothing to replace
        else:
            _replace(path.resolve(), page)
    except OSError as error:
        fault = f"cannot be written: {error.strerror or error}"
        raise InputError(fault, source=str(path)) from error


def _replace(path: Path, page: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("x", encoding="utf-8", errors="replace") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)

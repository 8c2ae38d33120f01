"""Write files and folders whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairlead.errors import InputError


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield a draft to write, which replaces the file and keeps its mode if all went well.

    Raises InputError when nothing can be written there; an older file then stays.
    """
    target = Path(os.path.realpath(path))  # unlike `resolve`, it takes a link to itself
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with writing_faults(path):
            yield draft
            if target.exists():
                shutil.copymode(target, draft)
            os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replaced_folder(path: Path, marker: str) -> Iterator[Path]:
    """Yield an empty folder to fill, which replaces the folder if all went well.

    Raises InputError when the path is a file, cannot be written, or is a folder that is not empty
    and lacks a file `marker`: no folder of another kind is ever replaced.
    """
    if path.exists() and not path.is_dir():
        raise InputError("is a file, not a folder", "", str(path))
    if path.is_dir() and any(path.iterdir()) and not (path / marker).exists():
        raise InputError(f"is a folder with other files (it has no {marker})", "", str(path))
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    older = path.with_name(f".{path.name}.{os.getpid()}.older")
    try:
        with writing_faults(path):
            draft.mkdir()
            yield draft
            if path.exists():
                os.replace(path, older)
            try:
                os.replace(draft, path)
            except OSError:
                with suppress(OSError):
                    os.replace(older, path)
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(older, ignore_errors=True)


@contextmanager
def writing_faults(path: Path) -> Iterator[None]:
    """Turn a system error while a file is written into an InputError of one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror.lower() if error.strerror else error
        fault = f"cannot be written: {reason}"
        raise InputError(fault, "", str(path)) from None


def check_writable(path: Path, source: str = "-", what: str = "problem file") -> None:
    """Raise InputError for a path that cannot be written, before any work is done for it.

    `source` is the file that is read (a `what`), or its folder; the output must not replace it.
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


def write_text(path: Path, text: str) -> None:
    """Write a text to a file, all of it or nothing; raise InputError when that cannot be done.

    A link is followed; a device or a pipe takes the text itself; a file that is replaced keeps its
    mode. Lone surrogates become question marks.
    """
    content = text.encode("utf-8", "replace")
    if path.exists() and not path.is_file():
        with writing_faults(path):
            path.write_bytes(content)  # to replace it would remove it
        return
    with replaced_file(path) as draft, draft.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())

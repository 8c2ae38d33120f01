"""Write files completely or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairlead.errors import InputError


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield the path of a draft, which replaces the file if the ``with`` block succeeds.

    The mode of an existing file is kept. Raises InputError when the file cannot be written; an
    existing file then stays.
    """
    target = Path(os.path.realpath(path))  # `resolve` would fail for a link to itself
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
def writing_faults(path: Path) -> Iterator[None]:
    """Turn a system error while a file is written into an InputError of one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror.lower() if error.strerror else error
        fault = f"cannot be written: {reason}"
        raise InputError(fault, "", str(path)) from None


def check_writable(path: Path, source: str = "-", what: str = "problem file") -> None:
    """Raise InputError for an output path that cannot be written, before the work starts.

    `source` is the input, a file or folder, which the output must not replace; `what` names the
    input in errors.
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
    """Write text to a file, completely or not at all; raise InputError when it cannot be written.

    Links are followed, a device or pipe is written directly, and an existing file keeps its mode.
    Surrogates, which UTF-8 cannot encode, become question marks.
    """
    content = text.encode("utf-8", "replace")
    if path.exists() and not path.is_file():
        with writing_faults(path):
            path.write_bytes(content)  # a draft would replace the device by a file
        return
    with replaced_file(path) as draft, draft.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())

"""Write a text to a file: checked early, and never left half-written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fairlead.errors import InputError
from fairlead.formats.replacing import replaced_file, writing_faults


def check_writable(path: Path, source: str = "-", what: str = "problem file") -> None:
    """Raise InputError for a path that cannot be written, before any work is done for it.

    `source` is what is read (`what`, in words), or a folder of it, which the text must not replace.
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
    mode. What is no character is written as a question mark.
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

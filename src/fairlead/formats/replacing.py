"""Write a file beside the older one of its name, then put it in its place: all or nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairlead.errors import InputError


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield a draft to write, which takes the place of the file, and its mode, if all went well.

    Raises InputError when nothing can be written there; an older file is then left as it was.
    """
    target = path.resolve()
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
    """Yield an empty folder to fill, which takes the place of the folder if all went well.

    Raises InputError when the path is a file, cannot be written, or is a folder that is not empty
    and lacks a file `marker`, so that no folder of another kind is ever replaced.
    """
    if path.exists() and not path.is_dir():
        raise InputError("is a file, not a folder", "", str(path))
    if path.is_dir() and any(path.iterdir()) and not (path / marker).exists():
        raise InputError(f"is a folder of something else (it has no {marker})", "", str(path))
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
    """Turn what the system says against writing a file into one clear line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror.lower() if error.strerror else error
        fault = f"cannot be written: {reason}"
        raise InputError(fault, "", str(path)) from None

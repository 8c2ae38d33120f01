"""Write witnesses as problem files: a problem, or a pair with and without a lie."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.errors import InputError
from fairlead.formats.problem_file import document_of, write_document
from fairlead.model.problem import Problem
from fairlead.properties.audit import Audit
from fairlead.properties.lies import Lie, declared_problem


def check_folder(folder: Path) -> None:
    """Raise InputError for a folder that is not empty or not writable, without creating it."""
    if folder.exists():
        if not folder.is_dir():
            raise InputError("is not a folder", source=str(folder))
        if any(folder.iterdir()):
            raise InputError("is not empty; name a new folder", source=str(folder))
    elif not folder.parent.is_dir():
        raise InputError(f"there is no folder {str(folder.parent)!r}", source=str(folder))
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        raise InputError("cannot be written: permission denied", source=str(folder))


def save_audit_witnesses(audit: Audit, folder: Path) -> list[Path]:
    """Write only the lie that pays, if any, as ``truth.yaml`` and ``lie.yaml``; return both."""
    if audit.lie is None:
        return []
    return save_pair(audit.subject.given, audit.lie, folder, "truth", "lie")


def save_pair(problem: Problem, lie: Lie, folder: Path, truth: str, lying: str) -> list[Path]:
    """Write a problem as `truth`, and with a lie as `lying`; return both files."""
    return [
        save_problem(problem, folder, truth),
        save_problem(declared_problem(problem, lie), folder, lying),
    ]


def save_problem(problem: Problem, folder: Path, name: str) -> Path:
    """Write a problem file into a folder, created if missing; return the file."""
    path = folder / f"{name}.yaml"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        fault = f"cannot be made: {(error.strerror or str(error)).lower()}"
        raise InputError(fault, source=str(folder)) from error
    write_document(document_of(problem), path)
    return path

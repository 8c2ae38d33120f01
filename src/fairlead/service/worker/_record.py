"""The record of an attempt: one file, from which a restarted worker resumes.

The first line is written before the attempt starts, and each later line changes fields. Appending
to one file is faster than creating several, and a short file can still grow when the disk is full.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from fairlead.service.messages import TaskKey
from fairlead.service.worker._files import append, create, read_plain

NAME = "record"


@dataclass
class AttemptEnd:
    """How an attempt ended."""

    status: int | None  # the exit status; None where it is unknown, so that the task runs again
    reason: str = ""  # why it was stopped or could not start; empty for a normal end


class Leader(NamedTuple):
    """The shell program of an attempt: its process number, and its start as in `ProcessState`."""

    number: int
    began: int


class Record(BaseModel):
    """The fields of a record."""

    key: TaskKey
    devices: list[int]  # the GPUs of this attempt alone
    time_limit: float | None  # seconds
    memory: float  # limit in bytes, 0 for none
    boot: str  # `boot_id` of the machine when it began
    submitted: float | None = None  # tells jobs of two journals with one number apart
    leader: Leader | None = None  # None until the shell program is started
    stop: str = ""  # why the worker asked the attempt to end
    # Set if the attempt could not start, or its shell program could not write its status.
    ended: AttemptEnd | None = None
    is_reported: bool = False  # whether the service acknowledged its end


def write_record(folder: Path, record: Record) -> None:
    """Create the record of an attempt."""
    create(folder / NAME, record.model_dump_json(exclude_defaults=True))


def append_field(folder: Path, record: Record, field: str) -> None:
    """Add a line with a field that changed."""
    # The line end comes first, so that a line cut off by a full disk does not damage the next one.
    append(folder / NAME, f"\n{record.model_dump_json(include={field})}")


def read_record(folder: Path) -> Record | None:
    """Return the record in an attempt's folder, or None where that is absent or damaged."""
    first, *changes = (read_plain(folder, NAME) or "").split("\n")
    try:
        record = Record.model_validate_json(first)
    except ValidationError:
        return None
    for line in changes:
        try:
            record = Record.model_validate(record.model_dump() | json.loads(line))
        except (ValidationError, ValueError, TypeError):
            continue  # cut off
    return record


def time_of_last_change(folder: Path) -> float:
    """Return when the record changed last, in seconds since the epoch."""
    return os.stat(folder / NAME).st_mtime

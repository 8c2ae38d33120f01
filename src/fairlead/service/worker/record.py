"""The record of an attempt: one file with all that the next worker must know.

The first line is there before the attempt starts, and each later line changes fields. One file
grows faster than several are created, and a short one grows within its block on a full disk.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from fairlead.service.engines.orders import TaskKey
from fairlead.service.worker.files import append, create, read_plain

NAME = "record"


@dataclass
class AttemptEnd:
    """How an attempt ended.

    Attributes
    ----------
    status : int or None
        The exit status; None where it is unknown, so that the task runs again.
    reason : str
        Why the attempt was stopped or could not start; empty for a normal end.
    """

    status: int | None
    reason: str = ""


class Leader(NamedTuple):
    """The shell program of an attempt: its process number, and when it began (`ProcessState`)."""

    number: int
    began: int


class Record(BaseModel):
    """The fields of a record.

    Attributes
    ----------
    key : (int, int, int)
        Job, index and attempt.
    devices : list of int
        The GPUs of this attempt alone.
    time_limit : float or None
        Seconds.
    memory : float
        Bytes that it may hold, 0 for any number.
    boot : str
        The run of the machine's kernel in which it began.
    submitted : float or None
        When its job was submitted: another journal may give the same number to another job.
    leader : Leader or None
        None until the shell program is started.
    stop : str
        Why the worker asked the attempt to end.
    ended : AttemptEnd or None
        Set where the attempt could not start, or its shell program could not write its status.
    is_reported : bool
        Whether the service acknowledged its end.
    """

    key: TaskKey
    devices: list[int]
    time_limit: float | None
    memory: float
    boot: str
    submitted: float | None = None
    leader: Leader | None = None
    stop: str = ""
    ended: AttemptEnd | None = None
    is_reported: bool = False


def write_record(folder: Path, record: Record) -> None:
    """Create the record of an attempt.

    Raises
    ------
    OSError
        When there is one, or the disk is full.
    """
    create(folder / NAME, record.model_dump_json(exclude_defaults=True))


def append_field(folder: Path, record: Record, field: str) -> None:
    """Add a line with a field that changed.

    Raises
    ------
    OSError
        When the file is gone, or the disk is full.
    """
    # The line end comes first: a line that a full disk cut off does not damage the next one.
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
    """Return when the record changed last, in seconds since the epoch.

    Raises
    ------
    OSError
        When there is no record.
    """
    return os.stat(folder / NAME).st_mtime

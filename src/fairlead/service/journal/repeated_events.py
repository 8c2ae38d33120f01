"""Events of a journal carried out again: each has to do what it did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from fairlead.errors import InputError
from fairlead.service.jobs import Running
from fairlead.service.service_state import ServiceState


def repeat_event(
    state: ServiceState, kind: str, body: dict[str, Any], now: float, path: Path, seq: int
) -> Any:
    """Carry out an event of a journal again; return its outcome.

    Raises
    ------
    InputError
        When it cannot be carried out, or places other tasks than it did. The error names the file
        and the event's number.
    """
    digest = body.pop("placed", None)
    try:
        outcome = state.apply(kind, body, now)
    except (InputError, AttributeError, TypeError, KeyError, ValueError) as fault:
        why = f"cannot be carried out again: {fault}"
        raise InputError(why, "", f"{path}: event {seq}") from None
    if digest is not None and digest != digest_of_placements(outcome):
        why = "places other tasks than it did; another version of fairlead may have written it"
        raise InputError(why, "", f"{path}: event {seq}")
    return outcome


def digest_of_placements(runs: Sequence[Running]) -> int:
    """Return a checksum of a list of placements."""
    return crc32(" ".join([f"{run.key} {run.server}" for run in runs]).encode())

"""Ended jobs as the journal keeps them: long fields are cut to their beginnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

ENDED_BYTES = 4096  # of a job's request, and as many of its view, once it has ended
LONG_FIELDS = ("where", "after")  # of a view
MARK = "..."  # after the beginning of a word, and after the first words of a command


def short_request(request: Mapping[str, Any]) -> bytes:
    """Return the request of a job that ended, with the beginning of its command alone."""
    kept = {name: request.get(name) for name in ("user", "name", "tasks", "submitted")}
    command = _first_words(request.get("command") or (), ENDED_BYTES // 2)
    return to_json(kept | {"command": command, "environment": {}, "directory": None})


def short_view(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return the view of a job that ended; `shortened` names the fields that lack entries."""
    kept = dict(view)
    if len(to_json(kept)) <= ENDED_BYTES:
        return kept
    fixed = {name: value for name, value in kept.items() if name not in LONG_FIELDS}
    room = max(ENDED_BYTES - len(to_json(fixed)) - 100, 0) // len(LONG_FIELDS)
    for name in LONG_FIELDS:
        value = kept[name]
        if isinstance(value, dict):
            first: Any = dict(_first_entries(list(value.items()), room))
        else:
            first = _first_entries(value or (), room)
        if value is not None and len(first) < len(value):
            kept[name] = first
            kept["shortened"] = [*kept.get("shortened", ()), name]
    return kept


def _first_entries(entries: Sequence[Any], room: int) -> list[Any]:
    """Return the first entries whose JSON takes at most `room` bytes."""
    kept: list[Any] = []
    for entry in entries:
        room -= len(to_json(entry)) + 1
        if room < 0:
            break
        kept.append(entry)
    return kept


def _first_words(words: Sequence[str], room: int) -> list[str]:
    """Return the first words whose JSON takes at most `room` bytes, and part of the next one."""
    kept = _first_entries(words, room)
    if len(kept) == len(words):
        return kept
    part, left = words[len(kept)][:room], room - sum(len(to_json(word)) + 1 for word in kept)
    while part and len(to_json(part)) > left:
        part = part[: len(part) // 2]
    return [*kept, part + MARK]

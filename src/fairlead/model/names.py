"""Refuse names with control characters, which would change what terminals show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fairlead.errors import ProblemError

# Surrogates are halves of characters, which no encoding can write.
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def check_name(name: str, place: str) -> str:
    """Return a name; raise ProblemError if it has control characters."""
    if CONTROL.search(name):
        raise ProblemError(f"must not have control characters: {name!r:.60}", place)
    return name


def check_names(names: Sequence[str], what: str) -> None:
    """Raise ProblemError for the first name that has control characters."""
    if CONTROL.search("".join(names)):  # a single search, as control characters are rare
        for row, name in enumerate(names):
            check_name(name, f"{what}[{row}].name")

"""Read the file of `--accounts`, apart from `accounts`, as most workers need no YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairlead.errors import InputError
from fairlead.formats.documents import read_document


def read_accounts(path: Path) -> dict[str, str]:
    """Read a map from users to accounts, YAML or JSON.

    Raises
    ------
    InputError
        When it cannot be read, or is something else.
    """
    try:
        document: Any = read_document(path)
    except InputError as fault:
        raise fault.within(str(path)) from None
    is_map = isinstance(document, dict) and all(
        isinstance(user, str) and isinstance(name, str) for user, name in document.items()
    )
    if not is_map:
        raise InputError("must be accounts by user, such as  ana: anab", "", str(path))
    return dict(document)

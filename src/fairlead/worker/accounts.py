"""Which Unix account runs a user's tasks."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.errors import InputError
from fairlead.formats.text import read_document

ANYBODY = "*"  # in a map: users that are not named


@dataclass(frozen=True)
class Account:
    """A Unix account."""

    name: str
    uid: int
    gid: int
    groups: list[int]
    home: str


class Accounts:
    """Accounts by user: the worker's own for all, or, where it is root, by a map; never root.

    Parameters
    ----------
    names : mapping of str to str
        Account by user; ``*`` is for users that are not named. A user that is in neither has the
        account of the same name.
    is_root : bool, optional
        Whether the worker may become others; asked of the system when absent.

    Raises
    ------
    InputError
        When accounts are given and the worker is not root, or one of them is root, or is not there.
    """

    def __init__(self, names: Mapping[str, str], is_root: bool | None = None) -> None:
        self.is_root = os.geteuid() == 0 if is_root is None else is_root
        self._names = dict(names)
        if names and not self.is_root:
            raise InputError("only a worker that is root can use other accounts", "--accounts")
        for user, name in names.items():
            if isinstance(account := _account(name), str):
                raise InputError(account, f"--accounts: {user}")

    def of(self, user: str) -> Account | None:
        """Return the account for a user's tasks, or None for the worker's own.

        Raises
        ------
        InputError
            When there is none for this user.
        """
        if not self.is_root:
            return None
        found = _account(self._names.get(user) or self._names.get(ANYBODY) or user)
        if isinstance(found, str):
            raise InputError(found, f"user {user!r}")
        return found


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


def _account(name: str) -> Account | str:
    """Return an account, or what is wrong with it."""
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        return f"there is no account {name!r:.60}"
    if entry.pw_uid == 0:
        return f"the account {name!r} is root, and tasks never run as root"
    groups = os.getgrouplist(name, entry.pw_gid)
    return Account(name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)

"""The Unix accounts that run users' tasks, and folders for users without an account."""

from __future__ import annotations

import hashlib
import logging
import os
import pwd
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.errors import InputError
from fairlead.service.worker._files import make_folder, set_owner

LOG = logging.getLogger("fairlead.service.worker")
OTHER_USERS = "*"  # in a map: all other users
SHARED = "nobody"  # the account of users without one
LARGEST_NUMBER = 2**32 - 2  # the kernel takes 2^32 - 1 as "unchanged": a task would stay root
PLAIN_NAME = re.compile(r"[a-z0-9_][a-z0-9_-]{0,99}")
NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True)
class Account:
    """A Unix account; all users without an account share one."""

    name: str
    uid: int
    gid: int
    groups: list[int]
    home: str
    is_shared: bool = False


class Accounts:
    """The Unix account of each user, never root; the worker's own unless the worker is root.

    `names` maps users to accounts, and ``*`` to the account of all other users. Without ``*``, an
    unmapped user has the account of the same name. Without a map, users without an account share
    the account `nobody`, which is then `shared`.
    """

    def __init__(self, names: Mapping[str, str] | None, is_root: bool | None = None) -> None:
        self.is_root = 0 in os.getresuid() if is_root is None else is_root
        self._names = dict(names or {})
        self.shared: Account | None = None
        if names and not self.is_root:
            raise InputError("only a worker that is root can use other accounts", "--accounts")
        for user, name in self._names.items():
            if isinstance(account := _account(name), str):
                raise InputError(account, f"--accounts: {user}")
        if names is None and self.is_root:
            shared = _account(SHARED)
            if isinstance(shared, str):
                raise InputError(f"{shared}; name accounts for all users", "--accounts")
            self.shared = replace(shared, is_shared=True)

    def of(self, user: str) -> Account | None:
        """Return the account for a user's tasks, or None for the worker's own."""
        if not self.is_root:
            return None
        if self.shared is not None and not _exists(user):
            return self.shared
        found = _account(self._names.get(user) or self._names.get(OTHER_USERS) or user)
        if isinstance(found, str):
            raise InputError(found, f"user {user!r}")
        is_shared = self.shared is not None and found.uid == self.shared.uid
        return self.shared if is_shared else found


def folder_name(user: str) -> str:
    """Return the name of a user's folder; no two users have the same."""
    if PLAIN_NAME.fullmatch(user):
        return user
    digest = hashlib.sha256(user.encode("utf-8", errors="surrogatepass")).hexdigest()
    return f"{NOT_PLAIN.sub('_', user)[:50]}.{digest[:32]}"


def make_home(homes: Path, user: str, account: Account) -> Path:
    """Return the folder of a user who shares an account; make it if it is missing."""
    home = homes / folder_name(user)
    with suppress(FileExistsError):
        home.mkdir(mode=0o700)
    set_owner(home, account)
    return home


def make_homes(folder: Path, account: Account) -> None:
    """Make the folder for the files of users without an account."""
    try:
        make_folder(folder, is_root=True)
        folder.chmod(0o711)
    except OSError as fault:
        raise InputError(fault.strerror or str(fault), "", str(folder)) from None
    if not _can_enter(folder, account):
        why = f"the account {account.name!r} cannot enter it; give another folder with --state"
        raise InputError(why, "", str(folder))
    LOG.info("users without an account run as %s, each in a folder in %s", account.name, folder)


def _can_enter(folder: Path, account: Account) -> bool:
    """Return whether an account can enter a folder."""
    tried = subprocess.run(
        ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)],
        env={},
        cwd="/",
        capture_output=True,
        check=False,
        user=account.uid,
        group=account.gid,
        extra_groups=account.groups,
    )
    return tried.returncode == 0


def read_accounts(path: Path) -> dict[str, str]:
    """Read a map from users to accounts, YAML or JSON."""
    from fairlead.formats.documents import read_document  # most workers need no YAML

    try:
        document: Any = read_document(path)
    except InputError as fault:
        raise fault.within(str(path)) from None
    is_map = isinstance(document, dict) and all(
        isinstance(user, str) and isinstance(name, str) for user, name in document.items()
    )
    if not is_map:
        raise InputError("must map users to accounts, such as  ana: anab", "", str(path))
    return dict(document)


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):  # UnicodeError is a ValueError
        return False
    return True


def _account(name: str) -> Account | str:
    """Return an account, or the reason why tasks cannot use it."""
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        return f"there is no account {name!r:.60}"
    if entry.pw_uid == 0:
        return f"the account {name!r} is root, and tasks never run as root"
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    if 0 in (entry.pw_gid, *groups):
        return f"the account {name!r} is in root's group, and tasks never run in that"
    if not all(0 < number <= LARGEST_NUMBER for number in (entry.pw_uid, entry.pw_gid, *groups)):
        return f"the account {name!r} has a user or group number out of range"
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)

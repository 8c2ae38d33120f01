"""The worker's folders. A root worker uses none that another account could put in its place."""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from fairlead.errors import InputError
from fairlead.service.worker.accounts import Account, can_enter
from fairlead.service.worker.files import open_plain, replace

LOG = logging.getLogger("fairlead.service.worker")
FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
IDENTITY = "identity"


def make_folder(path: Path, *, is_root: bool) -> None:
    """Make a folder, or use one that is there, in which others read and write nothing.

    Parameters
    ----------
    path : Path
        An absolute one without links, which another account could change later.
    is_root : bool
        Whether to refuse a path that another account can change.

    Raises
    ------
    InputError
        When it belongs to another account, all accounts can write to it, or the worker is root and
        another account can put another folder in its place.
    OSError
        When it cannot be made.
    """
    above = os.open("/", os.O_PATH | FOLDER)
    try:
        for k, name in enumerate(path.parts[1:], 1):
            if is_root and _is_open_to_others(os.fstat(above)):
                place = Path(*path.parts[:k])
                fault = f"another account can replace it, as it can write {place}"
                raise InputError(f"{fault}; give another folder with --state", "", str(path))
            with suppress(FileNotFoundError):
                above = _step(above, os.open(name, os.O_PATH | FOLDER, dir_fd=above))
                continue
            os.mkdir(name, 0o755, dir_fd=above)
            above = _step(above, os.open(name, os.O_RDONLY | FOLDER, dir_fd=above))
            os.fchmod(above, 0o711 if k == len(path.parts) - 1 else 0o755)  # for any umask
        _tighten(above, path)
    finally:
        os.close(above)


def lock_folder(state: Path) -> int:
    """Keep other workers out of a folder; return the descriptor that holds the lock.

    Raises
    ------
    InputError
        When another worker has it.
    OSError
        When it cannot be locked.
    """
    number = os.open(state / "lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(number, 0o600)
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        os.close(number)
        if isinstance(fault, BlockingIOError):
            raise InputError("another worker uses this folder", "", str(state)) from None
        raise
    return number


def read_identity(state: Path) -> str:
    """Return the worker's identity; a process that knows it can take the worker's place.

    Raises
    ------
    InputError
        When the file is not the worker's own.
    OSError
        When it cannot be read or made.
    """
    path = state / IDENTITY
    if not os.path.lexists(path):
        replace(path, secrets.token_hex(16))
    file = open_plain(state, IDENTITY)
    if file is None:
        raise InputError("must be a plain file of the worker's; remove it", "", str(path))
    with file:
        os.fchmod(file.fileno(), 0o600)
        return file.read(100).decode("ascii", errors="replace").strip()


def make_homes(folder: Path, account: Account) -> None:
    """Make the folder for the files of users without an account.

    Raises
    ------
    InputError
        When the account that they share cannot go there.
    """
    try:
        make_folder(folder, is_root=True)
        folder.chmod(0o711)
    except OSError as fault:
        raise InputError(fault.strerror or str(fault), "", str(folder)) from None
    if not can_enter(folder, account):
        why = f"the account {account.name!r} cannot enter it; give another folder with --state"
        raise InputError(why, "", str(folder))
    LOG.info("users without an account run as %s, each in a folder in %s", account.name, folder)


def _step(above: int, inner: int) -> int:
    os.close(above)
    return inner


def _is_open_to_others(found: os.stat_result) -> bool:
    """Return whether another account could put another folder in place of one in this folder.

    A group that may write counts, too: its bits also stand for entries of an access control list.
    """
    can_others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    is_open = can_others_write and not found.st_mode & stat.S_ISVTX
    return bool(is_open) or found.st_uid not in (0, os.geteuid())


def _tighten(folder: int, path: Path) -> None:
    found = os.fstat(folder)
    if found.st_uid != os.geteuid():
        raise InputError("belongs to another account; give the worker its own", "", str(path))
    if found.st_mode & stat.S_IWOTH:
        raise InputError("everybody can write to it; give the worker its own", "", str(path))
    if found.st_mode & 0o7777 & ~0o711:
        os.chmod(f"/proc/self/fd/{folder}", found.st_mode & 0o711)

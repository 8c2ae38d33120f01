"""Files and folders of a worker: open, create and protect them.

A worker may be root. So it trusts no file that a task may have replaced, and uses no folder that
another account could have replaced.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fairlead.errors import InputError
from fairlead.service.worker.machine import output_of

if TYPE_CHECKING:
    from fairlead.service.worker.accounts import Account

MOST_READ = 2**20  # bytes of a file about an attempt
FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
IDENTITY = "identity"
SPARE = 2**20  # bytes; no hole is made for a smaller excess


def open_plain(folder: Path, name: str, flags: int = os.O_RDONLY) -> BinaryIO | None:
    """Open a file if it is regular, has one name, and belongs to the owner of its folder.

    A task may put links, pipes and files of other accounts into its folder, but cannot change the
    owner of the folder. Returns None for any other file, or for a missing one.
    """
    try:
        parent = os.open(folder, os.O_PATH | FOLDER)
    except OSError:
        return None
    try:
        owner = os.fstat(parent).st_uid
        more = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(name, flags | more, dir_fd=parent)
    except OSError:
        return None
    finally:
        os.close(parent)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == owner:
        return os.fdopen(descriptor, "rb" if flags == os.O_RDONLY else "r+b")
    os.close(descriptor)
    return None


def read_plain(folder: Path, name: str) -> str | None:
    """Return the text of a file that `open_plain` opens, or None."""
    file = open_plain(folder, name)
    if file is None:
        return None
    with file:
        return file.read(MOST_READ).decode("utf-8", errors="replace")


def create(
    path: Path, content: str = "", mode: int = 0o600, account: Account | None = None
) -> None:
    """Write a new file, owned by an account if given; leave nothing if that fails."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode("utf-8", errors="replace"))
            if account is not None:
                os.fchown(descriptor, account.uid, account.gid)
    except OSError:
        path.unlink()
        raise


def append(path: Path, content: str) -> None:
    """Append to a file that only the worker's account can write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "ab") as file:
        file.write(content.encode("utf-8", errors="replace"))


def set_owner(folder: Path, account: Account) -> None:
    descriptor = os.open(folder, os.O_RDONLY | FOLDER)
    try:
        os.fchown(descriptor, account.uid, account.gid)
    finally:
        os.close(descriptor)


def replace(path: Path, content: str) -> None:
    """Write a file atomically, in place of any existing one."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    create(new, content)
    new.rename(path)


def first_kept_byte(file: BinaryIO, size: int) -> int:
    """Return where a file's data begin after a leading hole; 0 if that is not known."""
    try:
        return min(size, os.lseek(file.fileno(), 0, os.SEEK_DATA))
    except OSError:  # the whole file is a hole, or the file system does not report holes
        return 0


def free_front(file: BinaryIO, kept: int) -> None:
    """Free the disk space of a file's start by a hole; the last `kept` bytes stay."""
    descriptor = file.fileno()
    found = os.fstat(descriptor)
    if found.st_blocks * 512 <= kept + SPARE or found.st_size <= kept:
        return
    # Only whole blocks: a part of one would become zeros, which `first_kept_byte` takes for data.
    length = str((found.st_size - kept) // found.st_blksize * found.st_blksize)
    punch = ["fallocate", "--punch-hole", "--offset", "0", "--length", length]
    with suppress(OSError, subprocess.SubprocessError):  # some file systems make no holes
        output_of([*punch, f"/proc/self/fd/{descriptor}"], pass_fds=[descriptor])


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's names, are on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path, *, is_root: bool) -> None:
    """Make a folder and those above it, or use an existing one, closed to other accounts.

    Other accounts may only pass through it. Raises `InputError` if another account owns it, if
    all accounts can write to it, or, for root, if another account could replace a folder above it.
    """
    above = os.open("/", os.O_PATH | FOLDER)
    try:
        for k, name in enumerate(path.parts[1:], 1):
            if is_root and _is_open_to_others(os.fstat(above)):
                fault = f"another account can replace it by its rights to {Path(*path.parts[:k])}"
                raise InputError(f"{fault}; give another folder with --state", "", str(path))
            with suppress(FileNotFoundError):
                above = _descend(above, os.open(name, os.O_PATH | FOLDER, dir_fd=above))
                continue
            os.mkdir(name, 0o755, dir_fd=above)
            above = _descend(above, os.open(name, os.O_RDONLY | FOLDER, dir_fd=above))
            os.fchmod(above, 0o711 if k == len(path.parts) - 1 else 0o755)  # whatever the umask is
        _close_to_others(above, path)
    finally:
        os.close(above)


def lock_folder(state: Path) -> int:
    """Lock a folder against other workers; return the descriptor that holds the lock."""
    flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(state / "lock", flags, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        os.close(descriptor)
        if isinstance(fault, BlockingIOError):
            raise InputError("another worker uses this folder", "", str(state)) from None
        raise
    return descriptor


def read_identity(state: Path) -> str:
    """Return the worker's identity, drawn at its first start.

    It is secret, because a process that knows it can take the worker's place.
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


def _descend(above: int, inner: int) -> int:
    """Close the descriptor of a folder; return that of a folder in it."""
    os.close(above)
    return inner


def _is_open_to_others(found: os.stat_result) -> bool:
    """Return whether another account could replace a folder in this one.

    Write permission of the group counts, because it may stand for an access control list.
    """
    can_others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    is_open = can_others_write and not found.st_mode & stat.S_ISVTX
    return bool(is_open) or found.st_uid not in (0, os.geteuid())


def _close_to_others(folder: int, path: Path) -> None:
    """Let other accounts only pass through a folder, or raise `InputError`; see `make_folder`."""
    found = os.fstat(folder)
    if found.st_uid != os.geteuid():
        raise InputError("belongs to another account; give the worker its own", "", str(path))
    if found.st_mode & stat.S_IWOTH:
        raise InputError("everybody can write to it; give the worker its own", "", str(path))
    if found.st_mode & 0o7777 & ~0o711:
        os.chmod(f"/proc/self/fd/{folder}", found.st_mode & 0o711)

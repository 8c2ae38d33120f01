"""Files of attempts. A root worker reads what a task may have replaced, and trusts none of it."""

from __future__ import annotations

import os
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fairlead.service.worker.programs import output_of

if TYPE_CHECKING:
    from fairlead.service.worker.accounts import Account

MOST_READ = 2**20  # bytes of a file about an attempt
SPARE = 2**20  # bytes; a smaller excess is not worth a hole


def open_plain(folder: Path, name: str, flags: int = os.O_RDONLY) -> BinaryIO | None:
    """Open a file of a folder, if it is plain, has one name, and belongs to the folder's owner.

    In a task's folder the task's account can put links and pipes, and files of others that it may
    rename, root's among them. None of these is opened. The owner of the folder it cannot change.
    """
    try:
        place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        owner = os.fstat(place).st_uid
        more = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        number = os.open(name, flags | more, dir_fd=place)
    except OSError:
        return None
    finally:
        os.close(place)
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == owner:
        return os.fdopen(number, "rb" if flags == os.O_RDONLY else "r+b")
    os.close(number)
    return None


def read_plain(folder: Path, name: str) -> str | None:
    """Return the text of a file as `open_plain` opens it, or None."""
    file = open_plain(folder, name)
    if file is None:
        return None
    with file:
        return file.read(MOST_READ).decode("utf-8", errors="replace")


def create(
    path: Path, content: str = "", mode: int = 0o600, account: Account | None = None
) -> None:
    """Write a file that is not there yet, for an account if given; leave nothing where that fails.

    Raises
    ------
    OSError
        When the file is there, or the disk is full.
    """
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content.encode("utf-8", errors="replace"))
            if account is not None:
                os.fchown(number, account.uid, account.gid)
    except OSError:
        path.unlink()
        raise


def append(path: Path, content: str) -> None:
    """Write at the end of a file that only the worker's account can write.

    Raises
    ------
    OSError
        When the file is not there, or the disk is full.
    """
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(number, "ab") as file:
        file.write(content.encode("utf-8", errors="replace"))


def give(folder: Path, account: Account) -> None:
    """Make an account the owner of a folder.

    Raises
    ------
    OSError
        When it is no folder, or cannot be given.
    """
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(number, account.uid, account.gid)
    finally:
        os.close(number)


def replace(path: Path, content: str) -> None:
    """Write a file in place of one that may be there, whole or not at all.

    Raises
    ------
    OSError
        When the disk is full.
    """
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    create(new, content)
    new.rename(path)


def first_kept(file: BinaryIO, size: int) -> int:
    """Return the offset of a file's first kept byte; the bytes before it are a hole."""
    try:
        return min(size, os.lseek(file.fileno(), 0, os.SEEK_DATA))
    except OSError:  # all of it is a hole, or the file system tells nothing of holes
        return 0


def forget_front(file: BinaryIO, most: int) -> None:
    """Make a hole of a file's first bytes, so that the last `most` bytes are kept."""
    number = file.fileno()
    found = os.fstat(number)
    if found.st_blocks * 512 <= most + SPARE or found.st_size <= most:
        return
    # Of whole blocks: the rest of one would read as zeros.
    length = str((found.st_size - most) // found.st_blksize * found.st_blksize)
    punch = ["fallocate", "--punch-hole", "--offset", "0", "--length", length]
    with suppress(OSError, subprocess.SubprocessError):  # some file systems make no holes
        output_of([*punch, f"/proc/self/fd/{number}"], pass_fds=[number])


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's names, are on disk.

    Raises
    ------
    OSError
        When the disk is full.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)

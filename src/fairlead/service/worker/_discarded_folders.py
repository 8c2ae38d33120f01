"""Remove the folders of attempts, whatever they contain.

A task's tree may be too deep for a recursion or a path, too large for one turn, and may change
meanwhile. So no tree is walked. Each folder is moved into `DISCARDED`, which tasks cannot enter,
and emptied: files are removed, and folders inside it are moved up into `DISCARDED`. This takes
three descriptors, follows no link, and survives a restart.

A task may have moved folders of other accounts into its own. A worker that is root does not enter
these: the name of each discarded folder holds the account of its task.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Set
from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import shuffle
from time import monotonic

from fairlead.service.worker._files import FOLDER

LOG = logging.getLogger("fairlead.service.worker")
DISCARDED = ".discarded"  # beside the folders of attempts, whose names begin with a digit
TURN = 2.0  # seconds; a worker that stops waits for the end of a turn
SLICE = 0.5  # seconds of a turn for one folder, which a live process may fill without end
AT_ONCE = 1000  # folders in one turn
# The name of an attempt's folder is own-ACCOUNT-RANDOM, that of a folder moved up ACCOUNT-RANDOM,
# where ACCOUNT is the number of the task's account.
OWN = "own"


def discard(path: Path) -> None:
    """Move a folder, if it exists, to where `remove_discarded` removes it."""
    discarded = path.parent / DISCARDED
    if path == discarded:
        return
    with suppress(FileExistsError):
        discarded.mkdir(mode=0o700)
    with suppress(FileNotFoundError):
        path.rename(discarded / f"{OWN}-{_account_of(path)}-{secrets.token_hex(8)}")


def remove_discarded(root: Path, seconds: float = TURN) -> bool:
    """Remove discarded folders for some seconds; return whether time ran out before the end.

    A mount, an immutable file and the like stay, and are tried again in a later turn.
    """
    deadline = monotonic() + seconds
    try:
        discarded = os.open(root / DISCARDED, os.O_RDONLY | FOLDER)
    except OSError:
        return False
    try:
        while names := _sample_names(discarded):
            is_changed = False
            for name in names:
                is_changed |= _empty(discarded, name, deadline)
                if monotonic() > deadline:
                    return True
            if not is_changed:
                break
    finally:
        os.close(discarded)
    if names:
        LOG.warning("%d folders in %s cannot be removed", len(names), root / DISCARDED)
    else:
        with suppress(OSError):
            (root / DISCARDED).rmdir()
    return False


def _sample_names(discarded: int) -> list[str]:
    """Return at most `AT_ONCE` names in a folder, in random order, so that none is always last."""
    with os.scandir(discarded) as entries:
        names = [entry.name for entry in islice(entries, AT_ONCE)]
    shuffle(names)
    return names


def _account_of(attempt: Path) -> int:
    """Return the account of an attempt's task, the owner of the folder `task`."""
    try:
        return (attempt / "task").lstat().st_uid
    except OSError:
        return os.geteuid()


def _empty(discarded: int, name: str, deadline: float) -> bool:
    """Remove an entry, or remove or move up the entries inside it; return whether any changed."""
    kind, _, rest = name.partition("-")
    account = rest.partition("-")[0] if kind == OWN else kind
    owners = {int(account)} if account.isdigit() else {os.geteuid()}
    if kind == OWN:
        owners.add(os.geteuid())  # the worker made the attempt's folder
    if _try_remove(discarded, name):
        return True
    is_changed, deadline = False, min(deadline, monotonic() + SLICE)
    with suppress(OSError):
        folder = _open_unlocked(discarded, name, owners)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    new_name = f"{account}-{secrets.token_hex(8)}"
                    is_changed |= _try_remove(folder, entry.name) or _try_move(
                        folder, entry.name, discarded, new_name, owners
                    )
                    if monotonic() > deadline:
                        break
        finally:
            os.close(folder)
    return _try_remove(discarded, name) or is_changed


def _try_remove(folder: int, name: str) -> bool:
    for remove in (os.unlink, os.rmdir):
        with suppress(OSError):
            remove(name, dir_fd=folder)
            return True
    return False


def _try_move(folder: int, name: str, discarded: int, new_name: str, owners: Set[int]) -> bool:
    for _ in range(2):
        try:
            os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=discarded)
        except PermissionError:  # a folder must be writable, because its `..` entry changes
            with suppress(OSError):
                os.close(_open_unlocked(folder, name, owners))
        except OSError:
            return False
        else:
            return True
    return False


def _open_unlocked(parent: int, name: str, owners: Set[int]) -> int:
    """Open a folder of one of the owners, after giving its owner all permissions."""
    found = os.open(name, os.O_PATH | FOLDER, dir_fd=parent)
    try:
        if os.geteuid() == 0 and os.fstat(found).st_uid not in owners:
            raise PermissionError("belongs to another account")
        with suppress(OSError):
            os.chmod(f"/proc/self/fd/{found}", 0o700)
        return os.open(".", os.O_RDONLY | FOLDER, dir_fd=found)
    finally:
        os.close(found)

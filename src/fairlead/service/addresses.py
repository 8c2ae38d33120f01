"""Where a service is reached: Unix sockets, their default places, and who may be trusted there.

A Unix socket stands in a separate folder, which only its owner can write. So no other account can
put another socket there while the service is away, and requests reach the service alone.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fairlead.errors import InputError

UNIX = "unix:"  # before the path of a socket, where a URL of a service is asked for
NAME = "fairlead.sock"
SYSTEM = Path("/run/fairlead")
BACKLOG = 2048
MOST_LINKS = 40  # on the way to a socket, as for the system itself


def own_socket() -> Path:
    """Return where a service of this account has its socket if nothing else is said."""
    if folder := os.environ.get("RUNTIME_DIRECTORY"):  # systemd made it for this service
        return Path(folder.partition(":")[0]) / NAME
    if os.geteuid() == 0:
        return SYSTEM / NAME
    if folder := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(folder) / "fairlead" / NAME
    return Path(f"/tmp/fairlead-{os.geteuid()}") / NAME


def find_socket() -> Path:
    """Return the socket of a service on this machine: this account's, else the system's.

    It may not be there yet. A folder of this account for its socket shows that the account runs, or
    ran, a service.
    """
    own, system = own_socket(), SYSTEM / NAME
    if own == system or _owner(own.parent) == os.geteuid():
        return own
    return own if _owner(system) is None else system


def check_socket(path: Path) -> Path:
    """Return the path of a socket without links; refuse one that another account could replace.

    All folders on the way are checked, those of links included. A missing folder is no fault, as
    nothing is reached then.

    Raises
    ------
    InputError
        When another account can change one of these folders, or a link belongs to one.
    """
    trusted = (0, os.geteuid())
    real, left, links = Path("/"), list(path.absolute().parts[1:]), 0
    while left:
        if not _is_safe(real, trusted):
            raise _replaceable(path, real)
        name = left.pop(0)
        if name == "..":
            real = real.parent
            continue
        try:
            found = (real / name).lstat()
        except OSError:
            return real.joinpath(name, *left)
        if not stat.S_ISLNK(found.st_mode):
            real /= name
            continue
        links += 1
        if found.st_uid not in trusted or links > MOST_LINKS:
            raise _replaceable(path, real / name)
        target = Path(os.readlink(real / name))
        left = [*target.parts[target.is_absolute() :], *left]
        real = Path("/") if target.is_absolute() else real
    return real


def _is_safe(folder: Path, trusted: Sequence[int]) -> bool:
    """Return whether no other account can change a folder's entries that belong to trusted ones."""
    try:
        found = folder.stat()
    except OSError:
        return True
    # Root let an account have a folder there, as systemd does.
    is_given = folder.parent == SYSTEM.parent and not found.st_mode & 0o022
    # Anybody may add to a sticky folder, as /tmp, and remove nothing of others' from it.
    is_open = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
    return is_given or (found.st_uid in trusted and not is_open)


def _replaceable(path: Path, place: Path) -> InputError:
    return InputError(
        f"another account could have put a socket there, as it can change {place}", "", str(path)
    )


def listen_unix(path: Path) -> socket.socket:
    """Listen on a Unix socket; its folder is made where it is missing.

    Raises
    ------
    InputError
        When another service listens there, or others can write the folder.
    """
    folder = path.parent
    try:
        folder.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, exist_ok=True)
        check_socket(path)
        with _locked(folder):
            if _is_served(path):
                raise InputError("is another service's", "", str(path))
            path.unlink(missing_ok=True)
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listening.bind(str(path))
            path.chmod(0o666)  # the folder says who may enter; the kernel says who asks
            listening.listen(BACKLOG)
    except OSError as fault:
        why = fault.strerror or str(fault)
        raise InputError(f"cannot be listened on: {why.lower()}", "", str(path)) from None
    return listening


def listen_tcp(host: str, port: int) -> socket.socket:
    """Listen on a TCP port.

    Raises
    ------
    InputError
        When the address cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as fault:
        why = getattr(fault, "strerror", None) or str(fault)
        raise InputError(f"cannot be listened on: {why.lower()}", f"{host}:{port}") from None
    return listening


def close(listening: Sequence[socket.socket]) -> None:
    """Close sockets, and remove the names of Unix sockets."""
    for sock in listening:
        if sock.fileno() < 0:
            continue  # closed already
        if sock.family == socket.AF_UNIX:
            Path(sock.getsockname()).unlink(missing_ok=True)
        sock.close()


def _owner(path: Path) -> int | None:
    """Return the account that a file belongs to; None where there is none, or none to be seen."""
    try:
        return path.stat().st_uid
    except OSError:
        return None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder for the length of a block, so that of two services only one takes a socket."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _is_served(path: Path) -> bool:
    """Return whether a service listens on a socket; one that was killed left only its name."""
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return False
    if not is_socket:
        raise InputError("is there, and is no socket", "", str(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0

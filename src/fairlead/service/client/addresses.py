"""Addresses of a service: Unix sockets and URLs, how to connect, and how to know the service.

- ``unix:PATH``, the default: a socket in a folder that only its owner can write.
- ``http://HOST:PORT`` with a token made by `fairlead token add`: TLS, and only with the service
  whose certificate the token names. The token is shown to no other.
- ``https://HOST``: a proxy before the service, checked by the system's authorities.
- ``http://HOST:PORT`` without such a token: nothing is checked.

No other account can put another socket into the folder of a Unix socket while the service is away.
So requests reach the service alone.
"""

from __future__ import annotations

import fcntl
import os
import socket as sockets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from re import fullmatch
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlsplit

from fairlead.errors import InputError

if TYPE_CHECKING:
    import ssl

PREFIX = "fairlead_"  # of all tokens
TOKEN = PREFIX + r"[A-Za-z0-9_-]{43}\.([A-Za-z0-9_-]{43})"
UNIX = "unix:"  # before the path of a socket, where a URL of a service is expected
NAME = "fairlead.sock"
SYSTEM = Path("/run/fairlead")
BACKLOG = 2048
MOST_LINKS = 40  # on the way to a socket, as for the system itself


class Address(NamedTuple):
    """The address of a service, and the token that is shown there."""

    url: str  # for people
    token: str = ""  # empty for none
    socket: Path | None = None  # the Unix socket, if it is one
    is_default: bool = False  # whether no address was given, so that it is looked up here

    @classmethod
    def of(cls, server: str | None, token: str | None) -> Address:
        """Return an address from options, else from FAIRLEAD_SERVER and FAIRLEAD_TOKEN."""
        url = server or os.environ.get("FAIRLEAD_SERVER") or ""
        shown = (os.environ.get("FAIRLEAD_TOKEN", "") if token is None else token).strip()
        if not (shown.isascii() and shown.isprintable()) or " " in shown:
            raise InputError("has characters that no token has", "FAIRLEAD_TOKEN")
        if shown.startswith(PREFIX) and not _pinned(shown):
            raise InputError("is cut: a token is one word with a dot in it", "FAIRLEAD_TOKEN")
        if not url:
            path = find_socket()
            return cls(f"{UNIX}{path}", shown, path, is_default=True)
        if url.startswith(UNIX):
            return cls(url, shown, Path(url.removeprefix(UNIX)))
        if not url.startswith(("http://", "https://")):
            wanted = "must begin with unix:, http:// or https://"
            raise InputError(f"{wanted}, not {url!r:.80}", "--server")
        try:
            parts = urlsplit(url)
            port = parts.port
            (parts.hostname or "").encode("idna")
        except ValueError as fault:
            raise InputError(f"is no address: {str(fault).lower()}", "--server") from None
        if not parts.hostname:
            raise InputError(f"names no host: {url!r:.80}", "--server")
        if port == 0:
            raise InputError("0 is no port", "--server")
        return cls(url, shown)

    @property
    def is_verified(self) -> bool:
        """Whether only the service itself, or its proxy, can answer at this address."""
        return self.socket is not None or self.url.startswith("https://") or bool(self.pin)

    def after_failure(self) -> Address:
        """Return the address to try after a failure: looked up again where none was given."""
        return Address.of(None, self.token) if self.is_default else self

    @property
    def pin(self) -> str:
        """The digest of the certificate that the service must show; empty for any."""
        return _pinned(self.token) if self.url.startswith("http://") else ""

    @property
    def host(self) -> str:
        """The host that requests are for, and its port where one was given."""
        if self.socket is not None:
            return "localhost"
        name = urlsplit(self.url).netloc.rpartition("@")[2]
        return name if name.isascii() else name.encode("idna").decode()

    @property
    def path(self) -> str:
        """The path before those of requests, where a proxy has the service below one."""
        if self.socket is not None:
            return ""
        return quote(urlsplit(self.url).path.rstrip("/"), safe="/%")

    @property
    def place(self) -> tuple[str, int]:
        """Host and port of an address that is no Unix socket."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    def check(self) -> None:
        """Refuse a socket that another account could have put there."""
        if self.socket is not None:
            check_socket(self.socket)

    def open(self, timeout: float) -> sockets.socket:
        """Connect to the service; `timeout` is in seconds, for each later step, too."""
        if self.socket is not None:
            connection = sockets.socket(sockets.AF_UNIX)
            try:
                connection.settimeout(timeout)
                connection.connect(str(check_socket(self.socket)))
            except BaseException:
                connection.close()
                raise
            return connection
        connection = sockets.create_connection(self.place, timeout)
        connection.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
        context = self.tls_context()
        if context is None:
            return connection
        try:
            return context.wrap_socket(connection, server_hostname=self.place[0])
        except BaseException:
            connection.close()
            raise

    def tls_context(self) -> ssl.SSLContext | None:
        """Return how TLS knows the service; None where there is no TLS."""
        if self.pin:
            from fairlead.service.certificate import client_context

            return client_context(self.pin)
        if self.url.startswith("https://"):
            import ssl

            return ssl.create_default_context()
        return None


def _pinned(token: str) -> str:
    """Return the digest that a token carries; empty for a token without one."""
    found = fullmatch(TOKEN, token)
    return found[1] if found else ""


def own_socket() -> Path:
    """Return the default socket of a service of this account."""
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
    # Any account may add to a sticky folder, as /tmp, and remove nothing of others' from it.
    is_open = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
    return is_given or (found.st_uid in trusted and not is_open)


def _replaceable(path: Path, place: Path) -> InputError:
    return InputError(
        f"another account could have put a socket there, as it can change {place}", "", str(path)
    )


def _owner(path: Path) -> int | None:
    """Return the account that a file belongs to; None where the file is absent or hidden."""
    try:
        return path.stat().st_uid
    except OSError:
        return None


def listen_unix(path: Path) -> sockets.socket:
    """Listen on a Unix socket; its folder is made where it is missing."""
    folder = path.parent
    try:
        folder.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, exist_ok=True)
        check_socket(path)
        with _locked(folder):
            if _is_served(path):
                raise InputError("is another service's", "", str(path))
            path.unlink(missing_ok=True)
            listening = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
            listening.bind(str(path))
            path.chmod(0o666)  # the folder limits who may enter; the kernel names each caller
            listening.listen(BACKLOG)
    except OSError as fault:
        why = fault.strerror or str(fault)
        raise InputError(f"cannot be listened on: {why.lower()}", "", str(path)) from None
    return listening


def listen_tcp(host: str, port: int) -> sockets.socket:
    """Listen on a TCP port."""
    try:
        family, kind, protocol, _, address = sockets.getaddrinfo(
            host, port, type=sockets.SOCK_STREAM, flags=sockets.AI_PASSIVE
        )[0]
        listening = sockets.socket(family, kind, protocol)
        listening.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as fault:
        why = getattr(fault, "strerror", None) or str(fault)
        raise InputError(f"cannot be listened on: {why.lower()}", f"{host}:{port}") from None
    return listening


def close(listening: Sequence[sockets.socket]) -> None:
    """Close sockets, and remove the names of Unix sockets."""
    for sock in listening:
        if sock.fileno() < 0:
            continue  # closed already
        if sock.family == sockets.AF_UNIX:
            Path(sock.getsockname()).unlink(missing_ok=True)
        sock.close()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder for a block, so that of two services only one takes a socket."""
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
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0

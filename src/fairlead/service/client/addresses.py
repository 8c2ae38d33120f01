"""Addresses of a service: connect to it and verify it; and, for the service, listen.

- ``unix:PATH``, the default: a socket in a folder that only its owner can write. So no other
  account can put a socket there while the service is down, and get its requests.
- ``http://HOST:PORT`` with a token made by `fairlead token add`: TLS to the service
  whose certificate the token names. No other service gets the token.
- ``https://HOST``: a proxy before the service, verified by the system's certificate authorities.
- ``http://HOST:PORT`` without such a token: nothing is verified.
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
TOKEN = PREFIX + r"[A-Za-z0-9_-]{43}\.([A-Za-z0-9_-]{43})"  # secret, digest of the certificate
UNIX = "unix:"  # before the path of a socket, in place of a URL
NAME = "fairlead.sock"
SYSTEM_FOLDER = Path("/run/fairlead")  # of the socket of a service of root
BACKLOG = 2048
LONGEST_SOCKET = 107  # bytes of a path that Linux connects to
MOST_LINKS = 40  # symbolic links on the way to a socket, as in Linux


class Address(NamedTuple):
    """The address of a service, and the token for it."""

    url: str  # for messages
    token: str = ""  # empty for none
    socket: Path | None = None  # None for a URL
    is_default: bool = False  # whether no address was given

    @classmethod
    def of(cls, server: str | None, token: str | None) -> Address:
        """Return an address from options, else from FAIRLEAD_SERVER and FAIRLEAD_TOKEN."""
        url = server or os.environ.get("FAIRLEAD_SERVER") or ""
        secret = (os.environ.get("FAIRLEAD_TOKEN", "") if token is None else token).strip()
        if not (secret.isascii() and secret.isprintable()) or " " in secret:
            raise InputError("has characters that no token has", "FAIRLEAD_TOKEN")
        if secret.startswith(PREFIX) and not _pinned(secret):
            raise InputError("is incomplete: a token is a word with a dot", "FAIRLEAD_TOKEN")
        if not url:
            path = find_socket()
            return cls(f"{UNIX}{path}", secret, path, is_default=True)
        if url.startswith(UNIX):
            socket = url.removeprefix(UNIX)
            if not 0 < len(os.fsencode(socket)) <= LONGEST_SOCKET or "\0" in socket:
                wanted = f"must name a socket by 1 to {LONGEST_SOCKET} bytes"
                raise InputError(f"{wanted}, not {socket!r:.80}", "--server")
            return cls(url, secret, Path(socket))
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
        return cls(url, secret)

    @property
    def is_verified(self) -> bool:
        """Whether only the service or its proxy can answer at this address."""
        return self.socket is not None or self.url.startswith("https://") or bool(self.pin)

    def after_failure(self) -> Address:
        """Return the address to try after a failure: look a default address up again."""
        return Address.of(None, self.token) if self.is_default else self

    @property
    def pin(self) -> str:
        """The digest of the certificate that the service must have; empty for none."""
        return _pinned(self.token) if self.url.startswith("http://") else ""

    @property
    def host(self) -> str:
        if self.socket is not None:
            return "localhost"
        name = urlsplit(self.url).netloc.rpartition("@")[2]
        return name if name.isascii() else name.encode("idna").decode()

    @property
    def path(self) -> str:
        """The path of the URL, below which a proxy may serve the API."""
        if self.socket is not None:
            return ""
        return quote(urlsplit(self.url).path.rstrip("/"), safe="/%")

    @property
    def host_and_port(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    def check(self) -> None:
        """Refuse a socket that another account could have put there."""
        if self.socket is not None:
            check_socket(self.socket)

    def open(self, timeout: float) -> sockets.socket:
        """Connect to the service; each step then takes at most `timeout` seconds."""
        if self.socket is not None:
            connection = sockets.socket(sockets.AF_UNIX)
            try:
                connection.settimeout(timeout)
                connection.connect(str(check_socket(self.socket)))
            except BaseException:
                connection.close()
                raise
            return connection
        connection = sockets.create_connection(self.host_and_port, timeout)
        connection.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
        context = self.tls_context()
        if context is None:
            return connection
        try:
            return context.wrap_socket(connection, server_hostname=self.host_and_port[0])
        except BaseException:
            connection.close()
            raise

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context that verifies the service; None without TLS."""
        if self.pin:
            from fairlead.service.tls_certificate import client_context

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
    """Return the path at which a service of this account listens."""
    if folder := os.environ.get("RUNTIME_DIRECTORY"):  # systemd made it for this service
        return Path(folder.partition(":")[0]) / NAME
    if os.geteuid() == 0:
        return SYSTEM_FOLDER / NAME
    if folder := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(folder) / "fairlead" / NAME
    return Path(f"/tmp/fairlead-{os.geteuid()}") / NAME


def find_socket() -> Path:
    """Return the socket of a service on this machine: this account's, else the system's.

    If this account owns the folder of its socket, it has run a service at some time. Its socket is
    also returned if the system's is missing, because a service may start later.
    """
    own, system = own_socket(), SYSTEM_FOLDER / NAME
    if own == system or _owner(own.parent) == os.geteuid():
        return own
    is_system_there = _owner(system) is not None
    return system if is_system_there else own


def check_socket(path: Path) -> Path:
    """Return the real path of a socket; refuse one that another account could replace.

    All folders of the path are checked, including those of symbolic links. A missing folder is
    accepted, because the connection fails anyway.
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
    try:
        found = folder.stat()
    except OSError:
        return True
    # Only root makes folders in /run, and it may give one to an account, as systemd does.
    is_given = folder.parent == SYSTEM_FOLDER.parent and not found.st_mode & 0o022
    # In a sticky folder, such as /tmp, accounts can remove only their own entries.
    is_open = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
    return is_given or (found.st_uid in trusted and not is_open)


def _replaceable(path: Path, unsafe: Path) -> InputError:
    return InputError(
        f"another account could have put a socket there, as it can change {unsafe}", "", str(path)
    )


def _owner(path: Path) -> int | None:
    """Return the user id of a file's owner; None if there is no such file."""
    try:
        return path.stat().st_uid
    except OSError:
        return None


def listen_unix(path: Path) -> sockets.socket:
    """Listen on a Unix socket; create its folder if it is missing."""
    folder = path.parent
    try:
        folder.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, exist_ok=True)
        check_socket(path)
        with _locked(folder):
            if _is_served(path):
                raise InputError("another service listens on it", "", str(path))
            path.unlink(missing_ok=True)
            listening = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
            listening.bind(str(path))
            path.chmod(0o666)  # the folder limits access, and the kernel identifies each caller
            listening.listen(BACKLOG)
    except OSError as fault:
        why = fault.strerror or str(fault)
        raise InputError(f"cannot be listened on: {why.lower()}", "", str(path)) from None
    return listening


def listen_tcp(host: str, port: int) -> sockets.socket:
    """Listen on a TCP port of an address of this machine."""
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
    """Close listening sockets, and remove the files of Unix sockets."""
    for sock in listening:
        if sock.fileno() < 0:
            continue  # closed already
        if sock.family == sockets.AF_UNIX:
            Path(sock.getsockname()).unlink(missing_ok=True)
        sock.close()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder during a block, so that two services cannot take one socket."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _is_served(path: Path) -> bool:
    """Return whether a service listens on a socket; a killed one leaves only the file."""
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return False
    if not is_socket:
        raise InputError("exists, and is no socket", "", str(path))
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0

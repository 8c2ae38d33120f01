"""How clients and workers connect to a service, and how they know that it is the service.

- ``unix:PATH``, the default: a socket in a folder that only its owner can write.
- ``http://HOST:PORT`` with a token made by `fairlead token add`: TLS, and only with the service
  whose certificate the token names. The token is shown to no other.
- ``https://HOST``: a proxy before the service, checked by the system's authorities.
- ``http://HOST:PORT`` without such a token: nothing is checked.
"""

from __future__ import annotations

import os
import socket as sockets
from pathlib import Path
from re import fullmatch
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlsplit

from fairlead.errors import InputError
from fairlead.service.addresses import UNIX, check_socket, find_socket

if TYPE_CHECKING:
    import ssl

    import httpx

PREFIX = "fairlead_"  # of all tokens
TOKEN = PREFIX + r"[A-Za-z0-9_-]{43}\.([A-Za-z0-9_-]{43})"


class Address(NamedTuple):
    """The address of a service, and the token that is shown there.

    Attributes
    ----------
    url : str
        For people.
    token : str
        Empty for none.
    socket : Path or None
        The Unix socket, if it is one.
    is_default : bool
        Whether no address was given, and so it is looked for on this machine.
    """

    url: str
    token: str = ""
    socket: Path | None = None
    is_default: bool = False

    @classmethod
    def of(cls, server: str | None, token: str | None) -> Address:
        """Return an address from options, else from FAIRLEAD_SERVER and FAIRLEAD_TOKEN.

        Raises
        ------
        InputError
            When the address or the token is malformed.
        """
        url = server or os.environ.get("FAIRLEAD_SERVER") or ""
        shown = (os.environ.get("FAIRLEAD_TOKEN", "") if token is None else token).strip()
        if not (shown.isascii() and shown.isprintable()) or " " in shown:
            raise InputError("has characters that no token has", "FAIRLEAD_TOKEN")
        if shown.startswith(PREFIX) and not pinned(shown):
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

    def again(self) -> Address:
        """Return the address to try after a failure: another one where none was given."""
        return Address.of(None, self.token) if self.is_default else self

    @property
    def pin(self) -> str:
        """The digest of the certificate that the service must show; empty for any."""
        return pinned(self.token) if self.url.startswith("http://") else ""

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
        return (
            "" if self.socket is not None else quote(urlsplit(self.url).path.rstrip("/"), safe="/%")
        )

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
        """Connect to the service.

        Parameters
        ----------
        timeout : float
            Seconds for each step, and for each one of sending and receiving afterwards.

        Raises
        ------
        InputError
            When another account could have put the socket there.
        OSError
            When there is no service.
        """
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

    def async_client(self) -> httpx.AsyncClient:
        """Return a client for asyncio.

        Raises
        ------
        InputError
            When another account could have put the socket there.
        """
        from fairlead.service.async_client import open_client

        return open_client(self)


def pinned(token: str) -> str:
    """Return the digest that a token carries; empty for a token without one."""
    found = fullmatch(TOKEN, token)
    return found[1] if found else ""

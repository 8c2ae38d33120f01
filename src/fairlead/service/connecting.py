"""How clients and workers connect to a service, and how they know that it is the service.

- ``unix:PATH``, the default: a socket in a folder that only its owner can write.
- ``http://HOST:PORT`` with a token made by `fairlead token add`: TLS, and only with the service
  whose certificate the token names. The token is shown to no other.
- ``https://HOST``: a proxy before the service, checked by the system's authorities.
- ``http://HOST:PORT`` without such a token: nothing is checked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from fairlead.errors import InputError
from fairlead.service.addresses import UNIX, check_socket, find_socket
from fairlead.service.certificate import PREFIX, client_context, pinned

TIMEOUT = 70.0  # seconds, more than any wait


@dataclass(frozen=True)
class Address:
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
            port = httpx.URL(url).port
        except (httpx.InvalidURL, ValueError) as fault:
            raise InputError(f"is no address: {str(fault).lower()}", "--server") from None
        if port is not None and not 0 < port < 2**16:
            raise InputError(f"{port} is no port", "--server")
        return cls(url, shown)

    @property
    def is_verified(self) -> bool:
        """Whether only the service itself, or its proxy, can answer at this address."""
        return self.socket is not None or self.url.startswith("https://") or bool(self._pin)

    def again(self) -> Address:
        """Return the address to try after a failure: another one where none was given."""
        return Address.of(None, self.token) if self.is_default else self

    def client(self) -> httpx.Client:
        """Return a client that waits for answers.

        Raises
        ------
        InputError
            When another account could have put the socket there.
        """
        return httpx.Client(**self._options(), transport=_Transport(self))

    def async_client(self) -> httpx.AsyncClient:
        """Return a client for asyncio; as `client`."""
        return httpx.AsyncClient(**self._options(), transport=_AsyncTransport(self))

    @property
    def _pin(self) -> str:
        return pinned(self.token) if self.url.startswith("http://") else ""

    def _options(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {"base_url": self._base(), "headers": headers, "timeout": TIMEOUT}

    def _base(self) -> str:
        if self.socket is not None:
            return "http://localhost"
        if not self._pin:
            return self.url
        plain = httpx.URL(self.url)
        return str(plain.copy_with(scheme="https", port=plain.port or 80))

    def transport_options(self) -> dict[str, Any]:
        """Return how to connect, for httpx's transports."""
        if self.socket is not None:
            return {"uds": str(check_socket(self.socket))}
        return {"verify": client_context(self._pin) if self._pin else True}

    def check(self) -> None:
        """Refuse a socket that another account could have put there."""
        if self.socket is not None:
            check_socket(self.socket)


class _Transport(httpx.HTTPTransport):
    """Checks the address before each request, as folders may have changed since the last one."""

    def __init__(self, address: Address) -> None:
        super().__init__(**address.transport_options())
        self._address = address

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._address.check()
        return super().handle_request(request)


class _AsyncTransport(httpx.AsyncHTTPTransport):
    """The same for asyncio."""

    def __init__(self, address: Address) -> None:
        super().__init__(**address.transport_options())
        self._address = address

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._address.check()
        return await super().handle_async_request(request)

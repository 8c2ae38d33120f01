"""HTTP/1.1 connections to a service for asyncio, which stay open between requests.

httpx does the same, with 15 MB more and 1 ms more a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fairlead.service.addresses import check_socket
from fairlead.service.exchange import HttpState, Reply

if TYPE_CHECKING:
    from fairlead.service.connecting import Address

OTHER_TIME = 30.0  # seconds for a part of a request beyond its wait
LARGEST_ANSWER = 32 * 2**20  # bytes; the service sends larger orders in several answers
PART = 2**16  # bytes that are read at once


class Connections:
    """Connections to a service; each carries one request at a time.

    Parameters
    ----------
    address : Address
        Another address may be looked for when the service does not answer.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: list[_Connection] = []

    @property
    def url(self) -> str:
        """The address, for people."""
        return self._address.url

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, wait: float
    ) -> Reply:
        """Send a request and return its answer, which the service may give only after a wait.

        Raises
        ------
        OSError
            When there is none; the next request may go to another address.
        OtherProgramError
            When it is none of a fairlead service.
        """
        self._address.check()  # each time, as folders may have changed
        try:
            connection = await self._free_connection()
            reply = await connection.ask(method, target, headers, body, OTHER_TIME + wait)
        except OSError:
            self._look_again()
            raise
        if connection.is_open:
            self._idle.append(connection)
        return reply

    async def _free_connection(self) -> _Connection:
        while self._idle:
            if (connection := self._idle.pop()).is_open:
                return connection
        async with asyncio.timeout(OTHER_TIME):
            return _Connection(*await _open(self._address), self._address)

    def _look_again(self) -> None:
        """Ask at another address from now on, if none was given and the service is elsewhere."""
        if (address := self._address.again()) != self._address:
            self._address = address
            while self._idle:
                self._idle.pop().close()


class _Connection:
    """A connection, and the state of HTTP on it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: Address
    ) -> None:
        self._reader, self._writer = reader, writer
        self._http = HttpState(address, LARGEST_ANSWER)

    @property
    def is_open(self) -> bool:
        """Whether it can carry another request."""
        return self._http.is_ready and not self._reader.at_eof()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, seconds: float
    ) -> Reply:
        """Send a request and return its answer, each part of it within some seconds."""
        try:
            self._writer.write(self._http.request(method, target, headers, body))
            reply = None
            while reply is None:
                async with asyncio.timeout(seconds):
                    reply = self._http.receive(await self._reader.read(PART))
        finally:
            if not self.is_open:
                self.close()
        return reply


async def _open(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.socket is not None:
        return await asyncio.open_unix_connection(str(check_socket(address.socket)))
    context = address.tls_context()
    host, port = address.place
    name = None if context is None else host
    return await asyncio.open_connection(host, port, ssl=context, server_hostname=name)

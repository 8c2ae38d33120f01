"""HTTP/1.1 connections to a service for asyncio, which stay open between requests.

httpx would take 15 MB of memory, and 1 ms for each request, more than this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from fairlead.service.client.addresses import Address, check_socket
from fairlead.service.client.exchange import PART, HttpState, NotReachedError, Reply

TIMEOUT = 40.0  # seconds for a part of an answer; the service waits at most 10 s for orders
MOST_CONNECTIONS = 100


class Connections:
    """Connections to a service, each for one request at a time; see `Exchange`."""

    def __init__(self, address: Address, timeout: float = TIMEOUT) -> None:
        self._address, self._timeout = address, timeout
        self._idle: list[_Connection] = []
        self._at_once = asyncio.Semaphore(MOST_CONNECTIONS)

    @property
    def url(self) -> str:
        return self._address.url

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        self._address.check()  # at each request, because folders may have changed
        try:
            async with self._at_once:
                connection = await self._free_connection()
                reply = await self._exchange(connection, method, target, headers, body)
        except OSError:
            if (address := self._address.after_failure()) != self._address:
                self._address = address
                self.close()
            raise
        return reply

    async def _exchange(
        self,
        connection: _Connection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Reply:
        """Send a request over a connection; keep the connection if it can carry another one."""
        http, reply = connection.http, None
        try:
            connection.writer.write(http.request(method, target, headers, body))
            while reply is None:
                async with asyncio.timeout(self._timeout):
                    reply = http.receive(await connection.reader.read(PART))
        finally:
            if connection.is_open:
                self._idle.append(connection)
            else:
                connection.writer.close()
        return reply

    def close(self) -> None:
        while self._idle:
            self._idle.pop().writer.close()

    async def _free_connection(self) -> _Connection:
        while self._idle:
            if (connection := self._idle.pop()).is_open:
                return connection
        try:
            async with asyncio.timeout(self._timeout):
                return _Connection(*await _open(self._address), HttpState(self._address))
        except (OSError, ValueError) as fault:  # ValueError: a host that is no valid name
            raise NotReachedError(str(fault) or type(fault).__name__) from fault


class _Connection(NamedTuple):
    """A connection for one request at a time."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    http: HttpState

    @property
    def is_open(self) -> bool:
        """Whether it can carry another request."""
        return self.http.is_ready and not self.reader.at_eof()


async def _open(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.socket is not None:
        return await asyncio.open_unix_connection(str(check_socket(address.socket)))
    context = address.tls_context()
    host, port = address.host_and_port
    name = None if context is None else host
    return await asyncio.open_connection(host, port, ssl=context, server_hostname=name)

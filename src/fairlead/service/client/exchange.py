"""Requests and answers over HTTP/1.1, one at a time on a connection that stays open.

h11 formats and parses HTTP. Complete HTTP clients import packages for mail, TLS and more, which
takes longer than the rest of a command (benchmarks/command_times.py).

Answers have limits of size and time, because another program may answer in place of the service.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol

import h11

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairlead.service.client.addresses import Address

TIMEOUT = 70.0  # seconds for a part of an answer; the service waits at most 60 s for a job
LARGEST_ANSWER = 64 * 2**20  # bytes; the service sends larger orders in several answers
LONGEST_ANSWER = 300.0  # seconds
PART = 2**16  # bytes that are read at once
HTTP = b"HTTP/"  # the first bytes of each answer


class OtherProgramError(Exception):
    """An answer that no fairlead service gives."""


class NotReachedError(OSError):
    """There is no connection to the service."""


class Reply(NamedTuple):
    """An answer; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Exchange(Protocol):
    """Sends requests and returns their answers: over a connection, or through Ray."""

    @property
    def url(self) -> str: ...

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send a request and return its answer; for a `BlockingClient` it never suspends.

        Raises `NotReachedError` if nothing was sent, `OSError` if no answer came, and
        `OtherProgramError` for an answer of another program.
        """
        ...

    def close(self) -> None: ...


class HttpState:
    """The state of HTTP on one connection; the caller sends and receives the bytes."""

    _reply: Reply  # status and headers of the answer that is being received

    def __init__(self, address: Address) -> None:
        self._address = address
        self._http = h11.Connection(h11.CLIENT)
        self._content = bytearray()
        self._deadline = 0.0  # for the answer, by the monotonic clock

    @property
    def is_ready(self) -> bool:
        """Whether the connection can carry another request."""
        return self._http.our_state is h11.IDLE and not self._http.trailing_data[0]

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """Return the bytes of a request."""
        address = self._address
        # Refuse compression, because a small answer might expand to a large one.
        fields = {"Host": address.host, "Accept-Encoding": "identity"}
        fields |= {"Content-Length": str(len(body)), **headers}
        if address.token:
            fields["Authorization"] = f"Bearer {address.token}"
        request = h11.Request(
            method=method, target=address.path + target, headers=list(fields.items())
        )
        events = (request, h11.Data(data=body), h11.EndOfMessage())
        return b"".join(self._http.send(event) or b"" for event in events)

    def receive(self, received: bytes) -> Reply | None:
        """Add received bytes (empty at the end of the connection); return a complete answer."""
        try:
            self._http.receive_data(received)
            while (event := self._http.next_event()) is not h11.NEED_DATA:
                match event:
                    case h11.Response():
                        self._start_reply(event)
                    case h11.Data():
                        self._add_content(event.data)
                    case h11.EndOfMessage():
                        if self._http.our_state is self._http.their_state is h11.DONE:
                            self._http.start_next_cycle()
                        return self._reply._replace(content=bytes(self._content))
        except h11.RemoteProtocolError:
            if received:
                raise self._other_program("does not answer in HTTP") from None
            raise ConnectionResetError("the connection was closed before an answer") from None
        # h11 waits for all headers, but another program may send only one line.
        has_headers = self._http.their_state is not h11.SEND_RESPONSE
        if not (has_headers or HTTP.startswith(self._http.trailing_data[0][: len(HTTP)])):
            raise self._other_program("does not answer in HTTP")
        return None

    def _start_reply(self, response: h11.Response) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in response.headers}
        if headers.get("content-encoding", "identity") != "identity":
            raise self._other_program("sends compressed answers")
        self._reply = Reply(response.status_code, headers, b"")
        self._content.clear()
        self._deadline = monotonic() + LONGEST_ANSWER

    def _add_content(self, part: bytes) -> None:
        self._content += part
        if len(self._content) > LARGEST_ANSWER:
            raise self._other_program(f"sends more than {LARGEST_ANSWER:,} bytes")
        if monotonic() > self._deadline:
            raise self._other_program(f"takes more than {LONGEST_ANSWER:.0f} s")

    def _other_program(self, what: str) -> OtherProgramError:
        return OtherProgramError(f"{self._address.url} {what}")


class Channel:
    """A blocking connection to a service, opened at the first request and after a failure."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._http = HttpState(address)

    @property
    def url(self) -> str:
        return self._address.url

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        self._address.check()  # at each request, because folders may have changed
        if self._socket is not None and select.select([self._socket], [], [], 0)[0]:
            self.close()  # the service has closed it
        try:
            if self._socket is None:
                try:
                    self._socket = self._address.open(TIMEOUT)
                except (OSError, ValueError) as fault:  # ValueError: a host that is no valid name
                    raise NotReachedError(str(fault)) from fault
                self._http = HttpState(self._address)
            request = self._http.request(method, target, headers, body)
            # The service may refuse a request before it has all of it; then the reason is read.
            with suppress(BrokenPipeError, ConnectionResetError):
                self._socket.sendall(request)
            while (reply := self._http.receive(self._socket.recv(PART))) is None:
                pass
        except BaseException as fault:
            self.close()  # otherwise the rest of this answer would be read as the next one
            if isinstance(fault, OSError):
                self._address = self._address.after_failure()
            raise
        if not self._http.is_ready:
            self.close()
        return reply

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

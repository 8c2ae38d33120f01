"""`fairlead serve`: uvicorn, with limits on connections and on the time for headers.

The first byte of a TCP connection shows whether it uses TLS or plain HTTP. The number of
connections is limited, in all and by peer. Connections are closed if they send nothing, send too
slowly, or do not read their answers.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import resource
import signal
import socket
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from threading import Thread
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fairlead.errors import InputError
from fairlead.service import tls_certificate
from fairlead.service.http.access import Peer
from fairlead.service.http.api import application
from fairlead.service.journal.event_journal import Journal
from fairlead.service.rate_limits import Limits
from fairlead.service.service import Service, Settings

LOG = logging.getLogger("fairlead.service")
HEADERS_SECONDS = 10.0  # for the first byte, a handshake, and all headers of a request
ANSWER_SECONDS = 20.0  # for the client to read an answer
CLOSE_SECONDS = 5  # for requests under way when the server stops
MOST_CONNECTIONS = 8000
SPARE_FILES = 128  # descriptors reserved for other files
OPEN_FILES = 2 * MOST_CONNECTIONS  # the wanted limit on descriptors
PAUSE = 0.2  # seconds to wait if no descriptor is left
COLLECT_SECONDS = 5.0  # between scans of new objects
YOUNG, NEVER = 10_000, 10**6  # thresholds of Python's collector for young and older objects
REPEAT_SECONDS = 60.0  # each kind of warning is logged once in this time
MOST_WARNINGS = 1000  # kinds of warnings that are remembered
TLS_HANDSHAKE = b"\x16"
TLS_BUFFER = 16 * 1024  # bytes of a connection; asyncio would allocate 256 KiB for each


class _ServedConnection(H11Protocol):
    """An HTTP connection that is closed if its client is too slow."""

    def __init__(self, peer: Peer, on_lost: Callable[[], None], **others: Any) -> None:
        super().__init__(**others)
        self.app_state = {**self.app_state, "peer": peer}
        self._on_lost = on_lost
        self._headers_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_headers_timer()

    def data_received(self, data: bytes) -> None:
        if not self._is_answering():
            self._start_headers_timer()
        super().data_received(data)
        if self._is_answering() and self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._start_answer_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_answer_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._answer_timer is not None and self._is_answering():
            self._answer_timer.cancel()
            self._answer_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._headers_timer, self._answer_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        self._on_lost()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_headers_timer(self) -> None:
        if self._headers_timer is None:
            self._headers_timer = self.loop.call_later(HEADERS_SECONDS, self.transport.abort)

    def _start_answer_timer(self) -> None:
        if self._answer_timer is None:
            self._answer_timer = self.loop.call_later(ANSWER_SECONDS, self._close_unread)

    def _close_unread(self) -> None:
        """Close the connection if its client has not read the whole answer."""
        self._answer_timer = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()


class HttpServer(uvicorn.Server):
    """Serves an ASGI application on listening sockets, and closes these at the end.

    `make_context` makes the TLS context at the first TLS connection; without it there is no TLS.
    `on_exit` is called when a signal stops the server.
    """

    def __init__(
        self,
        app: Any,
        listening: Sequence[socket.socket],
        make_context: Callable[[], ssl.SSLContext] | None = None,
        on_exit: Callable[[], None] = lambda: None,
    ) -> None:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # callers are known by tokens and accounts, not by addresses
            timeout_graceful_shutdown=CLOSE_SECONDS,
            lifespan="on",
        )
        super().__init__(config)
        SSLProtocol.max_size = TLS_BUFFER
        self._listening, self._make_context, self._on_exit = listening, make_context, on_exit
        self._tls: ssl.SSLContext | None = None
        self._open: Counter[str] = Counter()  # connections by peer
        self._limit = most_connections()
        self._tasks: set[asyncio.Task[None]] = set()

    def handle_exit(self, sig: int, _frame: FrameType | None) -> None:
        """Stop in good order; unlike uvicorn, do not raise the signal again at the end."""
        self._on_exit()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # Without sockets uvicorn accepts no connections: `_accept` does.
        await super().startup(sockets=sockets or [])
        for listening in self._listening:
            listening.setblocking(False)
            self._spawn(self._accept(listening))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, finish requests, and stop the application."""
        for task in list(self._tasks):
            task.cancel()
        await super().shutdown([*(sockets or []), *self._listening])

    async def _accept(self, listening: socket.socket) -> None:
        """Accept connections for ever; close those beyond the limits."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except ConnectionError:  # the client has gone
                continue
            except OSError as fault:  # no descriptors are left
                LOG.warning("a connection cannot be accepted", extra={"fault": str(fault)})
                await asyncio.sleep(PAUSE)
                continue
            try:
                peer = Peer(connection)
            except OSError:  # the client has gone
                connection.close()
                continue
            if self._open.total() >= self._limit or self._open[peer.name] >= self._limit // 2:
                LOG.warning("too many connections; more are closed", extra={"peer": peer.name})
                connection.close()
                continue
            self._open[peer.name] += 1
            self._spawn(self._serve_connection(connection, peer))

    async def _serve_connection(self, connection: socket.socket, peer: Peer) -> None:
        """Detect whether a connection begins with TLS, and pass it to the protocol."""
        is_open = True

        def on_lost() -> None:  # called by the protocol, by a failure below, or by both
            nonlocal is_open
            if is_open:
                is_open = False
                self._open[peer.name] -= 1
                if not self._open[peer.name]:
                    del self._open[peer.name]

        def protocol() -> _ServedConnection:
            state = {"server_state": self.server_state, "app_state": self.lifespan.state}
            return _ServedConnection(peer, on_lost, config=self.config, **state)

        try:
            context = None if peer.is_unix else await self._detect_tls(connection)
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol,
                connection,
                ssl=context,
                ssl_handshake_timeout=None if context is None else HEADERS_SECONDS,
            )
        except (OSError, TimeoutError):
            connection.close()
            on_lost()

    async def _detect_tls(self, connection: socket.socket) -> ssl.SSLContext | None:
        """Wait for the first byte of a connection; return the context if it begins TLS."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(connection, readable.set)
        try:
            async with asyncio.timeout(HEADERS_SECONDS):
                await readable.wait()
        finally:
            loop.remove_reader(connection)
        if self._make_context is None or connection.recv(1, socket.MSG_PEEK) != TLS_HANDSHAKE:
            return None
        if self._tls is None:
            self._tls = self._make_context()
        return self._tls

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def most_connections() -> int:
    """Raise the limit on descriptors; return the number of connections that it allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(min(MOST_CONNECTIONS, soft - SPARE_FILES), 1)


def serve(
    listening: Sequence[socket.socket],
    journal: Journal,
    settings: Settings,
    limits: Limits,
    version: str,
) -> None:
    """Serve until a signal; raise `InputError` if other machines could connect without a token."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(RepeatFilter())
    for sock in listening:
        host = sock.getsockname()[0] if sock.family != socket.AF_UNIX else "127.0.0.1"
        if not ipaddress.ip_address(host).is_loopback and not journal.tokens.all():
            raise InputError(
                "other machines would reach a service without tokens; make one first: "
                "fairlead token add NAME --role admin",
                f"--host {host}",
            )
    service = Service(journal, settings)
    app = application(service, limits, version=version)
    state = service.state_thread.state
    LOG.info(
        "serving %s on %s; journal %s: %d jobs, %d servers",
        state.scheduler.policy.name,
        " and ".join(_address(sock) for sock in listening),
        journal.path,
        len(state.jobs),
        len(state.servers),
        extra={"events_after_snapshot": service.state_thread.recovered},
    )
    Thread(target=_collect_seldom, name="collector", daemon=True).start()
    server = HttpServer(
        app,
        listening,
        lambda: tls_certificate.server_context(
            journal.tokens.service_secret(tls_certificate.KEY, tls_certificate.make)
        ),
        service.wake,
    )
    server.run()


def _address(sock: socket.socket) -> str:
    if sock.family == socket.AF_UNIX:
        return f"unix:{sock.getsockname()}"
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _collect_seldom() -> None:
    """Keep Python's garbage collector from scanning all jobs, which takes a second.

    Jobs have no reference cycles, so older objects are moved to the permanent generation every few
    seconds. At 2,000 starts a second, one scan of everything a minute delayed some answers by 0.4
    to 0.7 s.
    """
    gc.set_threshold(YOUNG, NEVER, NEVER)
    gc.freeze()
    gc.enable()
    while True:
        time.sleep(COLLECT_SECONDS)
        gc.collect()
        gc.freeze()


class RepeatFilter(logging.Filter):
    """Logs each kind of warning or error once a minute, with the number of suppressed ones."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[tuple[str, str], float] = {}
        self._suppressed: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        # The kind of an error is its whole text; the kind of a warning, the text without arguments.
        is_error = record.levelno >= logging.ERROR
        kind = record.name, record.getMessage() if is_error else str(record.msg)
        now = time.monotonic()
        if now - self._shown.get(kind, -REPEAT_SECONDS) < REPEAT_SECONDS:
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return False
        if len(self._shown) >= MOST_WARNINGS:
            self._shown.clear()
            self._suppressed.clear()
        self._shown[kind] = now
        if suppressed := self._suppressed.pop(kind, 0):
            record.msg = f"{record.getMessage()} ({suppressed:,} more since it was last shown)"
            record.args = ()
        return True

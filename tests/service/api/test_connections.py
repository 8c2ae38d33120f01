"""The HTTP server: connections that are slow, idle, reset or too many, and its end."""

from __future__ import annotations

import signal
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest.mock import Mock

import httpx
import psutil
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from fairlead.service import tls_certificate
from fairlead.service.client.addresses import (
    listen_tcp,
)
from fairlead.service.http import http_server as server_module
from live_cluster import until


@contextmanager
def http_server(bound: socket.socket | None = None, **settings: float) -> Iterator[int]:
    """Run the HTTP server in a thread, with answers of 1 MiB; yield its port.

    A limit that is not among the settings is longer than the test.
    """
    settings = {"HEADERS_SECONDS": 600.0, "ANSWER_SECONDS": 600.0} | settings
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("x" * 2**20))])
    with (
        bound or socket.create_server(("127.0.0.1", 0)) as listening,
        pytest.MonkeyPatch.context() as patched,
    ):
        for name, value in settings.items():
            patched.setattr(server_module, name, value)
        server = server_module.HttpServer(
            app, [listening], lambda: tls_certificate.server_context(tls_certificate.make())
        )
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            thread.join()


@pytest.mark.parametrize(
    ("signals", "is_forced"),
    [
        ([signal.SIGINT], False),
        ([signal.SIGTERM, signal.SIGTERM], False),
        ([signal.SIGTERM, signal.SIGINT], True),
    ],
)
def test_only_a_second_ctrl_c_leaves_requests_unanswered(
    signals: list[signal.Signals], is_forced: bool
) -> None:
    on_exit = Mock()
    server = server_module.HttpServer(None, [], on_exit=on_exit)
    for number in signals:
        server.handle_exit(number, None)
    assert (server.should_exit, server.force_exit) == (True, is_forced)
    assert on_exit.call_count == len(signals)


def connected(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.settimeout(60)
    return made


def test_an_answer_that_is_not_read_is_given_up() -> None:
    with http_server(ANSWER_SECONDS=0.3) as port, socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        lazy.connect(("127.0.0.1", port))
        lazy.sendall(20 * b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        row = f":{port:04X} 0100007F:{lazy.getsockname()[1]:04X} 01"  # 01: established
        until(lambda: row not in Path("/proc/net/tcp").read_text())


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nA: "])
def test_slow_headers_end_the_connection(sent: bytes) -> None:
    with http_server(HEADERS_SECONDS=0.3) as port, connected(port) as slow:
        slow.sendall(sent)
        assert slow.recv(1) == b""


def test_a_full_service_closes_connections_of_one_peer() -> None:
    with http_server(MOST_CONNECTIONS=8) as port:
        opened = [connected(port) for _ in range(5)]
        assert opened.pop().recv(1) == b""
        opened[0].sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert opened[0].recv(12) == b"HTTP/1.1 200"
        for each in opened:
            each.close()

        def answers() -> bool:
            with suppress(ConnectionError), connected(port) as another:
                another.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                return another.recv(12) == b"HTTP/1.1 200"
            return False

        until(answers)


def test_half_a_handshake_takes_little_memory() -> None:
    heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    greeting = ssl.create_default_context().wrap_bio(heard, said, server_hostname="x")
    with pytest.raises(ssl.SSLWantReadError):
        greeting.do_handshake()
    hello = said.read()  # the first message of a client
    sizes = []
    with http_server() as port, ExitStack() as opened:
        for _ in range(100):
            each = opened.enter_context(connected(port))
            each.sendall(hello)
            assert each.recv(1) == b"\x16"  # an answer to the first message
            sizes.append(psutil.Process().memory_info().rss)
    assert sizes[-1] - sizes[0] < len(sizes) * 128 * 1024  # the first one loads OpenSSL


def test_reset_connections_delay_no_other() -> None:
    with listen_tcp("127.0.0.1", 0) as listening:
        for _ in range(100):  # these would take 20 s if each made a pause
            with socket.create_connection(listening.getsockname()) as reset:
                reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with http_server(listening) as port:
            assert httpx.get(f"http://127.0.0.1:{port}/", timeout=15).status_code == 200

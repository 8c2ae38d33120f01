"""The service identifies its callers, and callers the service, before any other message."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import httpx
import psutil
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from asked_service import Asked, served
from fairlead.errors import InputError
from fairlead.service import tls_certificate
from fairlead.service.client import addresses
from fairlead.service.client.addresses import (
    Address,
    check_socket,
    find_socket,
    listen_tcp,
    listen_unix,
)
from fairlead.service.client.exchange import Channel, NotReachedError
from fairlead.service.http.access import Access, Peer, account_name
from fairlead.service.http.http_server import HttpServer
from fairlead.service.journal.tokens import Token
from fairlead.service.rate_limits import Limits
from live_cluster import NOBODY, as_ordinary_user

IS_ROOT = os.geteuid() == 0
CONNECT = """
import socket, sys
kind, place = sys.argv[1:3]
with socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as sock:
    sock.connect(place if kind == "unix" else ("127.0.0.1", int(place)))
    sock.sendall(b"x")
    sock.recv(1)
"""


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_the_account_at_the_other_end_is_known(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run" / "s"
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    listening = listen_unix(path) if kind == "unix" else listen_tcp("127.0.0.1", 0)
    place = str(path if kind == "unix" else listening.getsockname()[1])
    before, uid = (as_ordinary_user(), NOBODY) if IS_ROOT else ([], os.geteuid())
    words = [*before, sys.executable, "-c", CONNECT, kind, place]
    with listening, subprocess.Popen(words) as process:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1)
            assert Peer(connection).uid == uid
            connection.sendall(b"y")
        assert process.wait(30) == 0


def circle(folder: Path) -> None:
    (folder / "link").unlink()
    (folder / "link").symlink_to("link")


def give_away(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


ROOT_ONLY = pytest.mark.skipif(not IS_ROOT, reason="only root gives files away")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda folder: (folder / "above" / "run").chmod(0o777), id="open folder"),
        pytest.param(lambda folder: (folder / "above").chmod(0o777), id="open folder above"),
        pytest.param(lambda folder: give_away(folder / "above"), id="folder", marks=ROOT_ONLY),
        pytest.param(lambda folder: give_away(folder / "link"), id="link", marks=ROOT_ONLY),
        pytest.param(circle, id="links in a circle"),
    ],
)
def test_a_socket_that_others_can_replace_is_refused(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """A client looks at each request, also on the way through links."""
    (tmp_path / "above" / "run").mkdir(parents=True)
    (tmp_path / "link").symlink_to("above")
    path = tmp_path / "link" / "run" / "s"
    assert check_socket(path) == tmp_path / "above" / "run" / "s"
    with listen_unix(path):
        connection = Channel(Address.of(f"unix:{path}", ""))
        change(tmp_path)
        with pytest.raises(InputError, match="as it can change"):
            asyncio.run(connection.ask("GET", "/", {}, b""))
    with pytest.raises(InputError, match="as it can change"):
        check_socket(path)


def test_a_folder_of_another_account_hides_no_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, own = tmp_path / "system", tmp_path / "own" / "fairlead.sock"
    system.mkdir()
    monkeypatch.setattr(addresses, "SYSTEM_FOLDER", system)
    monkeypatch.setattr(addresses, "own_socket", lambda: own)
    own.parent.mkdir()
    (system / "fairlead.sock").touch()
    assert find_socket() == own
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_123)  # so another account owns the folder
    assert find_socket() == system / "fairlead.sock"
    (system / "fairlead.sock").unlink()
    assert find_socket() == own


@pytest.mark.parametrize(
    "server",
    [
        "http://[::1",
        "http://a:99999",
        "http://a:x",
        "http://a:0",
        "http://",
        "http://a..b",
        "ftp://a",
    ],
)
def test_malformed_addresses_are_refused(server: str) -> None:
    with pytest.raises(InputError):
        Address.of(server, "")


@pytest.mark.parametrize("token", ["two words", "two\nlines", "tök", f"fairlead_{'x' * 43}"])
def test_malformed_tokens_are_refused(token: str) -> None:
    with pytest.raises(InputError):
        Address.of("http://a", token)
    assert Address.of("http://a", " tok\n").token == "tok", "blanks around a token are no fault"


def test_one_service_has_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s"
    with listen_unix(path), pytest.raises(InputError, match="another service"):
        listen_unix(path)
    listen_unix(path).close()  # the file stays, but nothing listens on it
    path.parent.chmod(0o777)
    with pytest.raises(InputError, match="as it can change"):
        listen_unix(path)


def test_an_impostor_is_shown_no_token() -> None:
    ours, theirs = tls_certificate.make(), tls_certificate.make()
    token = f"fairlead_{'x' * 43}.{tls_certificate.digest(ours)}"
    heard: list[bytes] = []
    context = tls_certificate.server_context(theirs)

    def listen(listening: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listening.accept()
            with suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
                heard.append(secured.recv(1000))

    with listen_tcp("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=listen, args=(listening,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        address = Address.of(url, token)
        assert (address.is_verified, Address.of(url, "").is_verified) == (True, False)
        for _ in range(2):
            with pytest.raises(NotReachedError, match="certificate is not that of the service"):
                asyncio.run(Channel(address).ask("GET", "/v1/jobs", {}, b""))
        thread.join(10)
    assert b"".join(heard) == b""


@contextmanager
def serving(listening: socket.socket) -> Iterator[int]:
    """Run the HTTP server in a thread; yield its port."""
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("x"))])
    server = HttpServer(
        app, [listening], lambda: tls_certificate.server_context(tls_certificate.make())
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


def test_half_a_handshake_takes_little_memory() -> None:
    heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    greeting = ssl.create_default_context().wrap_bio(heard, said, server_hostname="x")
    with pytest.raises(ssl.SSLWantReadError):
        greeting.do_handshake()
    hello = said.read()  # the first message of a client
    sizes = []
    with listen_tcp("127.0.0.1", 0) as listening, serving(listening) as port, ExitStack() as opened:
        for _ in range(100):
            each = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            each.sendall(hello)
            assert each.recv(1) == b"\x16"  # an answer to the first message
            sizes.append(psutil.Process().memory_info().rss)
    assert sizes[-1] - sizes[0] < len(sizes) * 128 * 1024  # the first one loads OpenSSL


def test_reset_connections_delay_no_other() -> None:
    with listen_tcp("127.0.0.1", 0) as listening:
        for _ in range(100):  # these would take 20 s if each made a pause
            with socket.create_connection(listening.getsockname()) as reset:
                reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with serving(listening) as port:
            assert httpx.get(f"http://127.0.0.1:{port}/", timeout=5).status_code == 200


@served
async def test_the_rights_of_local_accounts(ask: Asked) -> None:
    """Root and the service's account are admins; others are users, only on the Unix socket."""

    def caller(uid: int | None, *, is_unix: bool) -> Token | int:
        peer = SimpleNamespace(is_unix=is_unix, uid=uid)
        scope = {"headers": [(b"host", b"localhost")], "state": {"peer": peer}}
        try:
            return Access(ask.service, Limits()).identify(scope)
        except HTTPException as refusal:
            return refusal.status_code

    for uid in (0, os.geteuid()):
        admin = Token(f"uid {uid}", "admin", "")
        assert caller(uid, is_unix=True) == caller(uid, is_unix=False) == admin
    user = Token(f"uid {NOBODY}", "user", account_name(NOBODY))
    assert caller(NOBODY, is_unix=True) == user
    assert caller(NOBODY, is_unix=False) == 401
    assert caller(None, is_unix=True) == 401
    ask.service.journal.tokens.add(Token("boss", "admin", ""), "secret")
    assert caller(0, is_unix=False) == 401, "once there is a token, TCP needs one"
    assert caller(NOBODY, is_unix=True) == user

"""The service identifies its callers, and callers the service, before any other message."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import httpx
import pytest
from starlette.exceptions import HTTPException

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
from fairlead.service.journal.tokens import Token
from fairlead.service.rate_limits import Limits
from live_cluster import NOBODY, Cluster, as_ordinary_user

IS_ROOT = os.geteuid() == 0
CONNECT = """
import socket, sys
kind, place = sys.argv[1:3]
with socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as sock:
    sock.connect(place if kind == "unix" else ("127.0.0.1", int(place)))
    sock.sendall(b"x")
    sock.recv(1)
"""


@pytest.fixture(scope="module")
def service() -> Iterator[Cluster]:
    with TemporaryDirectory() as folder, closing(Cluster(Path(folder))) as cluster:
        cluster.start_service()
        yield cluster


def accounts() -> list[tuple[list[str], int]]:
    """Words in front of a command that run it under an account, and the account's number."""
    own: list[tuple[list[str], int]] = [([], os.geteuid())]
    return [*own, (as_ordinary_user(), NOBODY)] if IS_ROOT else own


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_the_account_at_the_other_end_is_known(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "run"
    if kind == "unix":
        for parent in (tmp_path, *tmp_path.parents[:2]):
            parent.chmod(0o755)
        listening = listen_unix(folder / "s")
        place = str(folder / "s")
    else:
        listening = listen_tcp("127.0.0.1", 0)
        place = str(listening.getsockname()[1])
    with listening:
        for before, uid in accounts():
            words = [*before, sys.executable, "-c", CONNECT, kind, place]
            with subprocess.Popen(words) as process:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1)
                    assert Peer(connection).uid == uid
                    connection.sendall(b"y")
                assert process.wait(30) == 0


def test_a_socket_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    check_socket(folder / "s")
    folder.chmod(0o777)
    with pytest.raises(InputError, match=f"can change {folder}"):
        check_socket(folder / "s")
    with pytest.raises(InputError, match=f"can change {folder}"):
        listen_unix(folder / "s")


def test_no_folder_above_a_socket_is_another_account_s(tmp_path: Path) -> None:
    above, inner = tmp_path / "above", tmp_path / "above" / "inner"
    (inner / "run").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(inner)
    for change in (partial(above.chmod, 0o777), partial(os.chown, above, NOBODY, NOBODY)):
        if change.func is os.chown and not IS_ROOT:
            continue
        check_socket(link / "run" / "s")
        change()
        with pytest.raises(InputError, match=f"can change {above}"):
            check_socket(link / "run" / "s")
        above.chmod(0o755)


@pytest.mark.skipif(not IS_ROOT, reason="only root gives a link away")
def test_a_link_of_another_account_leads_to_no_socket(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / "real").mkdir(mode=0o755)
    link = tmp_path / "link"
    link.symlink_to("real")
    assert check_socket(link / "s") == tmp_path / "real" / "s"
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(InputError, match=f"can change {link}"):
        check_socket(link / "s")


@pytest.mark.parametrize("path", ["/", "", "no/such/place"])
def test_odd_paths_of_sockets_are_no_faults(path: str) -> None:
    connection = Channel(Address.of(f"unix:{path}", ""))
    with pytest.raises(NotReachedError):
        asyncio.run(connection.ask("GET", "/", {}, b""))


def test_links_in_a_circle_lead_to_no_socket(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InputError):
        check_socket(tmp_path / "a" / "s")


def test_a_client_looks_at_the_socket_s_folders_each_time(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s"
    with listen_unix(path):
        connection = Channel(Address.of(f"unix:{path}", ""))
        path.parent.chmod(0o777)
        with pytest.raises(InputError, match="can change"):
            asyncio.run(connection.ask("GET", "/", {}, b""))


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
    ("server", "token"),
    [
        ("http://[::1", ""),
        ("http://a:99999", ""),
        ("http://a:x", ""),
        ("http://a:0", ""),
        ("http://", ""),
        ("http://a..b", ""),
        ("ftp://a", ""),
        ("http://a", "two words"),
        ("http://a", "two\nlines"),
        ("http://a", "tök"),
        ("http://a", f"fairlead_{'x' * 43}"),
    ],
)
def test_malformed_addresses_and_tokens_are_refused(server: str, token: str) -> None:
    with pytest.raises(InputError):
        Address.of(server, token)
    assert Address.of("http://a", " tok\n").token == "tok", "blanks around a token are no fault"


def test_one_service_has_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s"
    with listen_unix(path), pytest.raises(InputError, match="another service"):
        listen_unix(path)
    listen_unix(tmp_path / "run" / "s").close()  # the file stays, but nothing listens on it


def test_an_impostor_is_shown_no_token() -> None:
    ours, theirs = tls_certificate.make(), tls_certificate.make()
    token = f"fairlead_{'x' * 43}.{tls_certificate.digest(ours)}"
    heard: list[bytes] = []
    context = tls_certificate.server_context(theirs)

    def listen(listening: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listening.accept()
            try:
                with context.wrap_socket(connection, server_side=True) as secured:
                    heard.append(secured.recv(1000))
            except OSError:
                pass

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


def test_half_a_handshake_takes_little_memory(service: Cluster) -> None:
    memory = Path(f"/proc/{service.processes['service'].pid}/statm")
    hello = client_hello()
    before = int(memory.read_text().split()[1])
    opened = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(500)]
    for each in opened:
        each.sendall(hello)
    for each in opened:
        assert each.recv(1) == b"\x16"  # an answer to the client's first message
    pages = int(memory.read_text().split()[1]) - before
    for each in opened:
        each.close()
    assert pages * resource.getpagesize() < 500 * 128 * 1024


def client_hello() -> bytes:
    """Return the first message of a client in a TLS handshake."""
    heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    greeting = context.wrap_bio(heard, said, server_hostname="x")
    with pytest.raises(ssl.SSLWantReadError):
        greeting.do_handshake()
    return said.read()


def test_reset_connections_delay_no_other(service: Cluster) -> None:
    service.processes["service"].send_signal(signal.SIGSTOP)
    for _ in range(300):  # these would take 60 s if each made a pause
        with socket.create_connection(("127.0.0.1", service.port)) as reset:
            reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    service.processes["service"].send_signal(signal.SIGCONT)
    assert httpx.get(f"{service.url}/healthz", timeout=30).status_code == 200


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

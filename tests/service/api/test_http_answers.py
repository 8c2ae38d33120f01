"""Answers over HTTP: whole, in parts, broken, too large, endless, or of another program."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from fairlead.service.client import (
    AsyncClient,
    Client,
    NoServiceError,
    RefusedError,
    calls,
    connections,
    exchange,
    plain_client,
)
from fairlead.service.client.addresses import Address
from fairlead.service.client.connections import Connections
from fairlead.service.client.exchange import Channel, NotReachedError, OtherProgramError, Reply
from fairlead.service.client.plain_client import PlainClient, Requests
from fairlead.service.engines import worker_loop
from fairlead.service.engines.worker_loop import Link
from fairlead.service.messages import UnavailableError
from live_cluster import until

Ask = Callable[[str, str, Mapping[str, str], bytes], Reply]
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[12]"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Program:
    """A program on a port of this machine, with its received requests and connections."""

    def __init__(self, answers: tuple[bytes, ...], is_kept: bool) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.closed = 0  # number of connections that this program has closed
        self._left, self._is_kept = list(answers), is_kept

    def serve(self, listening: socket.socket) -> None:
        """Give the answers, and close the connection after each unless connections are kept."""
        while self._left:
            accepted, _ = listening.accept()
            self.connections += 1
            with accepted:
                while self._left and (request := accepted.recv(2**20)):
                    self.requests.append(request)
                    accepted.sendall(self._left.pop(0))
                    if not self._is_kept:
                        break
            self.closed += 1


@contextmanager
def answering(*answers: bytes, is_kept: bool = False) -> Iterator[tuple[str, Program]]:
    program = Program(answers, is_kept)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=program.serve, args=(listening,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/base/", program
        thread.join(0.01)


@pytest.fixture(params=["blocking", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Ask]]:
    """Connect by each of the two exchanges, which share `HttpState`."""
    with asyncio.Runner() as runner, ExitStack() as opened:

        def connected(url: str) -> Ask:
            address = Address.of(url, "")
            used = Connections(address) if request.param == "asyncio" else Channel(address)
            opened.callback(used.close)

            def ask(*asked: Any) -> Reply:
                runner.run(asyncio.sleep(0.01))  # so that the client notices a closed connection
                return runner.run(used.ask(*asked))

            return ask

        yield connected


def get(ask: Ask) -> Reply:
    return ask("GET", "/v1/users", {}, b"")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE,
        CHUNKED + b"1\r\n[\r\n3;x=y\r\n12]\r\n0\r\nTrailer: x\r\n\r\n",
    ],
)
def test_a_request_is_sent_and_its_answer_read(
    connect: Callable[[str], Ask], answer: bytes
) -> None:
    with answering(answer) as (url, program):
        found = connect(url)("POST", "/v1/jobs", {"Idempotency-Key": "k"}, b"{}")
    assert (found.status, found.content) == (200, b"[12]")
    (request,) = program.requests
    assert request.startswith(b"POST /base/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nAccept-Encoding: identity\r\nContent-Length: 2\r\n" in request
    assert request.endswith(b"\r\nIdempotency-Key: k\r\n\r\n{}")


@pytest.mark.parametrize(
    ("answer", "is_kept", "opened"),
    [
        (WHOLE, True, 1),
        (WHOLE, False, 2),
        (WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), True, 2),
        (WHOLE + WHOLE, True, 2),  # further bytes are not taken for another answer
    ],
)
def test_a_connection_is_kept_while_it_is_whole(
    connect: Callable[[str], Ask], answer: bytes, is_kept: bool, opened: int
) -> None:
    with answering(answer, answer, is_kept=is_kept) as (url, program):
        ask = connect(url)
        assert get(ask).content == b"[12]"
        until(lambda: is_kept or program.closed == 1)
        assert get(ask).content == b"[12]"
    assert (program.connections, len(program.requests)) == (opened, 2)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        *((broken, ConnectionResetError) for broken in (b"", WHOLE[:25], WHOLE[:-3], CHUNKED)),
        (b"220 mail.example.org ESMTP\r\n", OtherProgramError),
        (b"SSH-2.0-x\r\n\r\n", OtherProgramError),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 2**14 + b"\r\n", OtherProgramError),
        (WHOLE.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"), OtherProgramError),
    ],
)
def test_a_broken_or_foreign_answer_is_refused(
    connect: Callable[[str], Ask], answer: bytes, fault: type[Exception]
) -> None:
    with answering(answer, WHOLE) as (url, _):
        ask = connect(url)
        with pytest.raises(fault):  # a command sends the request again if the connection was lost
            get(ask)
        assert get(ask).content == b"[12]"


@pytest.mark.parametrize(("name", "limit"), [("LARGEST_ANSWER", 1000), ("LONGEST_ANSWER", -1.0)])
def test_an_answer_has_a_largest_size_and_time(
    connect: Callable[[str], Ask], monkeypatch: pytest.MonkeyPatch, name: str, limit: float
) -> None:
    monkeypatch.setattr(exchange, name, limit)
    with (
        answering(CHUNKED + b"3e9\r\n" + b"x" * 1001) as (url, _),
        pytest.raises(OtherProgramError, match=r"sends more than|takes more than"),
    ):
        get(connect(url))


@pytest.mark.parametrize("url", ["http://127.0.0.1:{}", "unix:/no/s", "unix:/"])
def test_no_service_is_no_connection(connect: Callable[[str], Ask], url: str) -> None:
    with socket.socket() as bound:  # to a port where nothing listens, so nothing else takes it
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(NotReachedError):
            get(connect(url.format(bound.getsockname()[1])))


def test_both_clients_check_answers() -> None:
    async def awaited(url: str) -> object:
        async with AsyncClient(url, "") as client:
            return await client.users()

    def blocking(url: str) -> object:
        with Client(url, "") as client:
            return client.users()

    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    for ask in (blocking, lambda url: asyncio.run(awaited(url))):
        with answering(head % 13 + b'{"users": []}', head % 15 + b'{"users": [{}]}') as (url, _):
            assert ask(url) == []
            with pytest.raises(RefusedError):
                ask(url)


def test_all_pages_of_jobs_are_read() -> None:
    pages = (
        b'{"jobs": [{"state": "running"}, {"state": "failed"}], "next": "5"}',
        b'{"jobs": [{"state": "pending"}], "next": null}',
    )
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    with answering(*(head % len(page) + page for page in pages)) as (url, program):
        jobs = PlainClient(url, "").jobs(None, True)
    assert [job["state"] for job in jobs] == ["running", "pending", "failed"]
    assert b"GET /base/v1/jobs?all=false&beyond=5 " in program.requests[1]


def test_waiting_goes_on_while_the_service_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service is away from second 1 to 60, by a clock of the test."""
    now, reports = 0.0, list[str]()

    async def ask(*_: object) -> Reply:
        nonlocal now
        if 1.0 <= now < 60.0:
            raise NotReachedError
        now += 1.0
        return Reply(200, {}, b'{"state": "%s"}' % (b"running" if now < 60.0 else b"failed"))

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(plain_client, "time", SimpleNamespace(monotonic=lambda: now))
    requests = Requests(Mock(url="http://restarted", ask=ask), sleep, reports.append)
    assert asyncio.run(requests.wait("1", None))["state"] == "failed"
    assert len(reports) == 1
    now = 1.0
    with pytest.raises(NoServiceError):  # other requests are repeated for a few seconds
        asyncio.run(requests.ask(calls.job("1")))
    assert plain_client.PATIENCE <= now < 20.0


@pytest.mark.parametrize("is_endless", [True, False])
def test_a_worker_gives_up_an_answer(monkeypatch: pytest.MonkeyPatch, is_endless: bool) -> None:
    """An answer that goes on for ever, and one that never begins."""
    late, timeout = (worker_loop, "LONGEST_EXCHANGE") if is_endless else (connections, "TIMEOUT")
    monkeypatch.setattr(late, timeout, 0.05)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED if is_endless else b"")
        while True:
            writer.write(b"1\r\n \r\n" if is_endless else b"")
            await asyncio.sleep(0.001)

    async def sync() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await Link(Connections(Address.of(f"http://127.0.0.1:{port}", ""))).sync({})

    with pytest.raises(UnavailableError, match="no answer from"):
        asyncio.run(sync())


@pytest.mark.parametrize("page", [b"<html>", b"[" * 10**5])
def test_a_page_is_no_answer_of_a_service(page: bytes) -> None:
    exchange = Mock(url="http://a", ask=AsyncMock(return_value=Reply(200, {}, page)))
    with pytest.raises(UnavailableError, match="does not answer as a fairlead service"):
        asyncio.run(Link(exchange).sync({}))

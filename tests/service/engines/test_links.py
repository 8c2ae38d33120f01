"""Answers of a program that is no service: large, compressed, cut, or without an end."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable

import pytest

from fairlead.service.client import connections, exchange
from fairlead.service.client.addresses import Address
from fairlead.service.client.connections import Connections
from fairlead.service.engines import links
from fairlead.service.engines.links import OverHttp
from fairlead.service.messages import UnavailableError

Answer = Callable[[], AsyncIterator[bytes]]
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def parts(*these: bytes) -> AsyncIterator[bytes]:
    for part in these:
        yield part


def sized(content: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n") -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(content) + content


class Program:
    """A program that answers each request on a port of this machine, and counts connections."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[bytes] = []
        self.connections = 0
        self._answer = answer

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split()[0])
                self.asked.append(head + await reader.readexactly(length))
                async for part in self._answer():
                    writer.write(part)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def ask(answer: Answer, times: int = 1) -> tuple[list[object], Program]:
    """Return what requests to a program return, and the program."""
    program = Program(answer)

    async def whole() -> list[object]:
        server = await asyncio.start_server(program.talk, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        link = OverHttp(Connections(Address.of(f"http://127.0.0.1:{port}", "")))
        asked = {"session": "s", "wait": 0.0}
        try:
            return [await link.sync(asked) for _ in range(times)]
        finally:
            server.close()

    return asyncio.run(whole()), program


def test_a_connection_carries_several_requests() -> None:
    answers, program = ask(lambda: parts(sized(b'{"a": 1}')), times=3)
    assert answers == [{"a": 1}] * 3
    assert program.connections == 1
    assert program.asked[0].startswith(b"POST /v1/workers/sync HTTP/1.1\r\n")
    assert program.asked[0].endswith(b'{"session": "s", "wait": 0.0}')


def test_a_closed_connection_is_opened_again() -> None:
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
    answers, program = ask(lambda: parts(sized(b"[]", answer)), times=2)
    assert answers == [[], []]
    assert program.connections == 2


def test_bytes_after_an_answer_are_no_other_answer() -> None:
    answers, program = ask(lambda: parts(sized(b"[1]") + sized(b"[2]")), times=2)
    assert answers == [[1], [1]]
    assert program.connections == 2


def test_an_answer_of_chunks_after_an_interim_one_is_read() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    answers, _ = ask(lambda: parts(interim, CHUNKED, b"2\r\n[7\r\n", b"1\r\n]\r\n0\r\n\r\n"))
    assert answers == [[7]]


def test_an_answer_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LARGEST_ANSWER", 1000)

    async def endless() -> AsyncIterator[bytes]:
        yield CHUNKED
        while True:
            yield b"64\r\n" + b"x" * 100 + b"\r\n"

    with pytest.raises(UnavailableError, match="more than 1,000 bytes"):
        ask(endless)
    assert ask(lambda: parts(sized(b'"' + b"x" * 998 + b'"')))[0] == ["x" * 998]


def test_a_compressed_answer_is_refused() -> None:
    packed = gzip.compress(b"[" + b" " * 10**6 + b"]")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
    with pytest.raises(UnavailableError, match="compressed"):
        ask(lambda: parts(sized(packed, head)))
    _, program = ask(lambda: parts(sized(b"[]")))
    assert b"\r\nAccept-Encoding: identity\r\n" in program.asked[0]


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\n: \r\n\r\n", CHUNKED],
    ids=["nothing", "no HTTP", "a bad header", "cut"],
)
def test_no_answer_of_another_program_is_believed(answer: bytes) -> None:
    async def once() -> AsyncIterator[bytes]:
        yield answer
        raise ConnectionResetError

    with pytest.raises(UnavailableError):
        ask(once, times=2)


@pytest.mark.parametrize("status", [200, 401, 500])
def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setattr(links, "LONGEST_EXCHANGE", 0.05)

    async def slow() -> AsyncIterator[bytes]:
        yield CHUNKED.replace(b"200 OK", b"%d x" % status)
        while True:
            yield b"1\r\n \r\n"
            await asyncio.sleep(0.001)

    with pytest.raises(UnavailableError):
        ask(slow)


def test_an_answer_that_does_not_begin_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TIMEOUT", 0.05)

    async def never() -> AsyncIterator[bytes]:
        await asyncio.sleep(60)
        yield b""

    with pytest.raises(UnavailableError, match="no answer from"):
        ask(never)

"""Answers over a connection: whole, in parts, broken, too large, or of another program."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fairlead.service.client import exchange
from fairlead.service.client.addresses import Address
from fairlead.service.client.exchange import Channel, NotReachedError, OtherProgramError, Reply


@contextmanager
def answering(*answers: bytes, is_kept: bool = False) -> Iterator[tuple[Channel, list[bytes]]]:
    """Yield a connection to a program that gives these answers, and the requests it heard.

    Each answer ends its connection, unless connections are kept.
    """
    heard: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        left = list(answers)
        while left:
            accepted, _ = listening.accept()
            with accepted:
                while left and (asked := accepted.recv(2**20)):
                    heard.append(asked)
                    accepted.sendall(left.pop(0))
                    if not is_kept:
                        break

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        connection = Channel(Address(f"http://127.0.0.1:{listening.getsockname()[1]}/base/"))
        yield connection, heard
        connection.close()
        thread.join(10)


def asked(connection: Channel) -> Reply:
    return connection.ask("GET", "/v1/users", {}, b"")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[12]rest",
        b"HTTP/1.0 200 OK\r\n\r\n[12]",
        b"HTTP/1.1 200\nCONTENT-LENGTH:4\n\n[12]",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[12]",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1\r\n[\r\n3;x=y\r\n12]\r\n0\r\nTrailer: x\r\n\r\n",
    ],
)
def test_an_answer_is_read(answer: bytes) -> None:
    with answering(answer) as (connection, heard):
        found = asked(connection)
    assert (found.status, found.content) == (200, b"[12]")
    assert heard[0].startswith(b"GET /base/v1/users HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nAccept-Encoding: identity\r\n" in heard[0]


def test_a_request_carries_its_headers_and_its_body() -> None:
    with answering(b"HTTP/1.1 204 No Content\r\n\r\n") as (connection, heard):
        found = connection.ask("POST", "/v1/jobs", {"Idempotency-Key": "k"}, b"{}")
    assert (found.status, found.content) == (204, b"")
    assert b"\r\nContent-Length: 2\r\n" in heard[0]
    assert heard[0].endswith(b"\r\nIdempotency-Key: k\r\n\r\n{}")


def test_a_connection_is_kept_and_opened_again() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    for is_kept in (True, False):
        with answering(whole, whole, is_kept=is_kept) as (connection, heard):
            first = asked(connection) and connection._socket
            assert asked(connection).content == b"{}"
            assert (connection._socket is first) is is_kept
            assert len(heard) == 2
    ending = whole.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with answering(ending) as (connection, _):
        asked(connection)
        assert connection._socket is None


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n[1",
        b"HTTP/1.1 200 OK\r\nContent-",
    ],
)
def test_an_answer_that_breaks_off_is_none(answer: bytes) -> None:
    with answering(answer) as (connection, _):
        with pytest.raises(ConnectionResetError):  # a command asks again
            asked(connection)
        assert connection._socket is None


@pytest.mark.parametrize(
    "answer",
    [
        b"220 mail.example.org ESMTP\r\n",
        b"h",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n[12]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n[123456789]",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n[12]\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * 2**16 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 2**14 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_an_answer_of_another_program_is_refused(answer: bytes) -> None:
    with answering(answer) as (connection, _), pytest.raises(OtherProgramError):
        asked(connection)


@pytest.mark.parametrize(("name", "limit"), [("LARGEST_ANSWER", 1000), ("LONGEST_ANSWER", -1.0)])
@pytest.mark.parametrize("head", ["", "Content-Length: 1001\r\n", "Transfer-Encoding: chunked\r\n"])
def test_an_answer_is_read_up_to_a_size_and_a_time(
    monkeypatch: pytest.MonkeyPatch, name: str, limit: float, head: str
) -> None:
    monkeypatch.setattr(exchange, name, limit)
    size = "3e9\r\n" if "chunked" in head else ""
    answer = f"HTTP/1.1 200 OK\r\n{head}\r\n{size}{'x' * 1001}".encode()
    with answering(answer) as (connection, _), pytest.raises(OtherProgramError):
        asked(connection)


@pytest.mark.parametrize("make", [lambda port: f"http://127.0.0.1:{port}", lambda _: "unix:/no/s"])
def test_no_service_is_no_connection(make: Callable[[int], str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(NotReachedError):
        asked(Channel(Address.of(make(port), "")))

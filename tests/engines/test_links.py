"""Answers of a program that is no service: large, compressed, or without an end."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from fairlead.engines import links
from fairlead.engines.links import OverHttp
from fairlead.service import exchange
from fairlead.service.client import AsyncClient, NoServiceError
from fairlead.service.messages import UnavailableError

Answer = Callable[[httpx.Request], httpx.Response]


def ask(answer: Answer) -> object:
    async def whole() -> object:
        transport = httpx.MockTransport(answer)
        async with httpx.AsyncClient(transport=transport, base_url="http://false") as client:
            return await OverHttp(client).sync({"session": "s", "wait": 0.0})

    return asyncio.run(whole())


def test_an_answer_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "LARGEST_ANSWER", 1000)
    parts = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal parts
        while True:
            parts += 1
            yield b"x" * 100

    with pytest.raises(UnavailableError):
        ask(lambda _: httpx.Response(200, content=endless()))
    assert parts == 11
    assert ask(lambda _: httpx.Response(200, content=b'"' + b"x" * 998 + b'"')) == "x" * 998


def test_a_compressed_answer_is_refused() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["Accept-Encoding"])
        packed = gzip.compress(b"[" + b" " * 10**6 + b"]")
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=packed)

    with pytest.raises(UnavailableError):
        ask(answer)
    assert asked == ["identity"]


@pytest.mark.parametrize(("name", "limit"), [("LARGEST_ANSWER", 1000), ("LONGEST_ANSWER", -1.0)])
def test_an_async_client_gives_up_an_answer(
    monkeypatch: pytest.MonkeyPatch, name: str, limit: float
) -> None:
    monkeypatch.setattr(exchange, name, limit)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=b"[" * 1001))

    async def whole() -> None:
        async with AsyncClient("http://false") as client:
            client._http = httpx.AsyncClient(transport=transport, base_url="http://false")
            await client.users()

    with pytest.raises(NoServiceError):
        asyncio.run(whole())


@pytest.mark.parametrize("status", [200, 401, 500])
def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setattr(links, "LONGEST_EXCHANGE", 0.05)

    async def slow() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.001)

    with pytest.raises(UnavailableError):
        ask(lambda _: httpx.Response(status, content=slow()))

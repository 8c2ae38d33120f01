"""Read answers up to a size and a time, as another program may answer in place of the service."""

from __future__ import annotations

from time import monotonic

import httpx

LARGEST_ANSWER = 64 * 2**20  # bytes
LONGEST_ANSWER = 300.0  # seconds
HEADERS = {"Accept-Encoding": "identity"}  # a small compressed answer may become a large one


class OtherProgramError(Exception):
    """An answer that no fairlead service gives."""


class _Content:
    """The content of an answer, as far as it is read."""

    def __init__(self, answer: httpx.Response, largest: int | None) -> None:
        self._answer, self._parts = answer, bytearray()
        self._largest = LARGEST_ANSWER if largest is None else largest
        self._latest = monotonic() + LONGEST_ANSWER
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise OtherProgramError(f"{answer.url} sends compressed answers")

    def add(self, part: bytes) -> None:
        self._parts += part
        if len(self._parts) > self._largest:
            raise OtherProgramError(f"{self._answer.url} sends more than {self._largest:,} bytes")
        if monotonic() > self._latest:
            raise OtherProgramError(f"{self._answer.url} takes more than {LONGEST_ANSWER:.0f} s")

    def whole(self) -> httpx.Response:
        answer = self._answer
        return httpx.Response(
            answer.status_code,
            headers=answer.headers,
            content=bytes(self._parts),
            request=answer.request,
        )


def send(client: httpx.Client, asked: httpx.Request, largest: int | None = None) -> httpx.Response:
    """Send a request and read its answer.

    Parameters
    ----------
    client : httpx.Client
    asked : httpx.Request
    largest : int, optional
        Bytes; `LARGEST_ANSWER` when absent.

    Raises
    ------
    OtherProgramError
        When the answer is compressed, or exceeds the size or the time.
    httpx.TransportError
        When there is none.
    """
    asked.headers.update(HEADERS)
    answer = client.send(asked, stream=True)
    try:
        content = _Content(answer, largest)
        for part in answer.iter_bytes():
            content.add(part)
    finally:
        answer.close()
    return content.whole()


async def send_async(
    client: httpx.AsyncClient, asked: httpx.Request, largest: int | None = None
) -> httpx.Response:
    """Send a request and read its answer; as `send`."""
    asked.headers.update(HEADERS)
    answer = await client.send(asked, stream=True)
    try:
        content = _Content(answer, largest)
        async for part in answer.aiter_bytes():
            content.add(part)
    finally:
        await answer.aclose()
    return content.whole()

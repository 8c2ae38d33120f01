"""Read answers for asyncio up to a size and a time, as `fairlead.service.exchange` does."""

from __future__ import annotations

import httpx

from fairlead.service import exchange
from fairlead.service.exchange import Content


async def send_async(
    client: httpx.AsyncClient, asked: httpx.Request, largest: int | None = None
) -> httpx.Response:
    """Send a request and read its answer.

    Parameters
    ----------
    client : httpx.AsyncClient
    asked : httpx.Request
    largest : int, optional
        Bytes; `exchange.LARGEST_ANSWER` when absent.

    Raises
    ------
    OtherProgramError
        When the answer is compressed, or exceeds the size or the time.
    httpx.TransportError
        When there is none.
    """
    asked.headers["Accept-Encoding"] = "identity"  # a small compressed answer may become large
    answer = await client.send(asked, stream=True)
    try:
        most = exchange.LARGEST_ANSWER if largest is None else largest
        content = Content(str(answer.url), answer.headers, most)
        async for part in answer.aiter_bytes():
            content.add(part)
    finally:
        await answer.aclose()
    return httpx.Response(
        answer.status_code,
        headers=answer.headers,
        content=content.whole(),
        request=answer.request,
    )

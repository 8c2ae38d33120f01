"""Connections for asyncio: httpx, in the way that an address asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from fairlead.service.addresses import check_socket
from fairlead.service.exchange import TIMEOUT

if TYPE_CHECKING:
    import ssl

    from fairlead.service.connecting import Address


def open_client(address: Address) -> httpx.AsyncClient:
    """Return a client; its connections are made by the first requests.

    Raises
    ------
    InputError
        When another account could have put the socket there.
    """
    context = address.tls_context()
    url = httpx.URL(f"{'http' if context is None else 'https'}://{address.host}{address.path}")
    if address.pin and url.port is None:
        url = url.copy_with(port=80)
    headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
    transport = _AsyncTransport(address, context)
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT, transport=transport)


class _AsyncTransport(httpx.AsyncHTTPTransport):
    """Checks the address before each request, as folders may have changed since the last one."""

    def __init__(self, address: Address, context: ssl.SSLContext | None) -> None:
        socket = None if address.socket is None else str(check_socket(address.socket))
        super().__init__(uds=socket, verify=context or False)
        self._address = address

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._address.check()
        return await super().handle_async_request(request)

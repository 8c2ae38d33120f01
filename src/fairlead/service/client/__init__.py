"""Clients of a running service, and the connections and addresses that they use.

Programs use `Client`, or `AsyncClient` for asyncio. Commands use `plain_client`, which imports
little.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in `typing`, without its import
if TYPE_CHECKING:
    from fairlead.service.client.plain_client import NoServiceError, RefusedError
    from fairlead.service.client.typed_client import AsyncClient, Client
else:

    def __getattr__(name: str) -> object:
        """Import a name of the public API when it is first used, as commands must start quickly."""
        if name in ("AsyncClient", "Client", "NoServiceError", "RefusedError"):
            return getattr(import_module("fairlead.service.client.typed_client"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AsyncClient",
    "Client",
    "NoServiceError",
    "RefusedError",
    "addresses",
    "calls",
    "connections",
    "exchange",
    "plain_client",
]

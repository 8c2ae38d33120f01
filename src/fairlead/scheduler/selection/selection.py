"""What every selection does: keep open servers, and name one of those that have room."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler.tables import Server, Shape, has_room


class Selection:
    """Names the server for a task; servers that drain are not among its servers."""

    width: i64
    total: vec[i64]  # (W,) the pool's total, which changes as servers come and go

    def __init__(self, width: i64, total: vec[i64]) -> None:
        self.width = width
        self.total = total

    def open(self, server: Server) -> None:
        """Add a server that takes tasks from now on."""
        raise NotImplementedError

    def close(self, server: Server) -> None:
        """Remove a server that takes no more tasks."""
        raise NotImplementedError

    def change(self, server: Server) -> None:
        """Note that the free amounts of an open server changed."""
        raise NotImplementedError

    def find(self, shape: Shape) -> Server | None:
        """Return the server for a task among all open servers, or None without room."""
        raise NotImplementedError

    def find_anew(self, shape: Shape) -> Server | None:
        """Return the same as `find`, without what shapes know from earlier searches."""
        return self.find(shape)

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return the server for a task among some servers, or None without room."""
        raise NotImplementedError


def first_of(servers: list[Server], shape: Shape) -> Server | None:
    """Return the first server in order with room."""
    first: Server | None = None
    for server in servers:
        if (first is None or server < first) and has_room(server, shape):
            first = server
    return first

"""The base of all selections: open servers, and the choice of one with room."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import Server, Shape


class Selection:
    """Chooses the server for a task among the open servers."""

    def __init__(self, width: i64, total: vec[i64]) -> None:
        self.width = width  # the number of columns that decide whether a task fits (C)
        self.total = total  # (W,) the pool's total, which changes with the servers

    def open(self, server: Server) -> None:
        """Add a server."""
        raise NotImplementedError

    def close(self, server: Server) -> None:
        """Remove a server."""
        raise NotImplementedError

    def change(self, server: Server) -> None:
        """Update the free amounts of a server."""
        raise NotImplementedError

    def find(self, shape: Shape) -> Server | None:
        """Return the server for a task among all open servers, or None without room."""
        raise NotImplementedError

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return the server for a task among some servers, or None without room.

        Their free amounts may be of another time than the indexes.
        """
        raise NotImplementedError

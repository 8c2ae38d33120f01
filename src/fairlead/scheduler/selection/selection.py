"""The base of all selections: open servers, and the choice of one with room."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import Server, Shape


class Selection:
    """Chooses the server for a task among the open servers."""

    def __init__(self, width: i64, total: vec[i64]) -> None:
        self.width = width  # the number of columns that decide whether a task fits (C)
        self.total = total  # (W,) capacity of all servers; the criterion updates it in place

    def open(self, server: Server) -> None:
        """Add a server to the open ones."""
        raise NotImplementedError

    def close(self, server: Server) -> None:
        """Remove a server from the open ones."""
        raise NotImplementedError

    def change(self, server: Server) -> None:
        """Update the indexes after a server's free amounts changed."""
        raise NotImplementedError

    def find(self, shape: Shape) -> Server | None:
        """Return the open server for a task, or None if there is no room."""
        raise NotImplementedError

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return the server for a task among some servers, or None if there is no room.

        Their free amounts may differ from those in the indexes, for instance at a reserved time.
        """
        raise NotImplementedError

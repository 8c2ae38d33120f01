"""A selection that also answers which groups have room if nothing runs.

It keeps an empty twin of each open server in a second selection of the same kind.
"""

from __future__ import annotations

from mypy_extensions import i64

from fairlead.scheduler.selection.selection import Selection
from fairlead.scheduler.tables import Server, Shape, add_to


class Mirrored(Selection):
    """A selection beside its mirror of empty servers."""

    real: Selection
    empty: Selection
    twins: dict[str, Server]  # by the name of the server
    version: i64 = 0  # how often servers were opened or closed

    def __init__(self, real: Selection, empty: Selection) -> None:
        super().__init__(real.width, real.total)
        self.real = real
        self.empty = empty
        self.twins = {}

    def open(self, server: Server) -> None:
        """Add a server that takes tasks from now on."""
        self.version += 1
        self.real.open(server)
        order, joined = server.order, server.joined
        twin = Server(server.name, order, joined, server.given, server.labels, server.group)
        twin.capacity = server.capacity
        twin.free = server.capacity[:]
        twin.kind = server.kind
        twin.is_draining = False
        self.twins[server.name] = twin
        self.empty.open(twin)

    def close(self, server: Server) -> None:
        """Remove a server that takes no more tasks."""
        self.version += 1
        self.real.close(server)
        self.empty.close(self.twins.pop(server.name))

    def change(self, server: Server) -> None:
        """Note that the free amounts of an open server changed."""
        self.real.change(server)

    def find(self, shape: Shape) -> Server | None:
        """Return the server for a task among all open servers, or None without room."""
        return self.real.find(shape)

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return the server for a task among some servers, or None without room."""
        return self.real.find_among(servers, shape)

    def has_room_when_empty(self, shapes: list[Shape]) -> bool:
        """Return whether tasks of these shapes, one after the other, fit if nothing runs."""
        taken: list[tuple[Server, Shape]] = []
        for shape in shapes:
            twin = self.empty.find_anew(shape)
            if twin is None:
                break
            add_to(twin.free, shape.demand, -1)
            self.empty.change(twin)
            taken.append((twin, shape))
        for twin, shape in taken:
            add_to(twin.free, shape.demand, 1)
            self.empty.change(twin)
        return len(taken) == len(shapes)

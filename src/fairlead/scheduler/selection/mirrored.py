"""A selection beside a mirror of idle servers, which tells oversized groups of tasks.

The mirror is a second selection of the same kind with an idle twin of each open server.
"""

from __future__ import annotations

from mypy_extensions import i64

from fairlead.scheduler._entities import Server, Shape, add_to
from fairlead.scheduler.selection.selection import Selection


class Mirrored(Selection):
    """A selection beside its mirror of idle servers."""

    def __init__(self, real: Selection, idle: Selection) -> None:
        super().__init__(real.width, real.total)
        self.real = real
        self.idle = idle
        self.twins: dict[str, Server] = {}  # by the name of the server
        self.version: i64 = 0  # how often servers were opened or closed

    def open(self, server: Server) -> None:
        self.version += 1
        self.real.open(server)
        order, joined = server.order, server.joined
        twin = Server(server.name, order, joined, server.given, server.labels, server.group)
        twin.capacity = server.capacity
        twin.free = server.capacity[:]
        twin.kind = server.kind
        twin.is_draining = False
        self.twins[server.name] = twin
        self.idle.open(twin)

    def close(self, server: Server) -> None:
        self.version += 1
        self.real.close(server)
        self.idle.close(self.twins.pop(server.name))

    def change(self, server: Server) -> None:
        self.real.change(server)

    def find(self, shape: Shape) -> Server | None:
        return self.real.find(shape)

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        return self.real.find_among(servers, shape)

    def fit_idle(self, shapes: list[Shape]) -> bool:
        """Return whether tasks of these shapes, one after the other, fit on idle servers."""
        taken: list[tuple[Server, Shape]] = []
        for shape in shapes:
            twin = self.idle.find_anew(shape)
            if twin is None:
                break
            add_to(twin.free, shape.demand, -1)
            self.idle.change(twin)
            taken.append((twin, shape))
        for twin, shape in taken:
            add_to(twin.free, shape.demand, 1)
            self.idle.change(twin)
        return len(taken) == len(shapes)

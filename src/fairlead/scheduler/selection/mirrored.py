"""A selection with idle copies of its servers, which detects oversized groups of tasks.

The copies are in a second selection of the same kind, and no task ever runs on them.
"""

from __future__ import annotations

from mypy_extensions import i64

from fairlead.scheduler._entities import Server, Shape, add_to
from fairlead.scheduler.selection.selection import Selection


class WithIdleCopies(Selection):
    """A selection and its idle copy."""

    def __init__(self, real: Selection, idle: Selection) -> None:
        super().__init__(real.width, real.total)
        self.real = real
        self.idle = idle
        self.idle_copies: dict[str, Server] = {}  # by the name of the server
        self.version: i64 = 0  # how often servers were opened or closed

    def open(self, server: Server) -> None:
        self.version += 1
        self.real.open(server)
        order, joined = server.order, server.joined
        idle_copy = Server(server.name, order, joined, server.given, server.labels, server.group)
        idle_copy.capacity = server.capacity
        idle_copy.free = server.capacity[:]
        idle_copy.kind = server.kind
        idle_copy.is_draining = False
        self.idle_copies[server.name] = idle_copy
        self.idle.open(idle_copy)

    def close(self, server: Server) -> None:
        self.version += 1
        self.real.close(server)
        self.idle.close(self.idle_copies.pop(server.name))

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
            idle_copy = self.idle.find_anew(shape)
            if idle_copy is None:
                break
            add_to(idle_copy.free, shape.demand, -1)
            self.idle.change(idle_copy)
            taken.append((idle_copy, shape))
        for idle_copy, shape in taken:
            add_to(idle_copy.free, shape.demand, 1)
            self.idle.change(idle_copy)
        return len(taken) == len(shapes)

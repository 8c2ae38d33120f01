"""Best-fit-first: the best server by best-fit's H whether it has room or not.

A task without room on that server waits, though it may have room elsewhere. Of equal queues the
later one goes first. As others start, another server may become the best one, so room may come
without a server being freed: nothing is parked, but gangs, which wait as under other selections.
See `misfit` for H.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler.comparing import Candidate, Comparison
from fairlead.scheduler.explanation import Hold
from fairlead.scheduler.placing import AHEAD, has_any_room
from fairlead.scheduler.selection.misfit import Scales
from fairlead.scheduler.selection.selection import Selection
from fairlead.scheduler.tables import Queue, Server, Shape, TaskGroup, fits
from fairlead.scheduler.waiting import is_behind_gang, standing_groups

NO_ROOM_ON_BEST: Final = Hold(
    "best server", "It waits for the server that fits it best, which has no room for it."
)


class Best:
    """The best server for a shape, and its H."""

    server: Server
    h: float

    def __init__(self, server: Server, h: float) -> None:
        self.server = server
        self.h = h

    def compare(self, server: Server, h: float) -> None:
        """Take another server if it is better, or as good and earlier."""
        if h < self.h or (h == self.h and server < self.server):
            self.server = server
            self.h = h


class BestFitFirst(Selection):
    """Keeps the best server of each shape until it changes."""

    servers: dict[str, Server]  # open ones
    best: dict[Shape, Best]  # of shapes that were asked for since their best server changed
    scales: Scales

    def __init__(self, width: i64, total: vec[i64]) -> None:
        super().__init__(width, total)
        self.servers = {}
        self.best = {}
        self.scales = Scales()

    def open(self, server: Server) -> None:
        """Add a server that takes tasks from now on."""
        self.servers[server.name] = server
        self.change(server)

    def close(self, server: Server) -> None:
        """Remove a server that takes no more tasks."""
        del self.servers[server.name]
        for shape, best in list(self.best.items()):
            if best.server is server:
                del self.best[shape]

    def change(self, server: Server) -> None:
        """Note that the free amounts of an open server changed."""
        outdated: list[Shape] = []
        for shape, best in self.best.items():
            if best.server is server or shape.groups == 0:
                outdated.append(shape)
            elif shape.place.allowed[server.kind]:
                best.compare(server, self.scales.misfit(shape, server.free))
        for shape in outdated:
            del self.best[shape]

    def find(self, shape: Shape) -> Server | None:
        """Return the best server if it has room."""
        if self.scales.update(self.total):
            self.best = {}
        best = self.best.get(shape)
        if best is None:
            best = self.search(shape)
            if best is None:
                return None
            self.best[shape] = best
        return best.server if fits(shape.need, best.server.free) else None

    def search(self, shape: Shape) -> Best | None:
        """Find the best server where a task may run."""
        best: Best | None = None
        for server in self.servers.values():
            if shape.place.allowed[server.kind]:
                h = self.scales.misfit(shape, server.free)
                if best is None:
                    best = Best(server, h)
                else:
                    best.compare(server, h)
        return best

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return the best server if it is among some and has room."""
        server = self.find(shape)
        return server if server in servers else None


class BestFitFirstWay(Comparison):
    """Compares the first groups whose best server has room, looked up anew for each task."""

    def candidate(self, queue: Queue) -> Candidate | None:
        """1. What: return the first group of a queue whose best server has room."""
        for group in standing_groups(queue):
            if self.is_strict and is_behind_gang(queue, group):
                return None
            candidate = self.try_group(group)
            if candidate is not None or self.is_strict:
                return candidate
        return None

    def why_waits(self, group: TaskGroup, had_room: bool) -> Hold:
        """Return why a group waits, after others were placed, though servers had room for it."""
        hold = super().why_waits(group, had_room)
        if hold is not AHEAD:
            return hold
        if had_room and not has_any_room(self.state.servers.values(), group):
            return AHEAD
        return NO_ROOM_ON_BEST

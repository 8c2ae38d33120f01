"""Best-fit-first: the server with the least H of best-fit, whether it has room or not.

A task that does not fit on that server waits, even if it fits elsewhere. Ties of queues go to the
later one. When other tasks start, another server may become the best one, so a task may fit without
a freed server. Therefore only gangs are parked, as under other selections.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._cycle import AHEAD, Candidate, TaskCycle
from fairlead.scheduler._entities import Queue, Server, Shape, TaskGroup, fits, has_room
from fairlead.scheduler._waiting import active_groups, first_waiting, resume_all
from fairlead.scheduler.explanation import WaitReason
from fairlead.scheduler.selection.best_fit import Scales
from fairlead.scheduler.selection.selection import Selection

NO_ROOM_ON_BEST: Final = WaitReason(
    "best server", "It waits for the server that fits it best, which has no room for it."
)


class BestFitFirst(Selection):
    """Keeps the best server of each shape until it changes."""

    def __init__(self, width: i64, total: vec[i64]) -> None:
        super().__init__(width, total)
        self.servers: dict[str, Server] = {}  # open ones
        self.best: dict[Shape, Server] = {}  # of shapes searched since their best server changed
        self.least: dict[Shape, float] = {}  # H of the best server
        self.scales = Scales()

    def open(self, server: Server) -> None:
        self.servers[server.name] = server
        self.change(server)

    def close(self, server: Server) -> None:
        del self.servers[server.name]
        for shape, best in list(self.best.items()):
            if best is server:
                del self.best[shape]
                del self.least[shape]

    def change(self, server: Server) -> None:
        for shape, best in list(self.best.items()):
            if best is server or shape.groups == 0:
                del self.best[shape]
                del self.least[shape]
            elif shape.constraint.admits[server.kind]:
                h = self.scales.shape_difference(shape, server)
                least = self.least[shape]
                if h < least or (h == least and server < best):
                    self.best[shape] = server
                    self.least[shape] = h

    def find(self, shape: Shape) -> Server | None:
        """Return the best server if it has room."""
        self.update_scales()
        best = self.best.get(shape)
        if best is None:
            best = self.search(shape)
            if best is None:
                return None
            self.best[shape] = best
            self.least[shape] = self.scales.shape_difference(shape, best)
        return best if fits(shape.need, best.free) else None

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return the best server if it is among some and has room."""
        self.update_scales()
        best = self.search(shape)  # none is kept: free amounts may be those of another time
        return best if best in servers and fits(shape.need, best.free) else None

    def update_scales(self) -> None:
        if self.scales.update(self.total):
            self.best = {}
            self.least = {}

    def search(self, shape: Shape) -> Server | None:
        """Return the open server with the least H, with room or without; ties by order."""
        admits = shape.constraint.admits
        return self.scales.best([s for s in self.servers.values() if admits[s.kind]], shape)


class BestFitFirstCycle(TaskCycle):
    """Compares the first groups whose best server has room, found again for each task."""

    def prepare(self) -> None:
        super().prepare()
        for queue in self.state.root.ranked:
            resume_all(queue)

    def candidate(self, queue: Queue) -> Candidate | None:
        for group in active_groups(queue):
            if self.is_strict and first_waiting(queue) is not group:
                return None
            candidate = self.try_group(group)
            if candidate is not None or self.is_strict:
                return candidate
        return None

    def why_waits(self, group: TaskGroup, had_room: bool) -> WaitReason:
        hold = super().why_waits(group, had_room)
        if hold is not AHEAD:
            return hold
        shape = group.shape_of(group.first_index())
        if had_room and not any(has_room(s, shape) for s in self.state.servers.values()):
            return AHEAD
        return NO_ROOM_ON_BEST

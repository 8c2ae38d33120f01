"""Best-fit-first: the server with the least H (see `best_fit`), whether it has room or not.

A task that does not fit on that server waits, even if it fits elsewhere. Of queues with equal
scores the one added later goes first. When other tasks start, another server may become the best
one of a shape, and have room. So waiting lists are not parked; only gangs are.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._cycle import AHEAD, Candidate, TaskCycle
from fairlead.scheduler._entities import (
    Gang,
    Queue,
    Server,
    Shape,
    TaskGroup,
    fits,
    has_room,
    limit_reached,
)
from fairlead.scheduler._waiting import first_groups
from fairlead.scheduler.explanation import WaitReason
from fairlead.scheduler.selection.best_fit import Scales
from fairlead.scheduler.selection.first_fit import Selection

NO_ROOM_ON_BEST: Final = WaitReason(
    "best server", "It waits for the server that fits it best, which has no room for it."
)


class BestFitFirst(Selection):
    """Stores the best server of each shape, with room or not."""

    def __init__(self, width: i64, total: vec[i64]) -> None:
        super().__init__(width, total)
        self.servers: dict[str, Server] = {}  # open ones
        self.best: dict[Shape, Server] = {}  # by shape; shapes without one are searched again
        self.scales = Scales()

    def open(self, server: Server) -> None:
        self.servers[server.name] = server
        self.change(server)

    def close(self, server: Server) -> None:
        del self.servers[server.name]
        for shape, best in list(self.best.items()):
            if best is server:
                del self.best[shape]

    def change(self, server: Server) -> None:
        """Compare a changed server with the best of each shape; if it was the best, forget it."""
        for shape, best in list(self.best.items()):
            if best is server or shape.groups == 0:
                del self.best[shape]
            elif shape.constraint.admits[server.kind]:
                found = self.scales.best([best, server], shape)
                assert found is not None
                self.best[shape] = found

    def find(self, shape: Shape) -> Server | None:
        """Return the best server if it has room."""
        self.update_scales()
        best = self.best.get(shape)
        if best is None:
            best = self.search(shape)
            if best is None:
                return None
            self.best[shape] = best
        return best if fits(shape.need, best.free) else None

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return the best of all open servers, if it is among `servers` and has room."""
        self.update_scales()
        best = self.search(shape)  # not stored, as free amounts may be of another time
        return best if best in servers and fits(shape.need, best.free) else None

    def update_scales(self) -> None:
        """Update the scales; forget the best servers if the pool's total changed."""
        if self.scales.update(self.total):
            self.best = {}

    def search(self, shape: Shape) -> Server | None:
        """Return the admitted open server with the least H, with room or not; ties by order."""
        admits = shape.constraint.admits
        return self.scales.best([s for s in self.servers.values() if admits[s.kind]], shape)


class BestFitFirstCycle(TaskCycle):
    """Searches, for each start, the first group of each queue whose best server has room."""

    def candidate(self, queue: Queue) -> Candidate | None:
        """1. What: return the first group of a queue whose best server has room."""
        for group in first_groups(queue):
            is_parked = isinstance(group, Gang) and group.is_parked
            if not is_parked and limit_reached(group) is None:
                candidate = self.try_group(group)
                if candidate is not None:
                    return candidate
            if self.is_strict:
                return None
        return None

    def why_waits(self, group: TaskGroup, had_room: bool) -> WaitReason:
        reason = super().why_waits(group, had_room)
        if reason is not AHEAD:
            return reason
        shape = group.shape_of(group.first_index())
        if had_room and not any(has_room(s, shape) for s in self.state.servers.values()):
            return AHEAD
        return NO_ROOM_ON_BEST

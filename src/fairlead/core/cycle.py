"""The way of a task, from its turn to its server.

1. Who: from the root of the queues down, the least score among queues that can start a task.
2. What: in that queue, the first group of which a task has room somewhere.
3. Where: the server that the selection names.
4. Book: the task runs; its queue and server hold its amounts, and the queue takes its new place.

This is the way under criteria that score queues before a server is chosen.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.core.placement import Placement, placement_of
from fairlead.core.state import State
from fairlead.core.tables import Gang, Queue, Server, Shape, Task, TaskGroup
from fairlead.core.waiting import (
    first_parked,
    first_standing,
    is_behind_gang,
    park,
)

MOST_FREED: Final = 128  # servers; comparing with more costs more than a search of all
NO_POOL: Final = Fraction(2**200)  # more than any share of what the pool has


class Cycle:
    """Places tasks one after the other.

    Parameters
    ----------
    state : State
    is_strict : bool
        Whether nothing passes over the first group of its queue.
    """

    def __init__(self, state: State, is_strict: bool) -> None:
        self.state = state
        self.is_strict = is_strict

    def place(self, limit: int) -> list[Placement]:
        """Return the placements of `start_tasks`."""
        return [placement_of(task) for task in self.start_tasks(limit)]

    def start_tasks(self, limit: int) -> list[Task]:
        """Start tasks until nothing more has room, or at least `limit` are started."""
        state = self.state
        state.calls += 1
        self.prepare()
        started: list[Task] = []
        while len(started) < limit:
            if not self.serve(state.root, started):
                state.freed.clear()  # nothing that waits fits on them
                break
        return started

    def prepare(self) -> None:
        """Bring up to date what changed since the last call."""
        state = self.state
        if state.is_stale:
            state.rank_all()
        if len(state.freed.servers) > MOST_FREED:
            state.search_again()

    def serve(self, parent: Queue, started: list[Task]) -> bool:
        """1. Who: start something below a queue, the least score first; return whether it did."""
        if parent.visited != self.state.calls:
            parent.visited = self.state.calls
            parent.at = 0
        served = parent.served
        while parent.at < len(served):
            queue = served[parent.at]
            if self.serve(queue, started) if queue.children else self.start_first(queue, started):
                return True
            parent.at += 1
        return False

    def start_first(self, queue: Queue, started: list[Task]) -> bool:
        """2. What: start the first group of a queue that has room; return whether one has."""
        state = self.state
        while True:
            group = first_standing(queue)
            parked = first_parked(queue, state.freed) if state.freed.servers else None
            is_parked = parked is not None and (group is None or parked.order < group.order)
            if is_parked:
                group = parked
            if group is None or (self.is_strict and is_behind_gang(queue, group)):
                return False
            if isinstance(group, Gang):
                if self.start_gang(group, started):
                    return True
                state.park_gang(group)
                continue
            server = self.choose(group, is_parked)
            if server is not None:
                self.book(group, server, started)
                return True
            if self.is_strict:
                return False
            park(group.line)

    def choose(self, group: TaskGroup, is_parked: bool) -> Server | None:
        """3. Where: return the server for a group's next task; for a parked one, a freed server."""
        selection = self.state.selection
        if is_parked:
            return selection.find_among(self.state.freed.servers, group.shape)
        return selection.find(group.shape)

    def book(self, group: TaskGroup, server: Server, started: list[Task]) -> None:
        """4. Book: start a group's next task on a server."""
        state = self.state
        started.append(state.start(group, group.first_index(), server, state.now))

    def start_gang(self, gang: Gang, started: list[Task]) -> bool:
        """Start all waiting tasks of a gang, if there is room for all of them at once."""
        plan = self.plan_gang(gang)
        self.book_plan(gang, plan, started)
        return len(plan) > 0

    def plan_gang(self, gang: Gang) -> list[tuple[int, Server]]:
        """Return where each waiting task of a gang would go; nothing without room for all."""
        state = self.state
        plan: list[tuple[int, Server]] = []
        indices = largest_first(gang, state.criterion.total)
        for index in indices:
            server = state.selection.find(gang.shape_of(index))
            if server is None:
                break
            state.take(server, gang.shape_of(index))
            plan.append((index, server))
        for index, server in plan:
            state.give_back(server, gang.shape_of(index))
        return plan if len(plan) == len(indices) else []

    def book_plan(self, gang: Gang, plan: list[tuple[int, Server]], started: list[Task]) -> None:
        """4. Book: start tasks of a gang where they are planned."""
        for index, server in plan:
            started.append(self.state.start(gang, index, server, self.state.now))


def largest_first(gang: Gang, total: vec[i64]) -> list[int]:
    """Return waiting tasks by the dominant share of the pool that they take, ties as listed."""
    indices = gang.indices()
    if len(gang.parts) == 1:
        return indices
    sizes = {shape: dominant_demand(shape, total) for shape in gang.parts}
    ordered = sorted([(-sizes[gang.shape_of(index)], index) for index in indices])
    return [index for _, index in ordered]


def dominant_demand(shape: Shape, total: vec[i64]) -> Fraction:
    """Return the largest share of the pool's total that a task takes; of nothing it is infinite."""
    largest = Fraction(0)
    for demand, pool in zip(shape.demand, total, strict=True):
        if demand > 0:
            largest = max(largest, Fraction(int(demand), int(pool)) if pool > 0 else NO_POOL)
    return largest

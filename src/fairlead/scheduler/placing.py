"""What all ways of placing share: the numbered steps of a task, from its turn to its server.

1. Who: the queue that is served.
2. What: the group of that queue of which a task starts.
3. Where: the server on which it starts.
4. Book: the task runs; its queue and server hold its amounts, and the queue takes its new place.

Ways differ in the order of these questions. `cycle` asks who first, as scores are known before a
server is chosen. `comparing` asks each queue what, as scores depend on that. In round-robin and
offers (`selection`), a round gives the server, and who is asked last.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler.explanation import Hold, Reservation, tasks_in_words
from fairlead.scheduler.placement import Placement, placement_of
from fairlead.scheduler.state import State
from fairlead.scheduler.tables import (
    UNLIMITED,
    Gang,
    Queue,
    Server,
    Shape,
    Task,
    TaskGroup,
    add_to,
    has_room,
)

MOST_FREED: Final = 128  # servers; comparing with more costs more than a search of all
AHEAD: Final = Hold("order", "Tasks that are ahead of it take the room.")
OUT_OF_TURN: Final = Hold(
    "strict order", "The first group of its queue waits, and nothing passes that."
)
NO_POOL: Final = Fraction(2**200)  # more than any share of what the pool has

Plan = list[tuple[int, Server]]  # indices of a gang's waiting tasks, and where each would start


class Placing:
    """A way of placing: starts tasks one after the other, gangs whole."""

    makes_reservations = False  # it knows when a group that waits is to start
    state: State
    is_strict: bool  # nothing passes over the first group of its queue

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
            if not self.place_next(started):
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

    def place_next(self, started: list[Task]) -> bool:
        """Start the next task or gang; return whether there is one."""
        raise NotImplementedError

    def find(self, queue: Queue, shape: Shape) -> Server | None:  # noqa: ARG002 (joint uses it)
        """3. Where: return the server that the selection names for a task of a queue."""
        return self.state.selection.find(shape)

    def book(self, group: TaskGroup, server: Server, started: list[Task]) -> None:
        """4. Book: start a group's next task on a server."""
        state = self.state
        started.append(state.start(group, group.first_index(), server, state.now))
        if server.is_freed:
            state.freed.tighten()

    def book_plan(self, group: TaskGroup, plan: Plan, started: list[Task]) -> None:
        """4. Book: start tasks of a group where they are planned."""
        for index, server in plan:
            started.append(self.state.start(group, index, server, self.state.now))

    def plan_gang(self, gang: Gang) -> Plan:
        """Return where each waiting task of a gang would go; nothing without room for all."""
        plan: Plan = []
        indices = largest_first(gang, self.state.criterion.total)
        for index in indices:
            shape = gang.shape_of(index)
            server = self.find_for_gang(gang, shape, plan)
            if server is None:
                break
            self.hold(gang, shape, server, 1)
            plan.append((index, server))
        for index, server in plan:
            self.hold(gang, gang.shape_of(index), server, -1)
        return plan if len(plan) == len(indices) else []

    def find_for_gang(self, gang: Gang, shape: Shape, plan: Plan) -> Server | None:  # noqa: ARG002
        """Return the server for the next task of a gang, after a plan for the tasks before it."""
        return self.find(gang.line.queue, shape)

    def hold(self, gang: Gang, shape: Shape, server: Server, sign: i64) -> None:
        """Reserve a planned task's amounts of a gang (1), or release them (-1)."""
        self.state.take(server, shape, sign)
        add_to(gang.line.queue.held, shape.demand, sign)  # the next server may depend on it

    def next_moment(self) -> float:
        """Return when to place again though nothing happened since; infinite for never."""
        return UNLIMITED

    # For explanations

    def has_room_now(self, group: TaskGroup) -> bool:
        """Return whether there is room for a group's next task, or for all of a gang.

        A gang that had none when it was tried is passed over until a server is freed for it.
        """
        if isinstance(group, Gang):
            return not group.is_parked and len(self.plan_gang(group)) > 0
        return self.find(group.line.queue, group.shape) is not None

    def why_never(self, gang: Gang) -> Hold | None:  # noqa: ARG002 (offers ask more)
        """Return why a gang starts never though servers have room for all tasks of each shape."""
        return None

    def why_waits(self, group: TaskGroup, had_room: bool) -> Hold:
        """Return why a group waits, after others were placed, though servers had room for it.

        Parameters
        ----------
        group : TaskGroup
            An open server had room for its first task.
        had_room : bool
            Whether all of it had room before others were placed.
        """
        if self.is_strict and not is_first(self.state, group):
            return OUT_OF_TURN
        return held_by_room(group, had_room)

    def reservation(self) -> Reservation | None:
        """Return when the first group that waits is to start, if that is known."""
        return None


def held_by_room(group: TaskGroup, had_room: bool) -> Hold:
    """Return that others took the room of a group, or that there was too little for a gang."""
    if had_room or not isinstance(group, Gang):
        return AHEAD
    tasks = tasks_in_words(int(group.waiting))
    reason = f"Its {tasks} start together, the largest first, and had no room when they were tried."
    return Hold("gang", reason)


def has_any_room(servers: Iterable[Server], group: TaskGroup) -> bool:
    """Return whether any server has room for a group's first task."""
    shape = group.shape_of(group.first_index())
    for server in servers:  # noqa: SIM110 (a loop that is compiled)
        if has_room(server, shape):
            return True
    return False


def is_first(state: State, group: TaskGroup) -> bool:
    """Return whether a group is the first of its queue that waits. O(groups)."""
    for other in state.groups.values():
        if other.line.queue is group.line.queue and other.waiting > 0 and other.order < group.order:
            return False
    return True


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

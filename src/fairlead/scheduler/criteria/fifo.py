"""First in, first out: groups start in the order of their submission, over all queues.

Of the first groups of all queues the one that was submitted first is next. Inside a queue a higher
priority goes first. Nothing passes over the next group; only groups without room even where nothing
runs are left out. A gang that had no room is tried again when a server is freed for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mypy_extensions import i64

from fairlead.scheduler.criteria.criterion import Criterion
from fairlead.scheduler.cycle import Cycle
from fairlead.scheduler.explanation import NAMED, Ahead, Hold, Standing
from fairlead.scheduler.placing import held_by_room, largest_first
from fairlead.scheduler.selection.mirrored import Mirrored
from fairlead.scheduler.state import State
from fairlead.scheduler.tables import Gang, Line, Queue, Server, Shape, Task, TaskGroup, Turn
from fairlead.scheduler.waiting import first_standing, stand

BEHIND: Final = Hold("fifo", "A group that goes before it waits, and nothing passes that.")
TOO_LARGE_TOGETHER: Final = Hold(
    "gang", "Its tasks start together, and open servers have too little room even if nothing ran."
)


class Submission(Criterion):
    """Ranks queues by the time of their first group that has room where nothing runs."""

    measure = "time of submission"
    selection: Mirrored
    hopeless: list[Line]  # whose first group has no room even where nothing runs

    def __init__(self, width: i64, selection: Mirrored) -> None:
        super().__init__(width)
        self.total = selection.total
        self.selection = selection
        self.hopeless = []

    def score(self, queue: Queue) -> int:  # noqa: ARG002 (all queues score alike)
        """Return 0."""
        return 0

    def turn(self, queue: Queue, serial: int) -> Turn | None:  # noqa: ARG002 (ids differ)
        """Return when the first group was submitted; None if no group has hope."""
        if queue.children:
            return queue.turns[0] if queue.turns else None
        group = self.head(queue)
        return None if group is None else submitted(group)

    def standing(
        self,
        group: TaskGroup,
        shape: Shape,  # noqa: ARG002 (times alone decide)
        servers: Iterable[Server],  # noqa: ARG002
    ) -> Standing:
        """Return which queues have a first group that was submitted before that of its queue."""
        queue = group.line.queue
        root = queue
        while root.parent is not None:
            root = root.parent
        mine = queue.turn
        before: list[tuple[Turn, str]] = []
        for other in leaves(root):
            if other.turn is not None and mine is not None and other.turn < mine:
                before.append((other.turn, other.name))
        before.sort()
        ahead = [Ahead(name, turn[0]) for turn, name in before[:NAMED]]
        time = group.time if mine is None else mine[0]
        return Standing(self.measure, time, ahead, len(before), [], is_time=True)

    def head(self, queue: Queue) -> TaskGroup | None:
        """Return the first group of a queue, but those without room where nothing runs."""
        first = first_standing(queue)
        while first is not None and not self.has_hope(first):
            first.line.stands = None
            self.hopeless.append(first.line)
            first = first_standing(queue)
        for gang in queue.gangs_parked.values():
            if (first is None or gang.order < first.order) and self.has_hope(gang):
                first = gang
        return first

    def has_hope(self, group: TaskGroup) -> bool:
        """Return whether a group has room where nothing runs; for single tasks by their shape."""
        version = self.selection.version
        if isinstance(group, Gang):
            if group.checked_at != version or group.checked_tasks != group.waiting:
                group.has_hope = self.selection.has_room_when_empty(
                    [group.shape_of(index) for index in largest_first(group, self.total)]
                )
                if group.is_alike():
                    group.checked_at = version
                    group.checked_tasks = group.waiting
            return group.has_hope
        shape = group.shape
        if shape.checked_at != version:
            shape.checked_at = version
            shape.has_hope = self.selection.has_room_when_empty([shape])
        return shape.has_hope


class SubmissionCycle(Cycle):
    """Places groups in the order of their submission."""

    order: Submission
    version: i64 = 0  # of the servers, when queues were ranked last

    def __init__(self, state: State, is_strict: bool) -> None:  # noqa: ARG002 (it always is)
        super().__init__(state, True)
        assert isinstance(state.criterion, Submission)
        self.order = state.criterion

    def prepare(self) -> None:
        """Rank all queues anew if servers were opened or closed."""
        version = self.order.selection.version
        if self.state.is_stale or version != self.version:
            self.version = version
            hopeless = self.order.hopeless
            self.order.hopeless = []
            for line in hopeless:
                stand(line)
            self.state.rank_all()
        self.state.freed.clear()  # each call tries the next group, so nothing waits for them

    def serve(self, parent: Queue, started: list[Task]) -> bool:  # noqa: ARG002 (of all queues)
        """Start the next group; return whether it has room."""
        group = self.next_group()
        return group is not None and self.start_next(group, started)

    def start_next(self, group: TaskGroup, started: list[Task]) -> bool:
        """Start the next group, a gang whole; return whether it has room."""
        if isinstance(group, Gang):
            if group.is_parked:
                return False
            if not self.start_gang(group, started):
                self.state.park_gang(group)
                return False
            return True
        server = self.choose(group, False)
        if server is None:
            return False
        self.book(group, server, started)
        return True

    # For explanations

    def next_group(self) -> TaskGroup | None:
        """Return the group that goes before all others."""
        queue = self.state.root
        while queue.served:
            queue = queue.served[0]
        return None if queue is self.state.root else self.order.head(queue)

    def why_waits(self, group: TaskGroup, had_room: bool) -> Hold:
        """Return why a group waits, after others were placed, though servers had room for it."""
        if not self.order.has_hope(group):
            return TOO_LARGE_TOGETHER
        if self.next_group() is not group:
            return BEHIND
        return held_by_room(group, had_room)


def submitted(group: TaskGroup) -> tuple[float, float]:
    """Return when a group was submitted; of equal times the earlier id is less."""
    return (group.order[1], group.order[2])


def leaves(queue: Queue) -> list[Queue]:
    """Return the leaves of a tree that have a turn."""
    found: list[Queue] = []
    for below in queue.served:
        found += leaves(below) if below.children else [below]
    return found

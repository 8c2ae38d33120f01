"""The way of a task where a queue's score depends on its next task.

1. What: in each queue, the first group of which a task has room somewhere.
2. Who: of those, the queue with the least score with its task.
3. Where: the server that the selection names.
4. Book: as in all ways; see `placing`.

A score never falls while tasks start. So an earlier score is a lower bound, and only the least one
is computed anew, until the least one is of now.
"""

from __future__ import annotations

from fairlead.scheduler.placing import Placing, Plan
from fairlead.scheduler.state import State
from fairlead.scheduler.tables import Gang, Queue, Server, Shape, Task, TaskGroup, has_room
from fairlead.scheduler.waiting import first_to_try, is_behind_gang, park


class Candidate:
    """The first group of a queue that has room."""

    queue: Queue
    group: TaskGroup
    shape: Shape  # of its next task; of a gang, that of the task that is placed first
    server: Server  # with room for that task; in some ways, the one where it starts
    # Where the tasks of a gang would start, until another task starts; empty for a single task.
    plan: Plan
    score: int  # at most the score of the queue
    is_exact: bool = False  # it is the score

    def __init__(
        self, group: TaskGroup, shape: Shape, server: Server, plan: Plan, score: int
    ) -> None:
        self.queue = group.line.queue
        self.group = group
        self.shape = shape
        self.server = server
        self.plan = plan
        self.score = score

    def still_holds(self) -> bool:
        """Return whether it is still the first group with room, after other tasks started."""
        return not self.plan and self.group.waiting > 0 and has_room(self.server, self.shape)

    def is_before(self, other: Candidate) -> bool:
        """Return whether it has the lesser score; those of weight 0 come last."""
        if (self.queue.weight[0] == 0) != (other.queue.weight[0] == 0):
            return other.queue.weight[0] == 0
        return self.score < other.score


class Comparison(Placing):
    """Serves the queue with the least score for its first task with room."""

    # The candidates of queues during a call of `place`; None for a queue without room.
    kept: dict[Queue, Candidate | None]

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        self.kept = {}

    def prepare(self) -> None:
        """Bring up to date what changed since the last call, and forget its candidates."""
        super().prepare()
        self.kept = {}

    def place_next(self, started: list[Task]) -> bool:
        """Start the next task or gang; return whether there is one."""
        candidates: list[Candidate] = []
        for queue in self.state.root.served:
            candidate = self.candidate(queue)
            if candidate is not None:
                candidates.append(candidate)
        least = self.least(candidates)
        if least is None:
            return False
        self.start(least, self.choose(least), started)
        return True

    def candidate(self, queue: Queue) -> Candidate | None:
        """1. What: return the first group of a queue that has room."""
        kept = self.kept.get(queue)
        if kept is None:
            if queue in self.kept:
                return None  # a queue without room has none until a server is freed
        elif kept.still_holds():
            return kept
        found = self.find_candidate(queue)
        if found is not None and kept is not None and found.shape is kept.shape:
            found.score = max(found.score, kept.score)
        self.kept[queue] = found
        return found

    def find_candidate(self, queue: Queue) -> Candidate | None:
        """Find the first group of a queue with room; park the groups before it."""
        while True:
            group = first_to_try(queue, self.state.freed)
            if group is None or (self.is_strict and is_behind_gang(queue, group)):
                return None
            candidate = self.try_group(group)
            if candidate is not None:
                return candidate
            if not isinstance(group, Gang):
                if self.is_strict:
                    return None
                park(group.line)

    def try_group(self, group: TaskGroup) -> Candidate | None:
        """Return a group as a candidate if it has room; park a gang that has none."""
        if isinstance(group, Gang):
            plan = self.plan_gang(group)
            if plan:
                return self.gang_candidate(group, plan)
            self.state.park_gang(group)
            return None
        server = self.state.selection.find(group.shape)
        if server is None:
            return None
        bound = self.state.criterion.bound(group.line.queue, group.shape, None)
        return Candidate(group, group.shape, server, [], bound)

    def gang_candidate(self, gang: Gang, plan: Plan) -> Candidate:
        """Return a gang that has room as a candidate."""
        index, server = plan[0]
        shape = gang.shape_of(index)
        bound = self.state.criterion.bound(gang.line.queue, shape, server)
        return Candidate(gang, shape, server, plan, bound)

    def least(self, candidates: list[Candidate]) -> Candidate | None:
        """2. Who: return the candidate with the least score, the first of equals."""
        while True:
            least: Candidate | None = None
            for candidate in candidates:
                if least is None or candidate.is_before(least):
                    least = candidate
            if least is None or least.is_exact:
                return least
            self.rescore(least)
            least.is_exact = True

    def rescore(self, candidate: Candidate) -> None:
        """Compute a candidate's score anew."""
        criterion = self.state.criterion
        candidate.score = criterion.score_of(
            candidate.group.line.queue, candidate.shape, candidate.server
        )

    def choose(self, candidate: Candidate) -> Server:
        """3. Where: return the server for a candidate that has room."""
        server = self.state.selection.find(candidate.shape)
        assert server is not None
        return server

    def start(self, candidate: Candidate, server: Server, started: list[Task]) -> None:
        """4. Book: start the task of a candidate on a server, or its gang as planned."""
        group = candidate.group
        if isinstance(group, Gang):
            self.book_plan(group, candidate.plan, started)
        else:
            self.book(group, server, started)
        for kept in self.kept.values():
            if kept is not None:
                kept.is_exact = self.stays_exact(kept, candidate)

    def stays_exact(self, kept: Candidate, started: Candidate) -> bool:  # noqa: ARG002
        """Return whether a score is still exact after another candidate started."""
        return False

"""The way of a task where scores are known before a server is chosen.

1. Who: from the root of the queues down, the least score among queues that can start a task.
2. What: in that queue, the first group of which a task has room somewhere.
3. Where: the server that the selection names.
4. Book: as in all ways; see `placing`.
"""

from __future__ import annotations

from fairlead.scheduler.placing import Placing
from fairlead.scheduler.tables import Gang, Queue, Server, Task, TaskGroup
from fairlead.scheduler.waiting import first_to_try, is_behind_gang, park


class Cycle(Placing):
    """Serves the queue with the least score first."""

    def place_next(self, started: list[Task]) -> bool:
        """Start the next task or gang; return whether there is one."""
        return self.serve(self.state.root, started)

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
            group = first_to_try(queue, state.freed)
            if group is None or (self.is_strict and is_behind_gang(queue, group)):
                return False
            if isinstance(group, Gang):
                if self.start_gang(group, started):
                    return True
                state.park_gang(group)
                continue
            server = self.choose(group, group.line.row >= 0)
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

    def start_gang(self, gang: Gang, started: list[Task]) -> bool:
        """Start all waiting tasks of a gang, if there is room for all of them at once."""
        plan = self.plan_gang(gang)
        self.book_plan(gang, plan, started)
        return len(plan) > 0

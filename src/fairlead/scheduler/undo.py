"""Undo: each event leaves a step behind that takes it back by the inverse event.

That is exact, because all that decides is whole numbers and keys of order. Steps are taken back in
reverse order. What is derived (indexes, turns, parked lines) follows the inverse events like any
others; only which gangs are parked is restored by steps, as it decides which are tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler.tables import Gang, Queue, Server, Task, TaskGroup

if TYPE_CHECKING:
    from fairlead.scheduler.snapshot_rows import RoundsRow
    from fairlead.scheduler.state import State


class Step:
    """An event that can be taken back."""

    def undo(self, state: State) -> None:
        """Take the event back."""
        raise NotImplementedError


class Joined(Step):
    """A server joined."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def undo(self, state: State) -> None:
        """Remove the server."""
        state.leave(self.server)


class Left(Step):
    """A server left; it was drained before, and nothing ran on it."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def undo(self, state: State) -> None:
        """Add the server, drained."""
        state.join(self.server)


class Opened(Step):
    """Tasks may start on a server."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def undo(self, state: State) -> None:
        """Drain the server."""
        state.close(self.server)


class Closed(Step):
    """No more tasks may start on a server."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def undo(self, state: State) -> None:
        """Let tasks start on the server."""
        state.open(self.server)


class Changed(Step):
    """A server has another capacity, or other labels."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.given: vec[i64] = server.given
        self.labels = server.labels

    def undo(self, state: State) -> None:
        """Give the server its earlier capacity and labels."""
        state.change(self.server, self.given, self.labels)
        state.free_up(self.server)


class Started(Step):
    """A task started."""

    def __init__(self, task: Task, was_returned: bool) -> None:
        self.task = task
        self.was_returned = was_returned

    def undo(self, state: State) -> None:
        """Let the task wait as before."""
        state.take_back(self.task, self.was_returned)


class Stopped(Step):
    """A task stopped."""

    def __init__(self, task: Task, waits_again: bool) -> None:
        self.task = task
        self.waits_again = waits_again

    def undo(self, state: State) -> None:
        """Let the task run as before."""
        state.run_again(self.task, self.waits_again)


class Entered(Step):
    """A group was submitted."""

    def __init__(self, group: TaskGroup) -> None:
        self.group = group

    def undo(self, state: State) -> None:
        """Remove the group."""
        state.withdraw(self.group)


class Forgotten(Step):
    """A group ended."""

    def __init__(self, group: TaskGroup) -> None:
        self.group = group

    def undo(self, state: State) -> None:
        """Know the group again."""
        state.remember(self.group)


class Dropped(Step):
    """The waiting tasks of a group were given up."""

    def __init__(self, group: TaskGroup) -> None:
        self.group = group
        self.end = int(group.end)
        self.returned = group.returned
        self.starts = group.starts
        self.is_over = group.is_over

    def undo(self, state: State) -> None:
        """Let those tasks wait."""
        group = self.group
        group.end = self.end
        group.returned = self.returned
        group.starts = self.starts
        group.is_over = self.is_over
        queue = group.line.queue
        state.count_tasks(queue, group.waiting, 0)
        state.enlist(group)
        state.rank(queue)


class Prioritised(Step):
    """A group got another priority."""

    def __init__(self, group: TaskGroup) -> None:
        self.group = group
        self.priority = group.priority

    def undo(self, state: State) -> None:
        """Give the group its earlier priority."""
        state.set_priority(self.group, self.priority)


class Failed(Step):
    """A failure was counted."""

    def __init__(self, group: TaskGroup, index: int) -> None:
        self.group = group
        self.index = index

    def undo(self, state: State) -> None:  # noqa: ARG002 (it changes the group alone)
        """Count one failure less."""
        failures = self.group.failures
        if failures is not None:
            failures[self.index] -= 1
            if failures[self.index] == 0:
                del failures[self.index]
            if not failures:
                self.group.failures = None


class QueueAdded(Step):
    """A queue was added."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    def undo(self, state: State) -> None:
        """Remove the queue."""
        state.remove_queue(self.queue)


class QueueRemoved(Step):
    """A queue was removed."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    def undo(self, state: State) -> None:
        """Add the queue."""
        state.add_queue(self.queue)


class Weighted(Step):
    """A queue got another weight."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.weight = queue.weight

    def undo(self, state: State) -> None:
        """Give the queue its earlier weight."""
        state.set_weight(self.queue, self.weight)


class Parked(Step):
    """A gang had no room."""

    def __init__(self, gang: Gang) -> None:
        self.gang = gang

    def undo(self, state: State) -> None:
        """Let the gang be tried."""
        state.unpark_gang(self.gang)


class Unparked(Step):
    """A gang may be tried again."""

    def __init__(self, gang: Gang) -> None:
        self.gang = gang

    def undo(self, state: State) -> None:
        """Pass the gang over."""
        state.park_gang(self.gang)


class WhatIf:
    """A block of events that are taken back at its end; blocks may stand in one another."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.mark = 0
        self.is_outermost = False
        self.now = 0.0
        self.ids = 0
        self.joined = 0
        self.added = 0
        self.used: list[int] = []
        self.rounds: RoundsRow | None = None

    def __enter__(self) -> None:
        """Begin to note steps."""
        state = self.state
        self.is_outermost = state.steps is None
        if state.steps is None:
            state.steps = []
        self.mark = len(state.steps)
        self.now = state.now
        self.ids, self.joined, self.added = state.ids, state.joined, state.added
        self.used = state.used
        self.rounds = state.rounds.save()

    def __exit__(self, *fault: object) -> None:
        """Take all steps back."""
        state = self.state
        steps = state.steps
        state.steps = None
        state.is_undoing = True
        if steps is not None:
            while len(steps) > self.mark:
                steps.pop().undo(state)
        state.is_undoing = False
        state.now = self.now
        state.ids, state.joined, state.added = self.ids, self.joined, self.added
        state.used = self.used
        if self.rounds is not None:
            state.rounds.restore(self.rounds)
        state.steps = None if self.is_outermost else steps

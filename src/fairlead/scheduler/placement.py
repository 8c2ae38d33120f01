"""What `Scheduler.place` returns of each task that starts."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from fairlead.scheduler.tables import Task


@mypyc_attr(acyclic=True)
class Placement:
    """A task that starts.

    Attributes
    ----------
    task, group : int
        Ids; a task gets another one each time it starts.
    queue, server : str
    attempt : int
        1 for the first start of this task.
    index : int
        Which of the group's tasks.
    """

    def __init__(
        self, task: int, group: int, queue: str, server: str, attempt: int, index: int
    ) -> None:
        self.task: Final = task
        self.group: Final = group
        self.queue: Final = queue
        self.server: Final = server
        self.attempt: Final = attempt
        self.index: Final = index

    def __eq__(self, other: object) -> bool:
        """Compare all fields."""
        return (
            isinstance(other, Placement)
            and self.task == other.task
            and self.group == other.group
            and self.queue == other.queue
            and self.server == other.server
            and self.attempt == other.attempt
            and self.index == other.index
        )

    def __hash__(self) -> int:
        """Hash the task."""
        return hash(self.task)

    def __repr__(self) -> str:
        """Return all fields as text."""
        where = f"queue={self.queue!r}, server={self.server!r}"
        which = f"attempt={self.attempt}, index={self.index}"
        return f"Placement(task={self.task}, group={self.group}, {where}, {which})"


def placement_of(task: Task) -> Placement:
    """Return the placement of a task."""
    group, server = task.group, task.server
    queue = group.line.queue
    return Placement(task.id, group.id, queue.name, server.name, task.attempt, task.index)

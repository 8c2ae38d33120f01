"""The fields of a snapshot.

This module is never compiled: a build has no pydantic, and a compiled typed dictionary is one of
``typing``, where pydantic takes those of ``typing_extensions`` alone before Python 3.12.
"""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from typing_extensions import TypedDict


class Head(TypedDict):
    """The first line: the format, its version, and the digest of the second line."""

    format: str
    version: int
    sha256: str


class ServerRow(TypedDict):
    """A server.

    ``order`` and ``joined`` are its place in the order; ``capacity`` is in quanta. Conditions may
    name the ``group``.
    """

    name: str
    group: str
    order: int
    joined: int
    capacity: list[int]
    labels: list[tuple[str, str]]
    draining: bool


class QueueRow(TypedDict):
    """A queue; its weight is a numerator and a denominator, ``parent`` is null at the top."""

    name: str
    serial: int
    weight: tuple[int, int]
    parent: str | None


class ShapeRow(TypedDict):
    """What a task takes in quanta, and the labels and names of servers where it may run."""

    demand: list[int]
    labels: list[tuple[str, str]]
    names: list[str] | None


class GroupRow(TypedDict):
    """A group of tasks.

    ``parts`` has the number of the shape and of the tasks of each part. Tasks from ``fresh`` up to
    ``end`` never ran. ``returned`` has earlier ones that wait again, and how often each started;
    ``failures`` has how often each failed. A parked gang waits for a server to be freed.
    """

    id: int
    queue: str
    parts: list[tuple[int, int]]
    gang: bool
    parked: bool
    over: bool
    priority: int
    time: float
    limit: float | None
    attempts: int | None
    fresh: int
    end: int
    returned: list[tuple[int, int]]
    failures: list[tuple[int, int]]


class TaskRow(TypedDict):
    """A running task, and since when it runs."""

    id: int
    group: int
    index: int
    server: str
    attempt: int
    since: float


class RoundsRow(TypedDict):
    """What round-robin and offers keep.

    ``random`` is the state of NumPy's PCG64. ``left`` has the servers that the round under way
    still visits, the next one last. ``taker`` is the queue and the server of the offer under way.
    ``declined`` has server, queue, numerator and denominator of the time until when, and whether
    the server has had more to offer since. ``now`` is a numerator and a denominator.
    """

    random: tuple[int, int, int, int]
    left: list[str]
    idle: bool
    taker: tuple[str, str] | None
    declined: list[tuple[str, str, int, int, bool]]
    now: tuple[int, int]


class Settings(TypedDict):
    """The arguments that the scheduler was made with; fractions are pairs of integers."""

    resources: list[str]
    policy: str
    quanta: list[tuple[int, int]]
    largest: list[int] | None
    seed: int
    strict_fifo: bool
    refuse_seconds: tuple[int, int]


class Body(TypedDict):
    """The second line of a snapshot; ``ids`` counts groups and tasks so far."""

    settings: Settings
    now: float
    ids: int
    joined: int
    added: int
    servers: list[ServerRow]
    queues: list[QueueRow]
    shapes: list[ShapeRow]
    groups: list[GroupRow]
    tasks: list[TaskRow]
    rounds: RoundsRow


def line_of(row: Head | Body) -> bytes:
    """Return a line of a snapshot as JSON."""
    return to_json(row)


def read_head(line: bytes) -> Head | None:
    """Return the first line of a snapshot; None if it is none."""
    try:
        return TypeAdapter(Head).validate_json(line)
    except ValidationError:
        return None


def read_body(line: bytes) -> Body | None:
    """Return the second line of a snapshot; None if it is none."""
    try:
        return TypeAdapter(Body).validate_json(line)
    except ValidationError:
        return None

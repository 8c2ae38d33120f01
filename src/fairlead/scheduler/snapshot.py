"""Snapshots: what a scheduler knows, as text that another process restores to the same future.

A snapshot is two lines of JSON. The first has the format, its version and a digest of the second,
which tells what is damaged. Everything derived (indexes, turns, parked lines) is rebuilt. The same
events give the same bytes. `snapshot_rows` has each field.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from fairlead.errors import InputError
from fairlead.scheduler.snapshot_rows import (
    Body,
    GroupRow,
    Head,
    QueueRow,
    ServerRow,
    Settings,
    ShapeRow,
    TaskRow,
    line_of,
    read_body,
    read_head,
)
from fairlead.scheduler.state import State, sorted_by_serial
from fairlead.scheduler.tables import (
    UNLIMITED,
    Gang,
    Member,
    Queue,
    Server,
    Shape,
    Task,
    TaskGroup,
)

FORMAT: Final = "fairlead scheduler"
VERSION: Final = 1


def written(state: State, settings: Settings) -> bytes:
    """Return a snapshot. O(servers, queues, groups and running tasks)."""
    numbers: dict[Shape, int] = {}
    for id in sorted(state.groups):
        for shape in state.groups[id].shapes():
            numbers.setdefault(shape, len(numbers))
    body: Body = {
        "settings": settings,
        "now": state.now,
        "ids": state.ids,
        "joined": state.joined,
        "added": state.added,
        "servers": [server_row(server) for server in in_order_of_joining(state)],
        "queues": [queue_row(queue) for queue in sorted_by_serial(state.queues.values())],
        "shapes": [shape_row(shape) for shape in numbers],
        "groups": [group_row(state.groups[id], numbers) for id in sorted(state.groups)],
        "tasks": [task_row(state.running[id]) for id in sorted(state.running)],
        "rounds": state.rounds.save(),
    }
    line = line_of(body)
    head: Head = {"format": FORMAT, "version": VERSION, "sha256": sha256(line).hexdigest()}
    return line_of(head) + b"\n" + line + b"\n"


def read(data: object) -> Body:
    """Return what a snapshot has.

    Raises
    ------
    InputError
        When it is no snapshot, damaged, or of another version.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InputError(f"must be the bytes of a snapshot, not {data!r:.60}", "data")
    first, _, rest = bytes(data).partition(b"\n")
    head = read_head(first)
    if head is None or head["format"] != FORMAT:
        raise InputError("is no snapshot of a scheduler", "data")
    if head["version"] != VERSION:
        fault = f"is a snapshot of version {head['version']}; this version reads {VERSION}"
        raise InputError(fault, "data")
    if not rest.endswith(b"\n") or sha256(rest[:-1]).hexdigest() != head["sha256"]:
        raise InputError("is a damaged snapshot", "data")
    body = read_body(rest)
    if body is None:
        raise InputError("is a damaged snapshot", "data")
    return body


def restore(state: State, body: Body) -> None:
    """Restore a snapshot into an empty state."""
    for server in body["servers"]:
        restore_server(state, server)
    for queue in body["queues"]:
        parent = queue["parent"]
        above = state.root if parent is None else state.queues[parent]
        state.add_queue(Queue(queue["name"], queue["serial"], queue["weight"], above, state.width))
    members: list[Member] = []
    for shape in body["shapes"]:
        names = shape["names"]
        where = (frozenset(shape["labels"]), None if names is None else frozenset(names))
        members.append(Member(shape["demand"], 1, where))
    shapes = state.find_shapes(members)
    for group in body["groups"]:
        restore_group(state, group, shapes)
    for task in body["tasks"]:
        found = state.groups[task["group"]]
        place = state.servers[task["server"]]
        state.book(Task(task["id"], found, task["index"], place, task["attempt"], task["since"]), 0)
    state.used = state.count_used()
    state.now = body["now"]
    state.ids, state.joined, state.added = body["ids"], body["joined"], body["added"]
    state.rounds.restore(body["rounds"])


def restore_server(state: State, row: ServerRow) -> None:
    """Add a server to a state."""
    order, joined, labels = row["order"], row["joined"], frozenset(row["labels"])
    server = Server(row["name"], order, joined, row["capacity"], labels, row["group"])
    state.join(server)
    if not row["draining"]:
        state.open(server)


def restore_group(state: State, row: GroupRow, shapes: list[Shape]) -> None:
    """Add a group to a state, without its running tasks."""
    queue = state.queues[row["queue"]]
    priority, time = row["priority"], row["time"]
    limit = UNLIMITED if row["limit"] is None else row["limit"]
    parts = [(shapes[number], tasks) for number, tasks in row["parts"]]
    group = state.make_group(
        row["id"], queue, parts, row["gang"], priority, time, row["attempts"], limit
    )
    group.fresh = row["fresh"]
    group.end = row["end"]
    group.is_over = row["over"]
    if row["returned"]:
        group.returned = [index for index, _ in row["returned"]]
        group.starts = dict(row["returned"])
    if row["failures"]:
        group.failures = dict(row["failures"])
    state.wait(group)
    if isinstance(group, Gang) and row["parked"]:
        state.park_gang(group)


def in_order_of_joining(state: State) -> list[Server]:
    """Return all servers in the order in which they joined."""
    by_number = {int(server.joined): server for server in state.servers.values()}
    return [by_number[number] for number in sorted(by_number)]


def server_row(server: Server) -> ServerRow:
    """Return the row of a server."""
    return {
        "name": server.name,
        "group": server.group,
        "order": int(server.order),
        "joined": int(server.joined),
        "capacity": server.given,
        "labels": sorted(server.labels),
        "draining": server.is_draining,
    }


def queue_row(queue: Queue) -> QueueRow:
    """Return the row of a queue."""
    parent = queue.parent
    return {
        "name": queue.name,
        "serial": queue.serial,
        "weight": queue.weight,
        "parent": None if parent is None or parent.parent is None else parent.name,
    }


def shape_row(shape: Shape) -> ShapeRow:
    """Return the row of a shape."""
    names = shape.place.names
    return {
        "demand": [int(amount) for amount in shape.given],
        "labels": sorted(shape.place.labels),
        "names": None if names is None else sorted(names),
    }


def group_row(group: TaskGroup, numbers: dict[Shape, int]) -> GroupRow:
    """Return the row of a group."""
    starts, failures = group.starts or {}, group.failures or {}
    parts: list[tuple[int, int]] = []
    if isinstance(group, Gang):
        before = 0
        for shape, end in zip(group.parts, group.ends, strict=True):
            parts.append((numbers[shape], end - before))
            before = end
    else:
        parts.append((numbers[group.shape], int(group.end)))
    return {
        "id": group.id,
        "queue": group.line.queue.name,
        "parts": parts,
        "gang": isinstance(group, Gang),
        "parked": isinstance(group, Gang) and group.is_parked,
        "over": group.is_over,
        "priority": group.priority,
        "time": group.time,
        "limit": None if group.limit == UNLIMITED else group.limit,
        "attempts": group.attempts,
        "fresh": int(group.fresh),
        "end": int(group.end),
        "returned": [(index, starts[index]) for index in group.returned or []],
        "failures": sorted(failures.items()),
    }


def task_row(task: Task) -> TaskRow:
    """Return the row of a running task."""
    return {
        "id": task.id,
        "group": task.group.id,
        "index": task.index,
        "server": task.server.name,
        "attempt": task.attempt,
        "since": task.since,
    }

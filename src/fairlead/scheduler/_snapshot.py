"""Snapshots: the state of a scheduler as text, from which another process can continue.

A snapshot is two lines of JSON. The first has the format, its version and a digest of the second,
which detects damage. Derived data (indexes, ranks, parked waiting lists of shapes) is rebuilt. The
same events give the same bytes, and a restored scheduler makes the same placements.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NotRequired

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from typing_extensions import TypedDict  # pydantic rejects that of typing before Python 3.12

from fairlead.errors import InputError
from fairlead.scheduler._entities import (
    UNLIMITED,
    Constraint,
    ConstraintKey,
    Gang,
    Limit,
    Member,
    Plan,
    PlannedTask,
    Queue,
    Quota,
    Server,
    Shape,
    Task,
    TaskGroup,
    Terms,
    devices_of,
    sorted_by_serial,
)
from fairlead.scheduler._state import PlannedStart, State

FORMAT: Final = "fairlead scheduler"
VERSION: Final = 1


class Head(TypedDict):
    """The first line: the format, its version, and the digest of the second line."""

    format: str
    version: int
    sha256: str


class ServerRow(TypedDict):
    """A server.

    ``order`` and ``joined`` give its position; ``capacity`` (R,) is in quanta. Constraints may name
    the ``group``.
    """

    name: str
    group: str
    order: int
    joined: int
    capacity: list[int]
    labels: list[tuple[str, str]]
    draining: bool


class QuotaRow(TypedDict):
    """The amounts of a quota in quanta, -1 for none; labels and names of its servers."""

    amounts: list[int]
    labels: list[tuple[str, str]]
    names: list[str] | None


class QueueRow(TypedDict):
    """A queue; ``weight`` is a numerator and a denominator, ``parent`` is null below the root."""

    name: str
    serial: int
    weight: tuple[int, int]
    parent: str | None
    limit: NotRequired[tuple[list[int], int]]  # amounts and tasks; absent without a limit
    quotas: NotRequired[list[QuotaRow]]  # absent without quotas
    used: NotRequired[tuple[list[float], float]]  # past use and its time; absent unless it counts
    last_runs: NotRequired[list[float]]  # in seconds; absent unless run times are predicted


class ShapeRow(TypedDict):
    """The demand (R,) of a task in quanta, and the labels and names of its constraint."""

    demand: list[int]
    labels: list[tuple[str, str]]
    names: list[str] | None


class GroupRow(TypedDict):
    """A group of tasks.

    ``parts`` has the index of each shape of the group in ``shapes``, and its number of tasks. Tasks
    from ``fresh`` up to ``end`` never ran. ``returned`` has the tasks that wait again, with their
    number of starts; ``failures`` has tasks with their number of failures. A ``parked`` gang waits
    until a server is freed. ``time`` and ``limit`` (of one run) are in seconds.
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
    """A running task; ``since`` is the time of its start in seconds."""

    id: int
    group: int
    index: int
    server: str
    attempt: int
    since: float
    stopping: NotRequired[bool]  # absent unless it is a victim of preemption
    devices: NotRequired[dict[int, list[int]]]  # numbers, by resource; absent without devices
    expected_end: NotRequired[float]  # in seconds; absent unless predicted


class ReservedRow(TypedDict):
    """A reserved start: a group, the indices of its tasks with their servers, and the time."""

    group: int
    plan: list[tuple[int, str]]
    at: float
    devices: NotRequired[list[dict[int, list[int]]]]  # of each task; absent without devices


class RoundsRow(TypedDict):
    """The current round and the declined offers.

    ``random`` is the state of NumPy's PCG64. ``left`` has the servers that the round has still to
    visit, the next one last. ``idle`` is whether it has placed no task; under ``/oblivious``,
    whether it has made no offer. ``taker`` is the queue and the server of the current offer.
    ``declined`` has server, queue, numerator and denominator of the time of the next offer, and
    whether the server was freed since. ``now``, in seconds, is a numerator and a denominator.
    """

    random: tuple[int, int, int, int]
    left: list[str]
    idle: bool
    taker: tuple[str, str] | None
    declined: list[tuple[str, str, int, int, bool]]
    now: tuple[int, int]


class Settings(TypedDict):
    """The arguments of the scheduler; fractions are pairs of integers."""

    resources: list[str]
    policy: str
    quanta: list[tuple[int, int]]
    largest: list[int] | None
    seed: int
    strict_fifo: bool
    refuse_seconds: tuple[int, int]
    devices: NotRequired[list[str]]  # absent without devices


class Body(TypedDict):
    """The second line of a snapshot.

    ``ids``, ``joined`` and ``added`` are the numbers of ids, servers and queues added so far. Tasks
    with ids from ``settled`` on started after the last change from outside, and are not preempted.
    """

    settings: Settings
    now: float
    ids: int
    settled: NotRequired[int]
    joined: int
    added: int
    servers: list[ServerRow]
    queues: list[QueueRow]
    shapes: list[ShapeRow]
    groups: list[GroupRow]
    tasks: list[TaskRow]
    reserved: NotRequired[list[ReservedRow]]  # absent without reservations
    rounds: RoundsRow


# Built once, because building takes ten times as long as reading a small snapshot.
HEAD: Final = TypeAdapter(Head)
BODY: Final = TypeAdapter(Body)


def write_snapshot(state: State, settings: Settings) -> bytes:
    """Return a state and the arguments of its scheduler as bytes."""
    shape_numbers: dict[Shape, int] = {}
    for id in sorted(state.groups):
        for shape in state.groups[id].shapes():
            shape_numbers.setdefault(shape, len(shape_numbers))
    body: Body = {
        "settings": settings,
        "now": state.now,
        "ids": state.ids,
        "settled": state.first_new_id,
        "joined": state.joined,
        "added": state.added,
        "servers": [server_row(each) for each in sorted(state.servers.values(), key=join_number)],
        "queues": [queue_row(queue) for queue in sorted_by_serial(state.queues.values())],
        "shapes": [shape_row(shape) for shape in shape_numbers],
        "groups": [group_row(state.groups[id], shape_numbers) for id in sorted(state.groups)],
        "tasks": [task_row(state.running[id]) for id in sorted(state.running)],
        "rounds": state.rounds.save(),
    }
    if state.reserved:
        body["reserved"] = [reserved_row(planned) for planned in state.reserved]
    line = to_json(body)
    head: Head = {"format": FORMAT, "version": VERSION, "sha256": sha256(line).hexdigest()}
    return to_json(head) + b"\n" + line + b"\n"


def read_snapshot(data: object) -> Body:
    """Return the content of a snapshot; raise InputError for any other data."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InputError(f"must be the bytes of a snapshot, not {data!r:.60}", "data")
    first, _, rest = bytes(data).partition(b"\n")
    try:
        head = HEAD.validate_json(first)
    except ValidationError:
        raise InputError("is not a snapshot of a scheduler", "data") from None
    if head["format"] != FORMAT:
        raise InputError("is not a snapshot of a scheduler", "data")
    if head["version"] != VERSION:
        message = f"is a snapshot of version {head['version']}; only version {VERSION} can be read"
        raise InputError(message, "data")
    if not rest.endswith(b"\n") or sha256(rest[:-1]).hexdigest() != head["sha256"]:
        raise InputError("is a damaged snapshot", "data")
    try:
        return BODY.validate_json(rest)
    except ValidationError:
        raise InputError("is a damaged snapshot", "data") from None


def restore_state(state: State, body: Body) -> None:
    """Fill an empty state with the content of a snapshot.

    The order matters: servers, queues, shapes and groups come before the rows that refer to them.
    Counters and the time come last, because adding entities changes them.
    """
    for server in body["servers"]:
        restore_server(state, server)
    for queue in body["queues"]:
        parent = queue["parent"]
        above = state.root if parent is None else state.queues[parent]
        added = Queue(queue["name"], queue["serial"], queue["weight"], above, state.width)
        if "limit" in queue:
            added.limit = Limit(*queue["limit"])
            added.is_limited = True
        state.add_queue(added)
        for quota in queue.get("quotas", []):
            state.guarantee(added, constraint_key(quota), quota["amounts"])
    members: list[Member] = []
    for shape in body["shapes"]:
        members.append(Member(shape["demand"], 1, constraint_key(shape)))
    shapes = state.find_shapes(members)
    for group in body["groups"]:
        restore_group(state, group, shapes)
    for group in body["groups"]:  # after all groups: a new constraint may unpark a gang
        gang = state.groups[group["id"]]
        if isinstance(gang, Gang) and group["parked"]:
            state.park_gang(gang)
    for task in body["tasks"]:
        of_group = state.groups[task["group"]]
        host = state.servers[task["server"]]
        running = Task(task["id"], of_group, task["index"], host, task["attempt"], task["since"])
        if "expected_end" in task:
            running.predicted_end = task["expected_end"]
        running.devices = devices_of(running.shape, task.get("devices", {}))
        state.book(running, 0)
        if task.get("stopping", False):
            state.mark_stopping(running)
    state.amount_sums = state.recount_sums()
    for queue in body["queues"]:
        known = state.queues[queue["name"]]
        if "used" in queue:
            known.past_use, known.past_use_at = queue["used"]
        known.last_runs = queue.get("last_runs", [])
    state.reserved = [planned_start(state, row) for row in body.get("reserved", [])]
    state.set_time(body["now"])
    state.ids, state.joined, state.added = body["ids"], body["joined"], body["added"]
    state.first_new_id = body.get("settled", state.ids)
    state.rounds.restore(body["rounds"])


def constraint_key(row: QuotaRow | ShapeRow) -> ConstraintKey:
    names = row["names"]
    return frozenset(row["labels"]), None if names is None else frozenset(names)


def restore_server(state: State, row: ServerRow) -> None:
    order, joined, labels = row["order"], row["joined"], frozenset(row["labels"])
    server = Server(row["name"], order, joined, row["capacity"], labels, row["group"])
    state.join(server)
    if not row["draining"]:
        state.open(server)


def restore_group(state: State, row: GroupRow, shapes: list[Shape]) -> None:
    queue = state.queues[row["queue"]]
    limit = UNLIMITED if row["limit"] is None else row["limit"]
    terms = Terms(row["time"], row["priority"], row["attempts"], limit)
    parts = [(shapes[number], tasks) for number, tasks in row["parts"]]
    group = state.make_group(row["id"], queue, parts, row["gang"], terms)
    group.fresh = row["fresh"]
    group.end = row["end"]
    group.is_over = row["over"]
    if row["returned"]:
        group.returned = [index for index, _ in row["returned"]]
        group.starts = dict(row["returned"])
    if row["failures"]:
        group.failures = dict(row["failures"])
    state.add_group(group)


def planned_start(state: State, row: ReservedRow) -> PlannedStart:
    group = state.groups[row["group"]]
    plan: Plan = []
    for number, (index, name) in enumerate(row["plan"]):
        server = state.servers[name]
        task = PlannedTask(index, group.shape_of(index), server, server.free)
        task.devices = devices_of(task.shape, row["devices"][number] if "devices" in row else {})
        plan.append(task)
    return PlannedStart(group, plan, row["at"])


def join_number(server: Server) -> int:
    """Return how many servers joined before a server."""
    return int(server.joined)


def server_row(server: Server) -> ServerRow:
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
    parent = queue.parent
    row: QueueRow = {
        "name": queue.name,
        "serial": queue.serial,
        "weight": queue.weight,
        "parent": None if parent is None or parent.parent is None else parent.name,
    }
    if queue.limit is not None:
        row["limit"] = [int(amount) for amount in queue.limit.amounts], int(queue.limit.tasks)
    if queue.past_use:
        row["used"] = queue.past_use, queue.past_use_at
    if queue.last_runs:
        row["last_runs"] = queue.last_runs
    if queue.quotas:
        row["quotas"] = [quota_row(quota) for quota in queue.quotas]
    return row


def quota_row(quota: Quota) -> QuotaRow:
    labels, names = constraint_rows(quota.constraint)
    return {"amounts": [int(amount) for amount in quota.amounts], "labels": labels, "names": names}


def shape_row(shape: Shape) -> ShapeRow:
    labels, names = constraint_rows(shape.constraint)
    return {"demand": [int(amount) for amount in shape.given], "labels": labels, "names": names}


def constraint_rows(constraint: Constraint) -> tuple[list[tuple[str, str]], list[str] | None]:
    """Return the labels and the names of a constraint."""
    names = constraint.names
    return sorted(constraint.labels), None if names is None else sorted(names)


def group_row(group: TaskGroup, shape_numbers: dict[Shape, int]) -> GroupRow:
    """Return the row of a group; `shape_numbers` has the index of each shape in ``shapes``."""
    starts, failures = group.starts or {}, group.failures or {}
    ends = group.ends if isinstance(group, Gang) else [int(group.end)]
    rows = zip(group.shapes(), [0, *ends], ends, strict=False)
    parts = [(shape_numbers[shape], end - first) for shape, first, end in rows]
    return {
        "id": group.id,
        "queue": group.waiting_list.queue.name,
        "parts": parts,
        "gang": isinstance(group, Gang),
        "parked": isinstance(group, Gang) and group.is_parked,
        "over": group.is_over,
        "priority": group.priority,
        "time": group.time,
        "limit": None if group.time_limit == UNLIMITED else group.time_limit,
        "attempts": group.attempts,
        "fresh": int(group.fresh),
        "end": int(group.end),
        "returned": [(index, starts[index]) for index in group.returned or []],
        "failures": sorted(failures.items()),
    }


def task_row(task: Task) -> TaskRow:
    row: TaskRow = {
        "id": task.id,
        "group": task.group.id,
        "index": task.index,
        "server": task.server.name,
        "attempt": task.attempt,
        "since": task.since,
    }
    if task.is_stopping:
        row["stopping"] = True
    if task.devices:
        row["devices"] = task.device_numbers()
    if task.predicted_end < UNLIMITED:
        row["expected_end"] = task.predicted_end
    return row


def reserved_row(planned: PlannedStart) -> ReservedRow:
    plan = [(task.index, task.server.name) for task in planned.plan]
    row: ReservedRow = {"group": planned.group.id, "plan": plan, "at": planned.at}
    if any(task.devices for task in planned.plan):
        row["devices"] = planned.device_numbers()
    return row

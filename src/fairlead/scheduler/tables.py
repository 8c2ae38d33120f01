"""The tables: servers, shapes, groups of tasks, queues and running tasks.

Amounts are whole quanta, one number per resource. Under ``slots:N`` the scheduler counts slots
first, and amounts only of resources that are not in a slot.
"""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64

if TYPE_CHECKING:
    from fairlead.scheduler.selection.first_fit import Block
    from fairlead.scheduler.selection.lots import Lot

NOT_TAKEN: Final = -(2**62)  # less than any server has free
UNLIMITED: Final = float("inf")
MANY: Final = 2**62  # tasks; more than any group has

Labels = frozenset[tuple[str, str]]
PlaceKey = tuple[Labels, frozenset[str] | None]

# Keys that are compared as a whole, never read. A tuple of any length is one object when compiled.
Order = tuple[float, ...]  # of a group in its queue: minus the priority, time of submission, id
Turn = tuple[float, ...]  # of a queue: 1 for weight 0, the score, the order of equal queues


def zeros(width: i64) -> vec[i64]:
    """Return a packed array of zeros."""
    return vec[i64]([0] * int(width))


def no_room(width: i64) -> vec[i64]:
    """Return free amounts with room for no task, whatever it takes."""
    return vec[i64]([NOT_TAKEN - 1] * int(width))


def most_of(rows: vec[i64], width: i64) -> vec[i64]:
    """Return the largest of each amount in rows of free amounts, one after the other."""
    most = no_room(width)
    at: i64 = 0
    while at < len(rows):
        for r in range(width):
            most[r] = max(most[r], rows[at + r])
        at += width
    return most


def add_to(amounts: vec[i64], demand: vec[i64], sign: i64) -> None:
    """Add a demand to amounts (1), or subtract it (-1)."""
    for r in range(len(demand)):
        amounts[r] += sign * demand[r]


def larger(amounts: list[int], others: list[int]) -> list[int]:
    """Return the larger of two amounts of each resource."""
    return [max(amount, other) for amount, other in zip(amounts, others, strict=True)]


class Place:
    """Where tasks may run: on servers with all of some labels, or of some names."""

    key: PlaceKey  # labels and names, as they are submitted
    labels: Labels
    names: frozenset[str] | None  # of servers or their groups; one must match; None for any
    allowed: vec[bool]  # whether a server may be used, by the number of its kind
    shapes: i64 = 0  # with this condition

    def __init__(self, key: PlaceKey) -> None:
        self.key = key
        self.labels, self.names = key
        self.allowed = vec[bool]()


class Member:
    """Tasks of one shape that are submitted."""

    demand: list[int]  # (R,) of each task, in quanta
    tasks: int
    where: PlaceKey

    def __init__(self, demand: list[int], tasks: int, where: PlaceKey) -> None:
        self.demand = demand
        self.tasks = tasks
        self.where = where


class Kind:
    """Servers that the same conditions admit."""

    labels: Labels
    places: frozenset[Place]  # the conditions by name that name these servers
    number: i64
    servers: i64 = 0  # of this kind

    def __init__(self, labels: Labels, places: frozenset[Place], number: i64) -> None:
        self.labels = labels
        self.places = places
        self.number = number

    def is_admitted(self, place: Place) -> bool:
        """Return whether these servers meet a condition."""
        return place.labels <= self.labels and (place.names is None or place in self.places)


class Server:
    """A server that joined the cluster."""

    name: str
    group: str  # of equal servers, which conditions may name; or empty
    order: i64  # its given place in the order of servers
    joined: i64  # servers that joined before it
    given: list[int]  # (R,) capacity as it was given, in quanta
    capacity: vec[i64]  # (W,) as the policy counts it: the same, or slots first
    free: vec[i64]  # (W,) capacity that no task holds; below 0 where tasks were assumed to run
    labels: Labels
    kind: i64 = 0  # the number of its kind: servers that the same conditions admit
    is_draining: bool = True  # no more tasks may start
    is_freed: bool = False  # waiting tasks have to look at it again
    running: i64 = 0  # tasks
    block: Block | None = None  # its entry in the index of first-fit
    slot: i64 = 0  # its row in the block
    lot: Lot | None = None  # its entry in the index of best-fit

    def __init__(
        self,
        name: str,
        order: i64,
        joined: i64,
        given: list[int],
        labels: Labels,
        group: str = "",
    ) -> None:
        self.name = name
        self.group = group
        self.order = order
        self.joined = joined
        self.given = given
        self.capacity = vec[i64](given)
        self.free = self.capacity[:]
        self.labels = labels

    def __lt__(self, other: Server) -> bool:
        """Return whether it comes first: in the given order, and of equals by joining."""
        if self.order == other.order:
            return self.joined < other.joined
        return self.order < other.order


class Shape:
    """What a task takes, and where it may run; tasks of one shape fit on the same servers."""

    given: vec[i64]  # (R,) demand as it was given, in quanta
    demand: vec[i64]  # (W,) as the policy counts it: the same, or slots first
    # (W,) what a server must have free: the demand; `NOT_TAKEN` for a resource that is not taken.
    need: vec[i64]
    lead: i64 = 0  # the first resource that is taken
    wanted: vec[float]  # (W,) demand over that of the first resource that is taken
    place: Place
    groups: i64 = 0  # groups of tasks that have this shape
    key: tuple[tuple[int, ...], Place]  # the given demand and the place, by which it is found
    # What a running task adds to its queue's share, where shares are sums (see `criteria.summed`);
    # below 0 if unknown.
    part: int = -1
    # Under fifo and easy: whether a server has room for a task when nothing runs, and the version
    # of the servers at which that was found.
    has_hope: bool = False
    checked_at: i64 = -1
    # Under easy: the fewest tasks for which open servers had no room together, since no server was
    # freed that has room for one.
    no_room_for: i64 = MANY
    searched_at: i64 = -1  # under first-fit: the number of the last search
    passed: i64 = 0  # under first-fit: blocks without room before the end of that search

    def __init__(self, given: vec[i64], demand: vec[i64], place: Place) -> None:
        self.given = given
        self.place = place
        self.key = (tuple([int(amount) for amount in given]), place)
        self.demand = demand
        self.need = demand
        self.wanted = vec[float]()
        self.count_as(demand)

    def count_as(self, demand: vec[i64]) -> None:
        """Count the demand in other terms: slots, after servers changed."""
        self.demand = demand
        self.need = vec[i64]([amount if amount > 0 else NOT_TAKEN for amount in demand])
        self.lead = 0
        while demand[self.lead] <= 0:
            self.lead += 1
        over = float(demand[self.lead])
        self.wanted = vec[float]([float(amount) / over for amount in demand])


def fits(need: vec[i64], free: vec[i64]) -> bool:
    """Return whether a server with these free amounts has room."""
    for r in range(len(need)):  # noqa: SIM110 (a loop that is compiled)
        if free[r] < need[r]:
            return False
    return True


def has_room(server: Server, shape: Shape) -> bool:
    """Return whether a task may start on a server now."""
    return (
        not server.is_draining
        and shape.place.allowed[server.kind]
        and fits(shape.need, server.free)
    )


class TaskGroup:
    """Tasks of one shape that were submitted together.

    Tasks have indices from 0. Those from `fresh` up to `end` have never run.
    """

    id: int
    line: Line
    shape: Shape
    priority: int
    time: float  # of submission, in seconds
    order: Order
    fresh: i64 = 0
    end: i64
    returned: list[int] | None = None  # indices of earlier tasks that wait again, ascending
    tasks: dict[int, Task] | None = None  # running ones by id, and so in order of starts
    starts: dict[int, int] | None = None  # how often each task in `returned` was started
    attempts: int | None  # how often a task may fail; for a gang, all of its tasks together
    failures: dict[int, int] | None = None  # of tasks by index, where `attempts` bounds them
    limit: float  # seconds that a task runs at most
    is_over: bool = False  # cancelled or failed too often: a task that stops does not wait again
    is_listed: bool = False  # its line knows that it waits

    def __init__(
        self,
        id: int,
        line: Line,
        shape: Shape,
        priority: int,
        time: float,
        tasks: int,
        attempts: int | None,
        limit: float,
    ) -> None:
        self.id = id
        self.line = line
        self.shape = shape
        self.priority = priority
        self.time = time
        self.order = (-priority, time, id)
        self.end = tasks
        self.attempts = attempts
        self.limit = limit

    def __lt__(self, other: TaskGroup) -> bool:
        """Order two lines arbitrarily: where heap entries tie up to here, one line is gone."""
        return False

    @property
    def waiting(self) -> i64:
        """The number of tasks that wait."""
        waiting = self.end - self.fresh
        if self.returned is not None:
            waiting += len(self.returned)
        return waiting

    def indices(self) -> list[int]:
        """Return the indices of waiting tasks. O(tasks), so for gangs."""
        return [*(self.returned or []), *range(int(self.fresh), int(self.end))]

    def first_index(self) -> int:
        """Return the index of the first waiting task."""
        return self.returned[0] if self.returned else int(self.fresh)

    def shape_of(self, index: int) -> Shape:  # noqa: ARG002 (a gang looks at it)
        """Return the shape of a task."""
        return self.shape

    def shapes(self) -> list[Shape]:
        """Return the shapes of its tasks."""
        return [self.shape]

    def tasks_together(self) -> dict[Shape, int]:
        """Return how many waiting tasks of each shape have to start together."""
        return {self.shape: 1}

    def take(self, index: int) -> int:
        """Start a waiting task; return how often it was started so far."""
        if self.returned is not None and self.starts is not None and index in self.returned:
            self.returned.remove(index)
            return self.starts.pop(index)
        self.fresh += 1
        return 0

    def put_back(self, index: int, started: int) -> None:
        """Return a started task to the waiting ones, in its old place."""
        if self.returned is None or self.starts is None:
            self.returned = []
            self.starts = {}
        insort(self.returned, index)
        self.starts[index] = started

    def drop(self) -> None:
        """Give up the waiting tasks."""
        self.returned = None
        self.starts = None
        self.end = self.fresh
        self.is_over = True


class Gang(TaskGroup):
    """Tasks, perhaps of several shapes, that start together and stop together."""

    parts: list[Shape]
    ends: list[int]  # the index after the last task of each part
    is_parked: bool = False  # had no room, and no server with room for a task was freed since
    # Under fifo and easy, where tasks are alike: the version of the servers and the number of
    # waiting tasks that `has_hope` is of.
    checked_at: i64 = -1
    checked_tasks: i64 = 0
    has_hope: bool = False  # all of them have room where nothing runs

    def __init__(
        self,
        id: int,
        line: Line,
        parts: list[Shape],
        ends: list[int],
        priority: int,
        time: float,
        attempts: int | None,
        limit: float,
    ) -> None:
        super().__init__(id, line, parts[0], priority, time, ends[-1], attempts, limit)
        self.parts = parts
        self.ends = ends

    def shape_of(self, index: int) -> Shape:
        """Return the shape of a task."""
        for part in range(len(self.ends)):
            if index < self.ends[part]:
                return self.parts[part]
        raise IndexError(index)

    def shapes(self) -> list[Shape]:
        """Return the shapes of its tasks."""
        return self.parts

    def is_alike(self) -> bool:
        """Return whether its tasks have one shape."""
        return len(self.parts) == 1

    def tasks_together(self) -> dict[Shape, int]:
        """Return how many waiting tasks of each shape have to start together."""
        found: dict[Shape, int] = {}
        for index in self.indices():
            shape = self.shape_of(index)
            found[shape] = found.get(shape, 0) + 1
        return found


class Task:
    """A task that was started."""

    id: int
    group: TaskGroup
    index: int  # which of the group's tasks
    shape: Shape
    server: Server
    attempt: int  # 1 for the first start of this task
    since: float  # time of its start, in seconds
    is_running: bool = False

    def __init__(
        self,
        id: int,
        group: TaskGroup,
        index: int,
        server: Server,
        attempt: int,
        since: float,
    ) -> None:
        self.id = id
        self.group = group
        self.index = index
        self.shape = group.shape_of(index)
        self.server = server
        self.attempt = attempt
        self.since = since


class Line:
    """The waiting groups of one shape in a queue, under easy of one time limit; or one gang."""

    queue: Queue
    key: LineKey | None  # None for a gang
    shape: Shape | None  # of that key
    groups: i64 = 0  # that wait or run
    # A heap; groups that wait no longer, or have another order, are skipped.
    heap: list[tuple[Order, TaskGroup]]
    stands: Order | None = None  # its valid entry among the standing lines of its queue
    row: i64 = -1  # among the parked lines of its queue, or -1

    def __init__(self, queue: Queue, key: LineKey | None) -> None:
        self.queue = queue
        self.key = key
        self.shape = None if key is None else key[0]
        self.heap = []

    def __lt__(self, other: Line) -> bool:
        """Order two lines arbitrarily: where heap entries tie up to here, one line is gone."""
        return False

    def add(self, group: TaskGroup) -> None:
        """Note that a group has tasks that wait."""
        if not group.is_listed:
            group.is_listed = True
            heappush(self.heap, (group.order, group))

    def first(self) -> TaskGroup | None:
        """Return the group that goes first."""
        heap = self.heap
        while heap:
            order, group = heap[0]
            if group.waiting > 0 and order == group.order:
                return group
            heappop(heap)
            if order == group.order:
                group.is_listed = False
        return None


LineKey = tuple[Shape, float]  # the time limit is unlimited where lines have groups of any


class Queue:
    """A queue of a user or an organisation; the root is the parent of those that name none."""

    name: str
    serial: int  # queues that were added before it
    weight: tuple[int, int]  # numerator and denominator
    parent: Queue | None  # None for the root alone
    children: i64 = 0  # queues directly below it
    held: vec[i64]  # (W,) what running tasks hold here and below
    share: int = 0  # where shares are sums: the sum of the parts of its running tasks
    running_by_shape: dict[Shape, int]  # where shares are sums: its running tasks
    score: int = 0  # floor(share / weight * 2**64)
    waiting: i64 = 0  # tasks here and below
    running: i64 = 0  # tasks here and below
    turns: list[Turn]  # of queues directly below that have waiting tasks; the least first
    served: list[Queue]  # those queues, in the same order
    turn: Turn | None = None  # its own entry in the list of its parent; None without waiting tasks
    at: i64 = 0  # how many of `turns` have nothing more to start during a call of `place`
    visited: i64 = -1  # the call of `place` that `at` belongs to
    lines: dict[LineKey, Line]
    # A heap of the lines that may have room; stale entries are skipped.
    standing: list[tuple[Order, Line]]
    most_standing: i64 = 64  # entries of that heap before stale ones are dropped
    parked: list[Line]  # without room on any server that has not been freed since
    needs: vec[i64]  # the need of each parked line, one after the other
    gangs_parked: dict[int, Gang]  # by id
    priorities: dict[int, int]  # its groups, by priority

    def __init__(
        self, name: str, serial: int, weight: tuple[int, int], parent: Queue | None, width: i64
    ) -> None:
        self.name = name
        self.serial = serial
        self.weight = weight
        self.parent = parent
        self.held = zeros(width)
        self.running_by_shape = {}
        self.turns = []
        self.served = []
        self.lines = {}
        self.standing = []
        self.parked = []
        self.needs = vec[i64]()
        self.gangs_parked = {}
        self.priorities = {}

"""The tables: servers, shapes, groups of tasks, queues and running tasks.

Amounts are whole quanta, one number per resource. Under ``slots:N`` the scheduler counts slots
first, and amounts only of resources that are not in a slot.
"""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from librt.vecs import append, vec
from mypy_extensions import i64

if TYPE_CHECKING:
    from fairlead.scheduler.selection.best_fit import Lot
    from fairlead.scheduler.selection.first_fit import Block

NOT_TAKEN: Final = -(2**62)  # less than any server has free
JOINED_BITS: Final = 62  # of a rank
UNLIMITED: Final = float("inf")

Labels = frozenset[tuple[str, str]]

# Keys that are compared as a whole, never read. A tuple of any length is one object when compiled.
Order = tuple[float, ...]  # of a group in its queue: minus the priority, time of submission, id
Turn = tuple[float, ...]  # of a queue: 1 for weight 0, the score, the order of equal queues


def vec_of(amounts: list[int]) -> vec[i64]:
    """Return amounts as a packed array."""
    packed = vec[i64]()
    for amount in amounts:
        packed = append(packed, amount)
    return packed


def zeros(width: i64) -> vec[i64]:
    """Return a packed array of zeros."""
    return vec_of([0] * int(width))


def larger(amounts: list[int], others: list[int]) -> list[int]:
    """Return the larger of two amounts of each resource."""
    return [max(amount, other) for amount, other in zip(amounts, others, strict=True)]


class Place:
    """Where tasks may run: on servers with all of some labels, or of some names.

    Attributes
    ----------
    labels : frozenset of (str, str)
        Labels that must all match.
    names : frozenset of str, or None
        Names of servers or of their groups, one of which must match; None for any.
    allowed : vec of bool
        Whether a server may be used, by the number of its kind.
    shapes : int
        Shapes with this condition.
    """

    def __init__(self, labels: Labels, names: frozenset[str] | None) -> None:
        self.labels = labels
        self.names = names
        self.allowed: vec[bool] = vec[bool]()
        self.shapes: i64 = 0


PlaceKey = tuple[Labels, frozenset[str] | None]


class Member:
    """Tasks of one shape that are submitted.

    Attributes
    ----------
    demand : list of R int
        What each takes, in quanta.
    tasks : int
    where : PlaceKey
        Labels, and names or None.
    """

    def __init__(self, demand: list[int], tasks: int, where: PlaceKey) -> None:
        self.demand = demand
        self.tasks = tasks
        self.where = where


class Kind:
    """Servers that the same conditions admit.

    Attributes
    ----------
    labels : frozenset of (str, str)
    places : frozenset of Place
        The conditions by name that name these servers.
    number : int
    servers : int
        Servers of this kind.
    """

    def __init__(self, labels: Labels, places: frozenset[Place], number: i64) -> None:
        self.labels = labels
        self.places = places
        self.number: i64 = number
        self.servers: i64 = 0

    def is_admitted(self, place: Place) -> bool:
        """Return whether these servers meet a condition."""
        return place.labels <= self.labels and (place.names is None or place in self.places)


class Server:
    """A server that is there.

    Attributes
    ----------
    name : str
    group : str
        The group of equal servers that it is one of, which conditions may name; or empty.
    order, joined : int
        Its given place in the order of servers, and the number of servers that joined before it.
    rank : int
        Both as one number, by which servers are compared.
    given : vec of R
        Its capacity as it was given, in quanta.
    capacity : vec of W
        Its capacity as the policy counts it: the same, or slots first.
    free : vec of W
        Capacity that no task holds; below 0 where tasks were assumed to run.
    labels : frozenset of (str, str)
    kind : int
        The number of its kind: of the servers that the same conditions admit.
    is_draining : bool
        Whether no more tasks may start.
    is_freed : bool
        Whether it is among the servers that a waiting task has to look at again.
    running : int
        Tasks that run on it.
    block, lot : Block or Lot, optional
        Its entry in the index of first-fit, or of best-fit.
    slot : int
        Its row in the block.
    """

    def __init__(
        self,
        name: str,
        order: int,
        joined: int,
        given: vec[i64],
        labels: Labels,
        group: str = "",
    ) -> None:
        self.name = name
        self.group = group
        self.order = order
        self.joined = joined
        self.rank = (order << JOINED_BITS) + joined
        self.given: vec[i64] = given
        self.capacity: vec[i64] = given
        self.free: vec[i64] = given[:]
        self.labels = labels
        self.kind: i64 = 0
        self.is_draining = True
        self.is_freed = False
        self.running: i64 = 0
        self.block: Block | None = None
        self.slot: i64 = 0
        self.lot: Lot | None = None


class Shape:
    """What a task takes, and where it may run; tasks of one shape fit on the same servers.

    Attributes
    ----------
    given : vec of R
        The demand as it was given, in quanta.
    demand : vec of W
        The demand as the policy counts it: the same, or slots first.
    need : vec of W
        The demand, and `NOT_TAKEN` for a resource that is not taken, which is never short.
    lead : int
        The first resource that is taken.
    wanted : vec of W float
        The demand over that of the first resource that is taken.
    place : Place
    groups : int
        Groups of tasks that have this shape.
    key : (tuple of int, Place)
        The demand and the place, by which it is found.
    part : int
        What a running task adds to its queue's share, where shares are sums; see `criteria`.
    checked_at : int
        Under fifo and easy: the version of the servers that `has_hope` is of.
    has_hope : bool
        Whether a server has room for a task where nothing runs.
    searched_at, passed : int
        Under first-fit: the number of the last search, and the blocks without room before its end.
    """

    def __init__(self, given: vec[i64], place: Place) -> None:
        self.given: vec[i64] = given
        self.place = place
        self.key = (tuple([int(amount) for amount in given]), place)
        self.groups: i64 = 0
        self.part = -1
        self.checked_at: i64 = -1
        self.has_hope = False
        self.searched_at: i64 = -1
        self.passed: i64 = 0
        self.demand: vec[i64] = given
        self.need: vec[i64] = given
        self.lead: i64 = 0
        self.wanted: vec[float] = vec[float]()
        self.count_as(given)

    def count_as(self, demand: vec[i64]) -> None:
        """Count the demand in other terms: slots, after servers changed."""
        self.demand = demand
        self.need = vec[i64]()
        for amount in demand:
            self.need = append(self.need, amount if amount > 0 else NOT_TAKEN)
        self.lead = 0
        while demand[self.lead] <= 0:
            self.lead += 1
        over = float(demand[self.lead])
        self.wanted = vec[float]()
        for amount in demand:
            self.wanted = append(self.wanted, float(amount) / over)


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

    Attributes
    ----------
    id : int
    line : Line
    shape : Shape
    priority : int
    time : float
        When it was submitted.
    order : Order
    fresh, end : int
    returned : list of int
        Indices of earlier tasks that wait again, ascending.
    tasks : dict of int to Task, or None
        Its running tasks, by id and so in order of starts.
    starts : dict of int to int
        How often each task in `returned` was started.
    attempts : int or None
        How often a task may fail; for a gang, all of its tasks together.
    failures : dict of int to int
        How often tasks failed, by index, where `attempts` bounds that.
    limit : float
        Seconds that a task runs at most.
    is_over : bool
        Whether it was cancelled or failed too often: a task that stops does not wait again.
    is_listed : bool
        Whether its line knows that it waits.
    """

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
        self.order: Order = (-priority, time, id)
        self.fresh: i64 = 0
        self.end: i64 = tasks
        self.returned: list[int] | None = None
        self.tasks: dict[int, Task] | None = None
        self.starts: dict[int, int] | None = None
        self.attempts = attempts
        self.failures: dict[int, int] | None = None
        self.limit = limit
        self.is_over = False
        self.is_listed = False

    def __lt__(self, other: TaskGroup) -> bool:
        """Let any of two come first: one of them is gone, if entries in a heap are equal so far."""
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

    def take(self, index: int) -> int:
        """Start a waiting task; return how often it was started so far."""
        if self.returned is not None and index in self.returned:
            self.returned.remove(index)
            started = 0
            if self.starts is not None:
                started = self.starts.pop(index, 0)
            return started
        self.fresh += 1
        return 0

    def put_back(self, index: int, started: int) -> None:
        """Let a task that was started wait again, in its old place."""
        if self.returned is None:
            self.returned = []
            self.starts = {}
        insort(self.returned, index)
        if self.starts is not None:
            self.starts[index] = started

    def drop(self) -> None:
        """Give up the waiting tasks."""
        self.returned = None
        self.starts = None
        self.end = self.fresh
        self.is_over = True


class Gang(TaskGroup):
    """Tasks, perhaps of several shapes, that start together and stop together.

    Attributes
    ----------
    parts : list of Shape
    ends : list of int
        The index after the last task of each part.
    is_parked : bool
        Whether it was tried, and no server was freed since that has room for one of its tasks.
    """

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
        self.is_parked = False

    def shape_of(self, index: int) -> Shape:
        """Return the shape of a task."""
        for part, end in zip(self.parts, self.ends, strict=True):
            if index < end:
                return part
        raise IndexError(index)

    def shapes(self) -> list[Shape]:
        """Return the shapes of its tasks."""
        return self.parts


class Task:
    """A running task.

    Attributes
    ----------
    id : int
    group : TaskGroup
    index : int
        Which of the group's tasks.
    shape : Shape
    server : Server
    attempt : int
        1 for the first start of this task.
    since : float
        When it started.
    """

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
    """The waiting groups of one shape in a queue, or one gang.

    Attributes
    ----------
    queue : Queue
    shape : Shape or None
        None for a gang.
    groups : int
        Groups that wait or run.
    heap : list of (Order, TaskGroup)
        A heap; groups that wait no longer, or have another order, are skipped.
    stands : Order or None
        Its valid entry among the standing lines of its queue.
    is_hopeless : bool
        Under fifo and easy: whether its first group has no room even where nothing runs.
    is_full : bool
        Under easy: whether no server has room for its shape until one is freed.
    row : int
        Its row among the parked lines of its queue, or -1.
    """

    def __init__(self, queue: Queue, shape: Shape | None) -> None:
        self.queue = queue
        self.shape = shape
        self.groups: i64 = 0
        self.heap: list[tuple[Order, TaskGroup]] = []
        self.stands: Order | None = None
        self.is_hopeless = False
        self.is_full = False
        self.row: i64 = -1

    def __lt__(self, other: Line) -> bool:
        """Let any of two come first: one of them is gone, if entries in a heap are equal so far."""
        return False

    def list(self, group: TaskGroup) -> None:
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


class Queue:
    """A queue; the root stands above those that have no parent.

    Attributes
    ----------
    name : str
    serial : int
        How many queues were added before it.
    weight : (int, int)
        Numerator and denominator.
    parent : Queue or None
        None for the root alone.
    children : int
        The queues directly below it.
    held : vec of W
        What running tasks hold here and below.
    share : int
        Where shares are sums: the sum of the parts of its running tasks.
    running_by_shape : dict of Shape to int
        Where shares are sums: its running tasks.
    score : int
        floor(share / weight * 2**64).
    waiting, running : int
        Tasks here and below.
    turns : list of Turn
        Of the queues directly below that have waiting tasks; the least first.
    served : list of Queue
        Those queues, in the same order.
    turn : Turn or None
        Its own entry in the list of its parent; None without waiting tasks.
    at : int
        How many of `turns` have nothing more to start during a call of `place`.
    visited : int
        The call of `place` that `at` belongs to.
    lines : dict of Shape to Line
    standing : list of (Order, Line)
        A heap of the lines that may have room; stale entries are skipped.
    parked : list of Line
        Lines that had no room on any server that has not been freed since.
    needs : vec
        The need of each parked line, one after the other.
    gangs_parked : dict of int to Gang
        Parked gangs, by id.
    priorities : dict of int to int
        Its groups, by priority.
    """

    def __init__(
        self, name: str, serial: int, weight: tuple[int, int], parent: Queue | None, width: i64
    ) -> None:
        self.name = name
        self.serial = serial
        self.weight = weight
        self.parent = parent
        self.children: i64 = 0
        self.held: vec[i64] = zeros(width)
        self.share = 0
        self.running_by_shape: dict[Shape, int] = {}
        self.score = 0
        self.waiting: i64 = 0
        self.running: i64 = 0
        self.turns: list[Turn] = []
        self.served: list[Queue] = []
        self.turn: Turn | None = None
        self.at: i64 = 0
        self.visited: i64 = -1
        self.lines: dict[Shape, Line] = {}
        self.standing: list[tuple[Order, Line]] = []
        self.parked: list[Line] = []
        self.needs: vec[i64] = vec[i64]()
        self.gangs_parked: dict[int, Gang] = {}
        self.priorities: dict[int, int] = {}

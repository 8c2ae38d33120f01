"""What a scheduler knows: servers, shapes, groups of tasks, queues and running tasks.

Amounts are whole quanta, one number per resource (R). A policy may count them in other units (W
numbers): ``slots:N`` counts slots first, and amounts only of resources that are not in a slot.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from fractions import Fraction
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from fairlead.scheduler.selection.best_fit import Lot
    from fairlead.scheduler.selection.first_fit import Block

NOT_TAKEN: Final = -(2**62)  # less than any server has free
UNLIMITED: Final = float("inf")
MANY: Final = 2**62  # tasks; more than any group has

Labels = frozenset[tuple[str, str]]
ConstraintKey = tuple[Labels, frozenset[str] | None]

# Keys that are compared as a whole, never read. A tuple of any length is one object when compiled.
Order = tuple[float, ...]  # of a group in its queue: minus the priority, time of submission, id
Rank = tuple[float, ...]  # of a queue: 1 for weight 0, the score, the order of equal queues


def zeros(width: i64) -> vec[i64]:
    return vec[i64]([0] * int(width))


def less_than_any(width: i64) -> vec[i64]:
    """Return free amounts without room for any task."""
    return vec[i64]([NOT_TAKEN - 1] * int(width))


def largest_of(rows: vec[i64], width: i64) -> vec[i64]:
    """Return the largest of each amount in packed rows of amounts."""
    largest = less_than_any(width)
    at: i64 = 0
    while at < len(rows):
        for r in range(width):
            largest[r] = max(largest[r], rows[at + r])
        at += width
    return largest


def add_to(amounts: vec[i64], demand: vec[i64], sign: i64) -> None:
    """Add a demand to amounts (1), or subtract it (-1)."""
    for r in range(len(demand)):
        amounts[r] += sign * demand[r]


def larger(amounts: list[int], others: list[int]) -> list[int]:
    """Return the larger of two amounts of each resource."""
    return [max(amount, other) for amount, other in zip(amounts, others, strict=True)]


class Constraint:
    """A placement constraint: servers with all of some labels, or with one of some names."""

    def __init__(self, key: ConstraintKey) -> None:
        self.key = key
        self.labels = key[0]
        self.names = key[1]  # of servers or their groups; one must match; None for any
        self.admits = vec[bool]()  # by the number of a kind of servers
        self.shapes: i64 = 0  # with this constraint


class Kind:
    """Servers that the same constraints admit."""

    def __init__(self, labels: Labels, naming: frozenset[Constraint], number: i64) -> None:
        self.labels = labels
        self.naming = naming  # constraints by name that name these servers
        self.number = number
        self.servers: i64 = 0  # of this kind

    def is_admitted(self, constraint: Constraint) -> bool:
        is_named = constraint.names is None or constraint in self.naming
        return is_named and constraint.labels <= self.labels


class Server:
    """A server that joined the cluster."""

    block: Block | None = None  # its entry in the index of first-fit
    slot: i64 = 0  # its row in the block
    lot: Lot | None = None  # its entry in the index of best-fit

    def __init__(
        self, name: str, order: i64, joined: i64, given: list[int], labels: Labels, group: str = ""
    ) -> None:
        self.name = name
        self.group = group  # of equal servers, which constraints may name; or empty
        self.order = order  # its given place in the order of servers
        self.joined = joined  # servers that joined before it
        self.given = given  # (R,) capacity in quanta
        self.capacity = vec[i64](given)  # (W,) capacity as the policy counts it
        # (W,) capacity that no task holds; negative where tasks were assumed to run.
        self.free = self.capacity[:]
        self.labels = labels
        self.kind: i64 = 0  # the number of its kind
        self.is_draining = True  # no more tasks may start
        self.is_freed = False  # waiting tasks have to be compared with it again
        self.running: i64 = 0  # tasks

    def __lt__(self, other: Server) -> bool:
        if self.order == other.order:
            return self.joined < other.joined
        return self.order < other.order


class Shape:
    """The demand and the constraint of a task; tasks of one shape fit on the same servers."""

    def __init__(self, given: vec[i64], demand: vec[i64], constraint: Constraint) -> None:
        self.given = given  # (R,) demand in quanta
        self.constraint = constraint
        self.key = (tuple([int(amount) for amount in given]), constraint)
        self.groups: i64 = 0  # groups of tasks with this shape
        self.demand = demand  # (W,) demand as the policy counts it
        # (W,) what a server must have free: the demand; `NOT_TAKEN` of a resource not taken.
        self.need = demand
        self.lead: i64 = 0  # the first resource that is taken
        self.wanted = vec[float]()  # (W,) demand over that of the first resource
        # What a running task adds to its queue's share where shares are sums (`criteria.tsf`);
        # negative if unknown.
        self.task_share = -1
        # Under fifo and easy: whether an idle server has room for a task, and the version of the
        # servers at which that was found.
        self.fits_idle = False
        self.checked_at: i64 = -1
        # Under easy: the fewest tasks for which open servers had no room together, since the last
        # server with room for one was freed.
        self.no_room_for: i64 = MANY
        self.searched_at: i64 = -1  # under first-fit: the number of the last search
        self.passed: i64 = 0  # under first-fit: blocks without room before the end of that search
        self.count_as(demand)

    def count_as(self, demand: vec[i64]) -> None:
        """Count the demand in other units: slots, after servers changed."""
        self.demand = demand
        self.need = vec[i64]([amount if amount > 0 else NOT_TAKEN for amount in demand])
        self.lead = 0
        while demand[self.lead] <= 0:
            self.lead += 1
        over = float(demand[self.lead])
        self.wanted = vec[float]([float(amount) / over for amount in demand])


class Counting:
    """How a policy counts amounts: here as they are given, in quanta."""

    def __init__(self, resources: i64) -> None:
        self.resources = resources
        self.width = resources  # the number of amounts

    def of_server(self, given: list[int]) -> vec[i64]:
        return vec[i64](given)

    def of_task(self, given: vec[i64]) -> vec[i64]:
        return given

    def recount(self, servers: Iterable[Server]) -> bool:  # noqa: ARG002 (slots depend on them)
        """Update the units after servers changed; return whether they are other ones now."""
        return False

    def names(self, resources: list[str]) -> list[str]:
        return resources

    def units(self, quanta: list[Fraction]) -> list[Fraction]:
        return quanta

    def fitting_amount(self, shape: Shape, free: vec[i64], r: i64, least: int) -> int:
        """Return the demand of one resource that would fit, if the others do; 0 if none would.

        Amounts up to `least` do not matter.
        """
        if free[r] >= shape.need[r] or free[r] <= least:
            return 0
        for other in range(self.width):
            if other != r and free[other] < shape.need[other]:
                return 0
        return int(free[r])


def fits(need: vec[i64], free: vec[i64]) -> bool:
    for r in range(len(need)):  # noqa: SIM110 (a loop that is compiled)
        if free[r] < need[r]:
            return False
    return True


def has_room(server: Server, shape: Shape) -> bool:
    """Return whether a task may start on a server now."""
    return (
        not server.is_draining
        and shape.constraint.admits[server.kind]
        and fits(shape.need, server.free)
    )


class Member:
    """Tasks of one shape that are submitted; `demand` (R,) is of each task, in quanta."""

    def __init__(self, demand: list[int], tasks: int, where: ConstraintKey) -> None:
        self.demand = demand
        self.tasks = tasks
        self.where = where


class Terms:
    """The terms of a submitted group of tasks."""

    def __init__(
        self,
        time: float,
        priority: int = 0,
        attempts: int | None = None,
        limit: float = UNLIMITED,
    ) -> None:
        self.time = time  # of submission, in seconds
        self.priority = priority
        self.attempts = attempts  # how often a task may fail; of a gang, all tasks together
        self.limit = limit  # seconds that a task runs at most


class TaskGroup:
    """Tasks of one shape that were submitted together.

    Tasks have indices from 0. Those from `fresh` up to `end` have never run.
    """

    fresh: i64 = 0
    returned: list[int] | None = None  # indices of earlier tasks that wait again, ascending
    tasks: dict[int, Task] | None = None  # running ones by id, and so in order of starts
    starts: dict[int, int] | None = None  # how often each task in `returned` was started
    failures: dict[int, int] | None = None  # of tasks by index, where `attempts` bounds them
    is_over: bool = False  # cancelled or failed too often: a task that stops does not wait again
    is_listed: bool = False  # its line has it in the heap

    def __init__(self, id: int, line: Line, shape: Shape, tasks: int, terms: Terms) -> None:
        self.id = id
        self.line = line
        self.shape = shape
        self.end: i64 = tasks
        self.time = terms.time
        self.priority = terms.priority
        self.attempts = terms.attempts
        self.limit = terms.limit
        self.order: Order = (-terms.priority, terms.time, id)

    def __lt__(self, other: TaskGroup) -> bool:
        """Order arbitrarily: of heap entries with equal orders only one is valid."""
        return False

    @property
    def waiting(self) -> i64:
        """The number of waiting tasks."""
        waiting = self.end - self.fresh
        if self.returned is not None:
            waiting += len(self.returned)
        return waiting

    def indices(self) -> list[int]:
        """Return the indices of waiting tasks. O(tasks), so for gangs."""
        return [*(self.returned or []), *range(int(self.fresh), int(self.end))]

    def first_index(self) -> int:
        return self.returned[0] if self.returned else int(self.fresh)

    def shape_of(self, index: int) -> Shape:  # noqa: ARG002 (for gangs)
        return self.shape

    def shapes(self) -> list[Shape]:
        return [self.shape]

    def tasks_together(self) -> dict[Shape, int]:
        """Return how many waiting tasks of each shape have to start together."""
        return {self.shape: 1}

    def take(self, index: int) -> int:
        """Start a waiting task; return how often it was started before."""
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
        self.returned = None
        self.starts = None
        self.end = self.fresh
        self.is_over = True


class Gang(TaskGroup):
    """Tasks, perhaps of several shapes, that start together and stop together."""

    is_parked: bool = False  # without room, until a server with room for one of its tasks is freed
    # Under fifo and easy, where tasks are alike: whether idle servers have room for all of them,
    # the version of the servers at which that was found, and for how many waiting tasks.
    fits_idle: bool = False
    checked_at: i64 = -1
    checked_tasks: i64 = 0

    def __init__(
        self, id: int, line: Line, parts: list[Shape], ends: list[int], terms: Terms
    ) -> None:
        super().__init__(id, line, parts[0], ends[-1], terms)
        self.parts = parts
        self.ends = ends  # the index after the last task of each part

    def shape_of(self, index: int) -> Shape:
        for part in range(len(self.ends)):
            if index < self.ends[part]:
                return self.parts[part]
        raise IndexError(index)

    def shapes(self) -> list[Shape]:
        return self.parts

    def is_alike(self) -> bool:
        return len(self.parts) == 1

    def tasks_together(self) -> dict[Shape, int]:
        found: dict[Shape, int] = {}
        for index in self.indices():
            shape = self.shape_of(index)
            found[shape] = found.get(shape, 0) + 1
        return found


class Task:
    """A task that was started."""

    def __init__(
        self, id: int, group: TaskGroup, index: int, server: Server, attempt: int, since: float
    ) -> None:
        self.id = id
        self.group = group
        self.index = index  # which of the group's tasks
        self.shape = group.shape_of(index)
        self.server = server
        self.attempt = attempt  # 1 for the first start of this task
        self.since = since  # time of its start, in seconds
        self.is_running = False


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
        return hash(self.task)

    def __repr__(self) -> str:
        where = f"queue={self.queue!r}, server={self.server!r}"
        which = f"attempt={self.attempt}, index={self.index}"
        return f"Placement(task={self.task}, group={self.group}, {where}, {which})"


def placement_of(task: Task) -> Placement:
    group, server = task.group, task.server
    queue = group.line.queue
    return Placement(task.id, group.id, queue.name, server.name, task.attempt, task.index)


class Line:
    """The waiting groups of one shape in a queue, under easy of one time limit; or one gang.

    A line is active where its first group may have room, and parked where it has none on any
    server that has not been freed since.
    """

    active_order: Order | None = None  # of its valid entry among the active lines of its queue
    row: i64 = -1  # among the parked lines of its queue, or -1

    def __init__(self, queue: Queue, key: LineKey | None) -> None:
        self.queue = queue
        self.key = key  # None for a gang
        self.shape = None if key is None else key[0]
        self.groups: i64 = 0  # with waiting or running tasks
        # A heap; groups without waiting tasks, or with another order by now, are skipped.
        self.heap: list[tuple[Order, TaskGroup]] = []

    def __lt__(self, other: Line) -> bool:
        """Order arbitrarily: of heap entries with equal orders only one is valid."""
        return False

    def add(self, group: TaskGroup) -> None:
        """Add a group with waiting tasks."""
        if not group.is_listed:
            group.is_listed = True
            heappush(self.heap, (group.order, group))

    def first(self) -> TaskGroup | None:
        """Return the first group with waiting tasks."""
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

    def __init__(
        self, name: str, serial: int, weight: tuple[int, int], parent: Queue | None, width: i64
    ) -> None:
        self.name = name
        self.serial = serial  # queues that were added before it
        self.weight = weight  # numerator and denominator
        self.parent = parent  # None for the root alone
        self.children: i64 = 0  # queues directly below it
        self.held = zeros(width)  # (W,) amounts of running tasks here and below
        self.share = 0  # where shares are sums: over its running tasks
        self.running_by_shape: dict[Shape, int] = {}  # where shares are sums: its running tasks
        self.score = 0  # floor(share / weight * 2**64)
        self.waiting: i64 = 0  # tasks here and below
        self.running: i64 = 0  # tasks here and below
        # The ranks of queues directly below with waiting tasks, ascending; and those queues.
        self.ranks: list[Rank] = []
        self.ranked: list[Queue] = []
        self.rank: Rank | None = None  # its own, in the list of its parent
        # During a call of `place`: how many of `ranked` have nothing more to start.
        self.passed: i64 = 0
        self.passed_in: i64 = -1  # the call of `place` that `passed` belongs to
        self.lines: dict[LineKey, Line] = {}
        self.active: list[tuple[Order, Line]] = []  # a heap of lines; stale entries are skipped
        self.most_active: i64 = 64  # entries of that heap before stale ones are dropped
        self.parked: list[Line] = []
        self.needs = vec[i64]()  # the need of each parked line, one after the other
        self.gangs_parked: dict[int, Gang] = {}  # by id
        self.priorities: dict[int, int] = {}  # its groups, by priority


def path_of(queue: Queue) -> list[Queue]:
    """Return the queues above a queue, from the top down, and then the queue."""
    path: list[Queue] = []
    node: Queue | None = queue
    while node is not None and node.parent is not None:
        path.insert(0, node)
        node = node.parent
    return path


def sorted_by_serial(queues: Iterable[Queue], is_last_first: bool = False) -> list[Queue]:
    """Return queues in the order in which they were added, or in the reverse."""
    by_serial = {queue.serial: queue for queue in queues}
    return [by_serial[serial] for serial in sorted(by_serial, reverse=is_last_first)]

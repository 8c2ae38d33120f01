"""The entities of a scheduler: servers, shapes, groups of tasks, queues and running tasks.

Amounts are whole quanta, one number per resource (R). A policy may count them in other units (W
numbers): ``slots:N`` counts slots first, and amounts only of resources that are not in a slot.
Amounts of servers have more columns where resources come in devices (`_devices`): whether a task
fits is a comparison of the first C.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from fractions import Fraction
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

from fairlead.scheduler._devices import (
    NO_DEVICES,
    DeviceColumns,
    columns_of,
    long_enough,
    with_columns,
)

if TYPE_CHECKING:
    from fairlead.scheduler.selection.best_fit import Lot
    from fairlead.scheduler.selection.first_fit import Block

NOT_TAKEN: Final = -(2**62)  # the need of a resource that is not demanded: every server has more
NO_LIMIT: Final = 2**63 - 1
NO_QUOTA: Final = -1
UNLIMITED: Final = float("inf")
MANY: Final = 2**62  # more tasks than any group has

Labels = frozenset[tuple[str, str]]
ConstraintKey = tuple[Labels, frozenset[str] | None]
# A constraint, and (R,) the demand of tasks without the spared resource, which may be kept off
# servers with it; empty for other tasks.
TableKey = tuple[ConstraintKey, tuple[int, ...]]

# Sort keys, whose parts are never read. When compiled, a tuple of any length is one object.
Order = tuple[float, ...]  # of a group in its queue: minus the priority, time of submission, id
Rank = tuple[float, ...]  # of a queue: 1 for weight 0, the score, the order of equal queues


def zeros(width: i64) -> vec[i64]:
    return vec[i64]([0] * int(width))


def less_than_any(width: i64) -> vec[i64]:
    """Return free amounts in which no task fits."""
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


def take_from(free: vec[i64], shape: Shape, devices: vec[i64], sign: i64) -> None:
    """Take a task with some devices from the amounts of a server (1), or return it (-1)."""
    add_to(free, shape.demand, -sign)
    if shape.by_device:
        for columns in shape.by_device:
            columns.take(shape.demand[columns.resource], devices, free, sign)


def choose_devices(shape: Shape, free: vec[i64]) -> vec[i64]:
    """Return the columns of the devices that a task takes of the free amounts of a server."""
    if not shape.by_device:
        return NO_DEVICES
    found: list[i64] = []
    for columns in shape.by_device:
        found += columns.choose(shape.demand[columns.resource], free)
    return vec[i64](found)


def make_columns(server: Server, devices: vec[i64]) -> None:
    """Add the columns of a task's devices to a server, which may have lost them as it shrank."""
    for column in devices:
        server.free = long_enough(server.free, column)


def devices_of(shape: Shape, numbers: dict[int, list[int]]) -> vec[i64]:
    """Return the columns of a task's devices by their numbers on its server, by resource."""
    found: list[int] = []
    for columns in shape.by_device:
        found += columns.columns_of(numbers.get(int(columns.resource), []))
    return vec[i64](found)


def device_numbers(shape: Shape, devices: vec[i64]) -> dict[int, list[int]]:
    """Return the numbers of a task's devices; the inverse of `devices_of`."""
    return {int(columns.resource): columns.numbers(devices) for columns in shape.by_device}


def hold_on(server: Server, shape: Shape) -> vec[i64]:
    """Take a task from a server for a while; return its devices, which `take_from` returns."""
    devices = choose_devices(shape, server.free)
    take_from(server.free, shape, devices, 1)
    return devices


def larger(amounts: list[int], others: list[int]) -> list[int]:
    return [max(amount, other) for amount, other in zip(amounts, others, strict=True)]


class Constraint:
    """A placement constraint: servers with all of some labels, or with one of some names."""

    def __init__(self, table_key: TableKey) -> None:
        key = table_key[0]
        self.table_key = table_key
        self.key = key
        self.demand = table_key[1]
        self.is_kept_off = False
        self.labels = key[0]
        self.names = key[1]  # names of servers or groups, of which one must match; None for any
        self.admits = vec[bool]()  # by the number of a kind of servers
        self.shapes: i64 = 0  # number of shapes with this constraint


class Kind:
    def __init__(
        self, labels: Labels, naming: frozenset[Constraint], has_spared: bool, number: i64
    ) -> None:
        self.labels = labels
        self.naming = naming  # the constraints that name these servers
        self.has_spared = has_spared  # whether they have the spared resource
        self.number = number
        self.servers: i64 = 0  # number of servers of this kind

    def is_admitted(self, constraint: Constraint) -> bool:
        if constraint.is_kept_off and self.has_spared:
            return False
        is_named = constraint.names is None or constraint in self.naming
        return is_named and constraint.labels <= self.labels


class Server:
    block: Block | None = None  # its entry in the index of first-fit
    slot: i64 = 0  # its row in the block
    lot: Lot | None = None  # its entry in the index of best-fit

    def __init__(
        self, name: str, order: i64, joined: i64, given: list[int], labels: Labels, group: str = ""
    ) -> None:
        self.name = name
        self.group = group  # the group of equal servers, which constraints may name; or empty
        self.order = order  # its position in the order of servers, as given
        self.joined = joined  # number of servers that joined before it
        self.given = given  # (R,) capacity in quanta
        # Capacity as the policy counts it: W amounts, then the columns of devices.
        self.capacity = vec[i64](given)
        # Capacity that no task holds, likewise; negative where tasks were assumed to run.
        self.free = self.capacity[:]
        self.labels = labels
        self.kind: i64 = 0  # the number of its kind
        self.is_draining = True  # whether no more tasks may start
        self.is_freed = False  # whether waiting tasks must be compared with it again
        self.running: i64 = 0  # number of running tasks

    def __lt__(self, other: Server) -> bool:
        if self.order == other.order:
            return self.joined < other.joined
        return self.order < other.order


class Shape:
    """The demand and the constraint of a task; tasks of one shape fit on the same servers."""

    def __init__(
        self,
        given: vec[i64],
        demand: vec[i64],
        constraint: Constraint,
        devices: list[DeviceColumns],
    ) -> None:
        self.given = given  # (R,) demand in quanta
        self.constraint = constraint
        self.key = (tuple([int(amount) for amount in given]), constraint)
        self.groups: i64 = 0  # number of groups with this shape
        self.demand = demand  # (W,) demand as the policy counts it
        # (C,) what a server must have free: the demand; `NOT_TAKEN` of a resource not taken.
        self.need = demand
        self.devices = devices  # of all resources
        self.by_device = [columns for columns in devices if demand[columns.resource] > 0]
        self.lead: i64 = 0  # the first demanded resource
        self.wanted = vec[float]()  # (W,) demand over that of the first resource
        # The share of one running task, where a queue's share is a sum (`criteria.tsf`); negative
        # if unknown.
        self.task_share = -1
        # Under fifo and easy: whether an idle server has room for a task, and the version of the
        # servers at which that was found.
        self.fits_idle = False
        self.checked_at: i64 = -1
        # Under easy: the smallest number of tasks that did not fit on all open servers together
        # since a server with room for one was last freed.
        self.no_room_for: i64 = MANY
        self.searched_at: i64 = -1  # under first-fit: the number of the last search
        self.passed: i64 = 0  # under first-fit: blocks without room before the end of that search
        self.count_as(demand)

    def count_as(self, demand: vec[i64]) -> None:
        """Set the demand in other units, such as slots after servers changed."""
        self.demand = demand
        need = [amount if amount > 0 else NOT_TAKEN for amount in demand]
        for columns in self.devices:
            asked = demand[columns.resource]
            is_part = columns.is_part(asked)
            need.append(asked if is_part and asked > 0 else NOT_TAKEN)
            need.append(NOT_TAKEN if is_part else asked // columns.unit)
        self.need = vec[i64](need)
        self.lead = 0
        while demand[self.lead] <= 0:
            self.lead += 1
        over = float(demand[self.lead])
        self.wanted = vec[float]([float(amount) / over for amount in demand])


class Counting:
    """The units in which a policy counts amounts: here quanta, as given."""

    def __init__(self, resources: i64, units: dict[int, int] | None = None) -> None:
        """Count some resources; `units` has the quanta of a device, by resource in devices."""
        self.resources = resources
        self.width = resources  # the number of amounts
        by_device = units or {}
        # The number of columns that decide whether a task fits (C).
        self.compared = resources + 2 * len(by_device)
        self.devices = columns_of(resources, by_device, self.compared)

    def of_server(self, given: list[int]) -> vec[i64]:
        return with_columns(vec[i64](given), self.devices)

    def of_task(self, given: vec[i64]) -> vec[i64]:
        return given

    def recount(self, servers: Iterable[Server]) -> bool:  # noqa: ARG002 (slots depend on them)
        """Update the units after servers changed; return whether they differ now."""
        return False

    def names(self, resources: list[str]) -> list[str]:
        """Return the names of all columns that are compared."""
        names = resources[:]
        for columns in self.devices:
            name = resources[columns.resource]
            names += [f"{name} on one device", f"{name} in whole devices"]
        return names

    def units(self, quanta: list[Fraction]) -> list[Fraction]:
        """Return the units of all columns that are compared."""
        units = quanta[:]
        for columns in self.devices:
            units += [quanta[columns.resource], Fraction(1)]
        return units

    def fitting_amount(self, shape: Shape, free: vec[i64], r: i64, least: int) -> int:
        """Return the largest demand of one resource that would fit, if the others fit; else 0.

        Amounts up to `least` are not distinguished from 0.
        """
        fitting = int(free[r])
        own = [r]
        for columns in self.devices:
            if columns.resource == r:
                fitting = columns.admissible(min(fitting, columns.fitting_amount(free)))
                own += [columns.largest_at, columns.whole_at]
        for other in range(self.compared):
            if other not in own and free[other] < shape.need[other]:
                return 0
        return fitting if least < fitting < int(shape.demand[r]) else 0


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
    """Submitted tasks of one shape; `demand` (R,) is of each task, in quanta."""

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
        self.attempts = attempts  # failures allowed for a task, or for all tasks of a gang together
        self.limit = limit  # longest run of a task, in seconds


class TaskGroup:
    """Tasks of one shape that were submitted together.

    Tasks have indices from 0. Those from `fresh` up to `end` have never run.
    """

    fresh: i64 = 0
    returned: list[int] | None = None  # indices of started tasks that wait again, ascending
    tasks: dict[int, Task] | None = None  # running tasks by id, which is the order of starts
    starts: dict[int, int] | None = None  # number of earlier starts of each task in `returned`
    failures: dict[int, int] | None = None  # failures of tasks by index, if `attempts` limits them
    is_over: bool = False  # cancelled or failed too often, so that stopped tasks do not wait again
    is_listed: bool = False  # whether it is in the heap of its waiting list

    def __init__(
        self, id: int, waiting_list: WaitingList, shape: Shape, tasks: int, terms: Terms
    ) -> None:
        self.id = id
        self.waiting_list = waiting_list
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
        """Return the number of waiting tasks of each shape that must start together."""
        return {self.shape: 1}

    def demand_together(self) -> list[int]:
        """Return (W,) the sum of the demands of these tasks."""
        total = [0] * len(self.shape.demand)
        for shape, tasks in self.tasks_together().items():
            for r in range(len(total)):
                total[r] += int(shape.demand[r]) * tasks
        return total

    def take(self, index: int) -> int:
        """Remove a task from the waiting ones; return how often it was started before."""
        if self.returned is not None and self.starts is not None and index in self.returned:
            self.returned.remove(index)
            return self.starts.pop(index)
        self.fresh += 1
        return 0

    def put_back(self, index: int, started: int) -> None:
        """Return a started task to the waiting ones, at its old position."""
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

    is_parked: bool = (
        False  # did not fit, and is skipped until a server is freed for one of its tasks
    )
    # Under fifo and easy, for tasks of one shape: whether all of them fit on idle servers, for
    # which version of the servers, and for how many waiting tasks.
    fits_idle: bool = False
    checked_at: i64 = -1
    checked_tasks: i64 = 0

    def __init__(
        self, id: int, waiting_list: WaitingList, parts: list[Shape], ends: list[int], terms: Terms
    ) -> None:
        super().__init__(id, waiting_list, parts[0], ends[-1], terms)
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
    row: i64 = -1  # its row in the log of a replay
    predicted_end: float = UNLIMITED  # of a task without a time limit, if it is predicted

    def __init__(
        self, id: int, group: TaskGroup, index: int, server: Server, attempt: int, since: float
    ) -> None:
        self.id = id
        self.group = group
        self.index = index  # its index in the group
        self.shape = group.shape_of(index)
        self.server = server
        self.attempt = attempt  # 1 for the first start of this task
        self.since = since  # time of its start, in seconds
        self.is_running = False
        self.is_stopping = False  # whether it holds its amounts only until it has stopped
        self.devices = NO_DEVICES  # the columns of its devices on its server

    def set_device_numbers(self, numbers: dict[int, list[int]]) -> None:
        """Set the devices by their numbers on its server, by resource."""
        self.devices = devices_of(self.shape, numbers)

    def device_numbers(self) -> dict[int, list[int]]:
        """Return the numbers of its devices on its server, by resource."""
        return device_numbers(self.shape, self.devices)

    @property
    def expected_end(self) -> float:
        """When it ends by its time limit or prediction; infinite if nothing is known."""
        return min(self.since + self.group.limit, self.predicted_end)


@mypyc_attr(acyclic=True)
class Placement:
    """The start of a task.

    Attributes
    ----------
    task, group : int
        Ids; a task gets another one each time it starts.
    queue, server : str
    attempt : int
        1 for the first start of this task.
    index : int
        Of the task in its group.
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
    queue = group.waiting_list.queue
    return Placement(task.id, group.id, queue.name, server.name, task.attempt, task.index)


class WaitingList:
    """The waiting groups of one shape in a queue, under easy also of one time limit; or one gang.

    It is active if its first group may fit on some server. It is parked if the group fits on none,
    except perhaps on servers that were freed since.
    """

    active_order: Order | None = None  # the order of its valid entry in `queue.active`
    row: i64 = -1  # its position in `queue.parked`, or -1
    is_held_back: bool = False  # whether it is in `queue.held_back`

    def __init__(self, queue: Queue, key: WaitingListKey | None) -> None:
        self.queue = queue
        self.key = key  # None for a gang
        self.shape = None if key is None else key[0]
        self.groups: i64 = 0  # number of groups with waiting or running tasks
        # A heap; entries of groups without waiting tasks or with another order are stale.
        self.heap: list[tuple[Order, TaskGroup]] = []

    def __lt__(self, other: WaitingList) -> bool:
        """Order arbitrarily: of heap entries with equal orders only one is valid."""
        return False

    def add(self, group: TaskGroup) -> None:
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


WaitingListKey = tuple[Shape, float]  # unlimited if lists have groups of any limit


class Queue:
    def __init__(
        self, name: str, serial: int, weight: tuple[int, int], parent: Queue | None, width: i64
    ) -> None:
        self.name = name
        self.serial = serial  # number of queues added before it
        self.weight = weight  # numerator and denominator
        self.parent = parent  # None for the root alone
        self.children: i64 = 0  # number of queues directly below it
        self.held = zeros(width)  # (W,) amounts of running tasks here and below
        self.share = 0  # the sum over its running tasks, where shares are sums
        self.running_by_shape: dict[Shape, int] = {}  # number of running tasks
        self.score = 0  # floor(share / weight * 2**64)
        self.waiting: i64 = 0  # number of tasks here and below
        self.running: i64 = 0  # number of tasks here and below
        self.is_limited: bool = parent is not None and parent.is_limited  # here, or above it
        # The ranks of queues directly below with waiting tasks, ascending; and those queues.
        self.ranks: list[Rank] = []
        self.ranked: list[Queue] = []
        self.rank: Rank | None = None  # its own, in the list of its parent
        # During a call of `place`: how many of `ranked` can start no more tasks.
        self.passed: i64 = 0
        self.passed_in: i64 = -1  # the call of `place` that `passed` belongs to
        self.waiting_lists: dict[WaitingListKey, WaitingList] = {}
        self.active: list[
            tuple[Order, WaitingList]
        ] = []  # a heap of waiting lists; stale entries are skipped
        self.most_active: i64 = 64  # entries of that heap before stale ones are dropped
        self.parked: list[WaitingList] = []
        self.needs = vec[i64]()  # the need of each parked waiting list, one after the other
        self.gangs_parked: dict[int, Gang] = {}  # by id
        self.priorities: dict[int, int] = {}  # number of its groups, by priority
        # Where past use counts: (W,) held amounts with a half-life, empty for zeros; their time.
        self.used: list[float] = []
        self.used_at = 0.0
        self.last_runs: list[float] = []  # seconds; at most two, where run times are predicted
        self.longest = UNLIMITED  # the longest time limit of a task that may start now, in seconds
        self.quotas: list[Quota] = []  # guarantees of running tasks here and below
        self.limit: Limit | None = None  # of running tasks here and below
        # Waiting lists whose first group was beyond a limit, and how many to try at most the next
        # time, as some may be within it again; 0 if none is.
        self.held_back: list[WaitingList] = []
        self.resumes: i64 = 0


class Limit:
    """The most that the running tasks of a queue and those below it may hold."""

    def __init__(self, amounts: list[int], tasks: int) -> None:
        self.amounts = vec[i64](amounts)  # (R,), `NO_LIMIT` for resources without one
        self.tasks: i64 = tasks


class Quota:
    """Guaranteed amounts of the tasks of a queue and of those below it, on some servers."""

    def __init__(self, constraint: Constraint, amounts: list[int]) -> None:
        self.constraint = constraint  # that admits the servers
        self.amounts = vec[i64](amounts)  # (W,), `NO_QUOTA` for resources without one
        self.held = zeros(len(amounts))  # (W,) what running tasks hold there

    def is_on(self, server: Server) -> bool:
        return self.constraint.admits[server.kind]


Plan = list[tuple[int, Server]]  # indices of waiting tasks of a group, and the server of each
Starts = list[tuple[Shape, Server]]  # the shapes of tasks, and where they start


def is_within_quotas(queue: Queue, starts: Starts) -> bool | None:
    """Return whether a queue holds at most its quotas after some starts.

    Of each quota only the resources count that the tasks take on its servers. None if there are
    none in any quota.
    """
    is_named = False
    for quota in queue.quotas:
        for r in range(len(quota.amounts)):
            if quota.amounts[r] == NO_QUOTA:
                continue
            asked = sum([int(shape.demand[r]) for shape, server in starts if quota.is_on(server)])
            if asked > 0:
                is_named = True
                if int(quota.held[r]) + asked > int(quota.amounts[r]):
                    return False
    return True if is_named else None


def limit_reached(group: TaskGroup) -> Queue | None:
    """Return the queue whose limit keeps a group from starting, the lowest one; None if none does.

    A limit is of amounts that the group takes, or of tasks. While tasks are placed before a
    reserved start, their run time is limited, too.
    """
    node = group.waiting_list.queue
    if group.limit > node.longest:
        return node
    while node.is_limited and node.parent is not None:
        limit = node.limit
        if limit is not None and exceeds(limit, node.held, node.running, group):
            return node
        node = node.parent
    return None


def runs_all_tasks(queue: Queue) -> bool:
    """Return whether a queue, or one above it, runs as many tasks as its limit allows."""
    node = queue
    while node.is_limited and node.parent is not None:
        if node.limit is not None and node.running >= node.limit.tasks:
            return True
        node = node.parent
    return False


def is_beyond_limits(group: TaskGroup) -> bool:
    """Return whether a limit keeps a group from starting even if nothing else ran."""
    node = group.waiting_list.queue
    while node.is_limited and node.parent is not None:
        limit = node.limit
        if limit is not None and exceeds(limit, zeros(len(node.held)), 0, group):
            return True
        node = node.parent
    return False


def exceeds(limit: Limit, held: vec[i64], running: i64, group: TaskGroup) -> bool:
    """Return whether the next task of a group, or all of a gang, would be beyond a limit."""
    if not isinstance(group, Gang):
        demand = group.shape.demand
        for r in range(len(limit.amounts)):
            if demand[r] > 0 and demand[r] > limit.amounts[r] - held[r]:
                return True
        return running >= limit.tasks
    if group.waiting > limit.tasks - running:
        return True
    asked = group.demand_together()
    for r in range(len(limit.amounts)):
        most = limit.amounts[r]
        if most != NO_LIMIT and asked[r] > 0 and asked[r] > int(most) - int(held[r]):
            return True
    return False


def path_of(queue: Queue) -> list[Queue]:
    """Return the queues above a queue, from the top down, and then the queue."""
    path: list[Queue] = []
    node: Queue | None = queue
    while node is not None and node.parent is not None:
        path.insert(0, node)
        node = node.parent
    return path


def ranked_leaves(queue: Queue) -> list[Queue]:
    """Return the leaves with waiting tasks below a queue, in the order of ranks on each level."""
    found: list[Queue] = []
    for child in queue.ranked:
        found += ranked_leaves(child) if child.children else [child]
    return found


def sorted_by_serial(queues: Iterable[Queue], is_last_first: bool = False) -> list[Queue]:
    """Return queues in the order in which they were added, or in the reverse."""
    by_serial = {queue.serial: queue for queue in queues}
    return [by_serial[serial] for serial in sorted(by_serial, reverse=is_last_first)]

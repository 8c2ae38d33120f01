"""The entities of a scheduler: servers, shapes, groups of tasks, queues and running tasks.

Arrays of amounts have one of three lengths:

- R: one number for each resource, in whole quanta.
- W: the amounts that the policy counts. Usually these are the R quanta. Under ``slots:N`` the first
  is a number of slots, and the others are the R quanta, 0 for resources that a slot contains.
- C: the W amounts, and two more columns for each resource that comes in devices (`_devices`). A
  task fits on a server if the server has enough in all C columns.
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
    extend_to,
    with_columns,
)

if TYPE_CHECKING:
    from fairlead.scheduler.selection.best_fit import Lot
    from fairlead.scheduler.selection.first_fit import Block

NOT_TAKEN: Final = -(2**62)  # the need of a resource not demanded; no free amount is less
NO_LIMIT: Final = 2**63 - 1  # for an amount or a number of tasks without a limit
NO_QUOTA: Final = -1  # for a resource without a quota
UNLIMITED: Final = float("inf")  # seconds, for tasks without a time limit
MANY: Final = 2**62  # no group has more tasks

Labels = frozenset[tuple[str, str]]
ConstraintKey = tuple[Labels, frozenset[str] | None]
# The key of a `Constraint` in `ServerKinds.constraints`: the constraint, and a demand (R,) or
# ``()``. Under `/spare`, servers with the spared resource are kept for tasks that ask for it.
# Whether other tasks fit elsewhere depends on their demand, so only their key has the demand.
TableKey = tuple[ConstraintKey, tuple[int, ...]]

# Sort keys. Their types have a variable length, because mypyc keeps such a tuple as one object.
Order = tuple[float, ...]  # of a group in its queue: minus the priority, time of submission, id
# Of a queue: 1 for weight 0, else 0; the score; its place among equal queues. Under fifo and easy:
# the time of submission and the id of its first group.
Rank = tuple[float, ...]


def zeros(width: i64) -> vec[i64]:
    return vec[i64]([0] * int(width))


def less_than_any_need(width: i64) -> vec[i64]:
    """Return amounts below every need of a task, to start a maximum from."""
    return vec[i64]([NOT_TAKEN - 1] * int(width))


def largest_of(rows: vec[i64], width: i64) -> vec[i64]:
    """Return the maximum of each column; `rows` are rows of `width`, one after the other."""
    largest = less_than_any_need(width)
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
    """Take a task with some devices from the free amounts of a server (1), or give it back (-1)."""
    add_to(free, shape.demand, -sign)
    if shape.taken_columns:
        for columns in shape.taken_columns:
            columns.take(shape.demand[columns.resource], devices, free, sign)


def choose_devices(shape: Shape, free: vec[i64]) -> vec[i64]:
    """Choose devices for a task from the free amounts of a server; return their columns."""
    if not shape.taken_columns:
        return NO_DEVICES
    found: list[i64] = []
    for columns in shape.taken_columns:
        found += columns.choose(shape.demand[columns.resource], free)
    return vec[i64](found)


def restore_columns(server: Server, devices: vec[i64]) -> None:
    """Restore the columns of a task's devices, which a server lost if its capacity fell."""
    for column in devices:
        server.free = extend_to(server.free, column)


def devices_of(shape: Shape, numbers: dict[int, list[int]]) -> vec[i64]:
    """Return the columns of a task's devices, given their numbers on its server by resource."""
    found: list[int] = []
    for columns in shape.taken_columns:
        found += columns.columns_of(numbers.get(int(columns.resource), []))
    return vec[i64](found)


def device_numbers(shape: Shape, devices: vec[i64]) -> dict[int, list[int]]:
    """Return the numbers of a task's devices on its server by resource; inverts `devices_of`."""
    return {int(columns.resource): columns.numbers(devices) for columns in shape.taken_columns}


def larger(amounts: list[int], others: list[int]) -> list[int]:
    """Return the element-wise maximum."""
    return [max(amount, other) for amount, other in zip(amounts, others, strict=True)]


class Constraint:
    """A placement constraint: servers must have all of some labels, and one of some names."""

    def __init__(self, table_key: TableKey) -> None:
        key = table_key[0]
        self.table_key = table_key
        self.key = key
        self.demand = table_key[1]
        self.is_kept_off = False  # whether servers with the spared resource refuse its tasks
        self.labels = key[0]
        self.names = key[1]  # names of servers or groups, of which one must match; None for any
        self.admits = vec[bool]()  # whether it admits servers of a kind, by the kind's number
        self.uses: i64 = 0  # number of shapes and quotas with this constraint


class ServerKind:
    """Servers that the same constraints admit."""

    def __init__(
        self, labels: Labels, named_by: frozenset[Constraint], has_spared: bool, number: i64
    ) -> None:
        self.labels = labels
        self.named_by = named_by  # the constraints that name these servers
        self.has_spared = has_spared  # whether they have the spared resource
        self.number = number
        self.servers: i64 = 0  # number of servers of this kind

    def is_admitted(self, constraint: Constraint) -> bool:
        """Return whether a constraint admits these servers."""
        if constraint.is_kept_off and self.has_spared:
            return False
        is_named = constraint.names is None or constraint in self.named_by
        return is_named and constraint.labels <= self.labels


class Server:
    """A server, its free amounts, and its entries in the indexes of selections."""

    block: Block | None = None  # of the index of first-fit
    slot: i64 = 0  # its row in the block
    lot: Lot | None = None  # of the index of best-fit

    def __init__(
        self, name: str, order: i64, joined: i64, given: list[int], labels: Labels, group: str = ""
    ) -> None:
        self.name = name
        self.group = group  # its group of equal servers, which constraints may name; or empty
        self.order = order  # its position in the order of servers, as given
        self.joined = joined  # number of servers that joined before it
        self.given = given  # (R,) capacity in quanta
        # Capacity as the policy counts it: W amounts, then the columns of devices.
        self.capacity = vec[i64](given)
        # Capacity that no task holds, in the same columns; negative on overcommitted servers.
        self.free = self.capacity[:]
        self.labels = labels
        self.kind: i64 = 0  # the number of its kind
        self.is_draining = True  # whether no more tasks may start; true until the server is opened
        self.is_freed = False  # whether parked waiting lists must be compared with it again
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
        # (C,) the amounts that a server must have free; `NOT_TAKEN` for resources not demanded.
        self.need = demand
        self.devices = devices  # the columns of all resources that come in devices
        # Those of the resources that the task demands.
        self.taken_columns = [columns for columns in devices if demand[columns.resource] > 0]
        self.lead: i64 = 0  # the first demanded resource
        self.proportions = vec[float]()  # (W,) demand over that of the first demanded resource
        # Where a queue's share is a sum over tasks: that of a running task; negative if unknown.
        self.task_share = -1
        # Under fifo and easy: whether a task fits on an empty server, and the version of the
        # servers at which that was found.
        self.fits_empty = False
        self.checked_at: i64 = -1
        # Under easy: the smallest number of tasks that did not fit on all open servers together
        # since a server with room for one task was last freed.
        self.no_room_for: i64 = MANY
        # Under first-fit: the number of the last search, and how many blocks it passed because
        # they had no room.
        self.searched_at: i64 = -1
        self.passed: i64 = 0
        self.count_as(demand)

    def count_as(self, demand: vec[i64]) -> None:
        """Set the demand as the policy counts it, and the fields that follow from it."""
        self.demand = demand
        need = [amount if amount > 0 else NOT_TAKEN for amount in demand]
        for columns in self.devices:
            asked = demand[columns.resource]
            is_fraction = columns.is_fraction(asked)
            need.append(asked if is_fraction and asked > 0 else NOT_TAKEN)
            need.append(NOT_TAKEN if is_fraction else asked // columns.unit)
        self.need = vec[i64](need)
        self.lead = 0
        while demand[self.lead] <= 0:
            self.lead += 1
        lead_demand = float(demand[self.lead])
        self.proportions = vec[float]([float(amount) / lead_demand for amount in demand])


class Counting:
    """The units in which a policy counts amounts: here quanta; in `Slots`, slots."""

    def __init__(self, resources: i64, device_quanta: dict[int, int] | None = None) -> None:
        """Count R resources; `device_quanta` has the quanta of one device, by resource."""
        self.resources = resources  # R
        self.width = resources  # W, the number of amounts
        device_quanta = device_quanta or {}
        self.compared = resources + 2 * len(device_quanta)  # C, the number of compared columns
        self.devices = columns_of(resources, device_quanta, self.compared)

    def of_server(self, given: list[int]) -> vec[i64]:
        """Return the capacity of a server (R,) as the policy counts it, with device columns."""
        return with_columns(vec[i64](given), self.devices)

    def of_task(self, given: vec[i64]) -> vec[i64]:
        """Return the demand of a task (R,) as the policy counts it (W,)."""
        return given

    def recount(self, servers: Iterable[Server]) -> bool:  # noqa: ARG002 (slots depend on them)
        """Update the units after servers changed; return whether the units changed."""
        return False

    def names(self, resources: list[str]) -> list[str]:
        """Return (C,) the names of the compared columns."""
        names = resources[:]
        for columns in self.devices:
            name = resources[columns.resource]
            names += [f"{name} on one device", f"{name} in whole devices"]
        return names

    def units(self, quanta: list[Fraction]) -> list[Fraction]:
        """Return (C,) the units of the compared columns."""
        units = quanta[:]
        for columns in self.devices:
            units += [quanta[columns.resource], Fraction(1)]
        return units

    def fitting_amount(self, shape: Shape, free: vec[i64], r: i64, above: int) -> int:
        """Return the largest smaller demand of a resource with which the task would fit.

        0 if another resource is lacking, too, or if that demand is not above `above`.
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
        return fitting if above < fitting < int(shape.demand[r]) else 0


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
    """Tasks of one shape in a submission."""

    def __init__(self, demand: list[int], tasks: int, where: ConstraintKey) -> None:
        self.demand = demand  # (R,) of each task, in quanta
        self.tasks = tasks
        self.where = where


class Terms:
    """The terms of a submitted group of tasks."""

    def __init__(
        self,
        time: float,
        priority: int = 0,
        attempts: int | None = None,
        time_limit: float = UNLIMITED,
    ) -> None:
        self.time = time  # of submission, in seconds
        self.priority = priority
        # Failures after which a task does not wait again; of a gang, of all its tasks together.
        self.attempts = attempts
        self.time_limit = time_limit  # longest run of a task, in seconds


class TaskGroup:
    """Tasks of one shape that were submitted together.

    Tasks have indices from 0. Those from `fresh` up to `end` have never run.
    """

    fresh: i64 = 0
    returned: list[int] | None = None  # indices of started tasks that wait again, ascending
    tasks: dict[int, Task] | None = None  # running tasks by id, which is the order of starts
    starts: dict[int, int] | None = None  # number of earlier starts of each task in `returned`
    # Number of failures by index of the task (of a gang all under 0), if `attempts` limits them.
    failures: dict[int, int] | None = None
    is_over: bool = False  # cancelled or failed too often, so that stopped tasks do not wait again
    is_listed: bool = False  # whether it is in the heap of its waiting list

    def __init__(
        self, id: int, waiting_list: WaitingList, shape: Shape, tasks: int, terms: Terms
    ) -> None:
        self.id = id
        self.waiting_list = waiting_list
        self.shape = shape  # of its tasks; of a gang, of the first one
        self.end: i64 = tasks
        self.time = terms.time
        self.priority = terms.priority
        self.attempts = terms.attempts
        self.time_limit = terms.time_limit
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
        """Return the indices of waiting tasks. O(tasks), so used for gangs only."""
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
        """Return (W,) the sum of the demands of the waiting tasks that must start together."""
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
        """Remove all waiting tasks; stopped ones will not wait again."""
        self.returned = None
        self.starts = None
        self.end = self.fresh
        self.is_over = True


class Gang(TaskGroup):
    """Tasks, perhaps of several shapes, that start together and stop together."""

    # Whether it did not fit, and is skipped until a server with room for one of its tasks is freed.
    is_parked: bool = False
    # Under fifo and easy, for tasks of one shape: whether all of them fit on empty servers, and the
    # version of the servers and the number of waiting tasks for which that was found.
    fits_empty: bool = False
    checked_at: i64 = -1
    checked_tasks: i64 = 0

    def __init__(
        self, id: int, waiting_list: WaitingList, parts: list[Shape], ends: list[int], terms: Terms
    ) -> None:
        super().__init__(id, waiting_list, parts[0], ends[-1], terms)
        self.parts = parts  # the shapes of its tasks, in the order of their indices
        self.ends = ends  # the index after the last task of each of these shapes

    def shape_of(self, index: int) -> Shape:
        for part in range(len(self.ends)):
            if index < self.ends[part]:
                return self.parts[part]
        raise IndexError(index)

    def shapes(self) -> list[Shape]:
        return self.parts

    def has_one_shape(self) -> bool:
        """Return whether all its tasks have one shape."""
        return len(self.parts) == 1

    def tasks_together(self) -> dict[Shape, int]:
        found: dict[Shape, int] = {}
        for index in self.returned or []:
            shape = self.shape_of(index)
            found[shape] = found.get(shape, 0) + 1
        first = int(self.fresh)
        for shape, shape_end in zip(self.parts, self.ends, strict=True):
            end = min(shape_end, int(self.end))
            if end > first:
                found[shape] = found.get(shape, 0) + end - first
                first = end
        return found


class Task:
    """A running task."""

    row: i64 = -1  # its row in the log of a replay
    # In seconds; only of a task without a time limit, where run times are predicted.
    predicted_end: float = UNLIMITED

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
        self.is_stopping = False  # whether it is a victim of preemption that has not stopped yet
        self.devices = NO_DEVICES  # the columns of its devices on its server

    def device_numbers(self) -> dict[int, list[int]]:
        """Return the numbers of its devices on its server, by resource."""
        return device_numbers(self.shape, self.devices)

    @property
    def expected_end(self) -> float:
        """Its end in seconds by its time limit or a prediction; infinite if neither is known."""
        return min(self.since + self.group.time_limit, self.predicted_end)


@mypyc_attr(acyclic=True)
class Placement:
    """The start of a task.

    Attributes
    ----------
    task : int
        Id of this start; a task gets another id each time it starts.
    group : int
        Id of its group.
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
    """The waiting groups of one shape in a queue, or one gang.

    Under easy and ``/reserve`` all groups of a list have one time limit. A list is active if its
    first group may fit on some server. It is parked if that group fits on no server, except perhaps
    on servers that were freed since.
    """

    active_order: Order | None = None  # the order of its valid entry in `queue.active`, if active
    row: i64 = -1  # its position in `queue.parked`, or -1
    is_held_back: bool = False  # whether it is in `queue.held_back`

    def __init__(self, queue: Queue, key: WaitingListKey | None) -> None:
        self.queue = queue
        self.key = key  # None for a gang
        self.shape = None if key is None else key[0]
        self.groups: i64 = 0  # number of groups with waiting or running tasks
        # A heap; an entry is stale if its group has no waiting tasks, or another order by now.
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


# A shape and a time limit in seconds, `UNLIMITED` where lists have groups of any limit.
WaitingListKey = tuple[Shape, float]


class Queue:
    """A user or a team: its waiting groups, its held amounts, and its rank among its siblings."""

    def __init__(
        self, name: str, serial: int, weight: tuple[int, int], parent: Queue | None, width: i64
    ) -> None:
        self.name = name
        self.serial = serial  # number of queues added before it
        self.weight = weight  # numerator and denominator
        self.parent = parent  # None only for the root
        self.children: i64 = 0  # number of queues directly below it
        self.held = zeros(width)  # (W,) amounts of running tasks here and below
        self.share = 0  # under tsf and ps-dsf: the sum of the shares of its running tasks
        self.running_by_shape: dict[Shape, int] = {}  # number of its running tasks
        self.score = 0  # floor(share / weight * 2**64)
        self.waiting: i64 = 0  # number of waiting tasks here and below
        self.running: i64 = 0  # number of running tasks here and below
        # Whether it, or a queue above it, has a limit.
        self.is_limited: bool = parent is not None and parent.is_limited
        # The ranks of queues directly below with waiting tasks, ascending; and these queues.
        self.ranks: list[Rank] = []
        self.ranked: list[Queue] = []
        self.rank: Rank | None = None  # its own, in the list of its parent
        # During a call of `place`: how many of `ranked`, counted from the first, can start no task.
        self.passed: i64 = 0
        self.passed_in: i64 = -1  # the call of `place` in which `passed` was counted
        self.waiting_lists: dict[WaitingListKey, WaitingList] = {}
        # A heap of active waiting lists; stale entries are skipped.
        self.active: list[tuple[Order, WaitingList]] = []
        self.max_active: i64 = 64  # entries of that heap beyond which stale ones are dropped
        self.parked: list[WaitingList] = []
        self.needs = vec[i64]()  # (parked lists * C,) the need of each, one after the other
        self.gangs_parked: dict[int, Gang] = {}  # by id
        self.priorities: dict[int, int] = {}  # number of its groups, by priority
        # Under `/half-life`: (W,) the past use in quanta at the time `past_use_at`, in seconds;
        # empty if all are 0.
        self.past_use: list[float] = []
        self.past_use_at = 0.0
        # Under `/reserve`: the last run times of its tasks in seconds, at most two.
        self.last_runs: list[float] = []
        self.longest_limit = UNLIMITED  # longest time limit of tasks that may start now, in seconds
        self.quotas: list[Quota] = []  # guarantees of running tasks here and below
        self.limit: Limit | None = None  # of running tasks here and below
        self.held_back: list[WaitingList] = []  # their first group was beyond a limit
        self.may_resume: bool = False  # whether some of these may be within the limit again


class Limit:
    """The maximum of the running tasks of a queue and the queues below it."""

    def __init__(self, amounts: list[int], tasks: int) -> None:
        self.amounts = vec[i64](amounts)  # (R,) quanta, `NO_LIMIT` for resources without one
        self.tasks: i64 = tasks  # `NO_LIMIT` for any number


class Quota:
    """Guaranteed amounts of a queue and the queues below it, on some servers."""

    def __init__(self, constraint: Constraint, amounts: list[int]) -> None:
        self.constraint = constraint  # admits these servers
        self.amounts = vec[i64](amounts)  # (W,) quanta, `NO_QUOTA` for resources without one
        self.held = zeros(len(amounts))  # (W,) amounts that their running tasks hold there

    def is_on(self, server: Server) -> bool:
        return self.constraint.admits[server.kind]


class PlannedTask:
    """A waiting task, and the server and the devices that are planned for it."""

    def __init__(self, index: int, shape: Shape, server: Server, free: vec[i64]) -> None:
        """Choose the best-fitting devices of the server's free amounts."""
        self.index = index  # the index of the task in its group
        self.shape = shape
        self.server = server
        self.devices = choose_devices(shape, free)  # their columns

    def take_from(self, free: vec[i64], sign: i64) -> None:
        """Take the task from free amounts of its server (1), or give it back (-1)."""
        take_from(free, self.shape, self.devices, sign)


Plan = list[PlannedTask]  # waiting tasks of a group that start together
Starts = list[tuple[Shape, Server]]  # the shapes of tasks, and where they start


def is_within_quotas(queue: Queue, starts: Starts) -> bool | None:
    """Return whether a queue is within its quotas after some starts.

    Only resources count that the starting tasks take on the servers of the quota. None if no quota
    has such a resource.
    """
    is_counted = False
    for quota in queue.quotas:
        for r in range(len(quota.amounts)):
            if quota.amounts[r] == NO_QUOTA:
                continue
            asked = sum([int(shape.demand[r]) for shape, server in starts if quota.is_on(server)])
            if asked > 0:
                is_counted = True
                if int(quota.held[r]) + asked > int(quota.amounts[r]):
                    return False
    return True if is_counted else None


def limit_reached(group: TaskGroup) -> Queue | None:
    """Return the lowest queue whose limit keeps a group from starting, or None.

    A time limit above the queue's `longest_limit` counts, too: the task would delay a reserved
    start.
    """
    node = group.waiting_list.queue
    if group.time_limit > node.longest_limit:
        return node
    while node.is_limited and node.parent is not None:
        limit = node.limit
        if limit is not None and exceeds(limit, node.held, node.running, group):
            return node
        node = node.parent
    return None


def is_at_task_limit(queue: Queue) -> bool:
    """Return whether a queue, or a queue above it, runs as many tasks as its limit allows."""
    node = queue
    while node.is_limited and node.parent is not None:
        if node.limit is not None and node.running >= node.limit.tasks:
            return True
        node = node.parent
    return False


def is_beyond_limits(group: TaskGroup) -> bool:
    """Return whether a limit keeps a group from starting even when no other task runs."""
    nothing = zeros(len(group.shape.demand))
    limits = [queue.limit for queue in path_of(group.waiting_list.queue)]
    return any(limit is not None and exceeds(limit, nothing, 0, group) for limit in limits)


def exceeds(limit: Limit, held: vec[i64], running: i64, group: TaskGroup) -> bool:
    """Return whether the next task of a group, or a whole gang, would exceed a limit."""
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
        maximum = limit.amounts[r]
        if maximum != NO_LIMIT and asked[r] > 0 and asked[r] > int(maximum) - int(held[r]):
            return True
    return False


def path_of(queue: Queue) -> list[Queue]:
    """Return the path to a queue from a child of the root down, the queue included."""
    path: list[Queue] = []
    node: Queue | None = queue
    while node is not None and node.parent is not None:
        path.insert(0, node)
        node = node.parent
    return path


def sorted_by_serial(queues: Iterable[Queue], is_last_first: bool = False) -> list[Queue]:
    """Return queues in the order in which they were added, or in reverse."""
    by_serial = {queue.serial: queue for queue in queues}
    return [by_serial[serial] for serial in sorted(by_serial, reverse=is_last_first)]

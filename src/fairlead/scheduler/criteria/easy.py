"""EASY backfilling: first in, first out, but later groups may start if they delay no reservation.

The first group without room, the head, gets a reservation: the earliest time at which it fits if
running tasks end at their limits, and the servers that the selection chooses then. A task beyond
its limit is expected to end now, a task without a limit never. A later group may start now if it
fits, and either ends by the reserved time or leaves room for the reserved tasks. The reservation is
recomputed after each start. (Mu'alem and Feitelson 2001, for one pool.) Oversized groups do not
start, as under `criteria.fifo`.
"""

from __future__ import annotations

from bisect import bisect_right

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._cycle import plan_together, reason_without_room
from fairlead.scheduler._devices import summarise_devices
from fairlead.scheduler._entities import (
    MANY,
    UNLIMITED,
    Gang,
    Order,
    Plan,
    PlannedTask,
    Server,
    Shape,
    Task,
    TaskGroup,
    fits,
    limit_reached,
)
from fairlead.scheduler._reserving import find_start, reason_to_wait_for
from fairlead.scheduler._state import State, end_of
from fairlead.scheduler._waiting import resume
from fairlead.scheduler.criteria.fifo import (
    TOO_LARGE_TOGETHER,
    SubmissionCycle,
    SubmissionTime,
    submitted,
)
from fairlead.scheduler.explanation import Reservation, WaitReason


class ReservedStart:
    """The reserved start of the head: its time, and the amounts left on its servers then."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.at = UNLIMITED  # in seconds; infinite if the head fits at no expected end
        # By name of a reserved server: its free amounts at that time, less the reserved tasks.
        self.spare: dict[str, vec[i64]] = {}
        # By shape: the least number of tasks that, started together, would delay the head.
        self.no_spare_for: dict[Shape, int] = {}

    def plan_on(self, group: TaskGroup, servers: list[Server]) -> Plan:
        """Plan the head on some servers at a time; store in `spare` the amounts that it leaves."""
        state = self.state
        plan = plan_together(group, servers, state.selection, state.criterion.total)
        for task in plan:
            spare = self.spare.setdefault(task.server.name, task.server.free[:])
            task.take_from(spare, 1)
        return plan

    def has_spare(self, server: Server, shape: Shape) -> bool:
        """Return whether a task of a shape on a server leaves room for the reserved tasks."""
        if server.name not in self.spare:
            return True
        return fits(shape.need, self.spare_on(server, shape))

    def spare_on(self, server: Server, shape: Shape) -> vec[i64]:
        """Return the amounts of a server that a task may hold beyond the reserved time.

        A device must have room for the task both now and at that time.
        """
        spare = self.spare.get(server.name)
        if spare is None:
            return server.free
        if not shape.taken_columns:
            return spare  # callers check that the task fits now
        least = spare[:]
        for r in range(len(least)):
            least[r] = min(least[r], server.free[r])
        summarise_devices(least, shape.taken_columns)
        return least

    def use(self, task: PlannedTask, sign: i64) -> None:
        """Take a task from `spare` (1), or give it back (-1).

        It must be a task that still runs at the reserved time.
        """
        spare = self.spare.get(task.server.name)
        if spare is not None:
            task.take_from(spare, sign)


class BackfillingTime(SubmissionTime):
    """Ranks queues like `SubmissionTime`, and keeps the expected ends of running tasks."""

    splits_by_limit = True
    keeps_ends = True


class BackfillingCycle(SubmissionCycle):
    """Starts the first group, or a later one that does not delay the reservation of the first."""

    makes_reservations = True

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        # While a gang is planned: the reserved start that it must not delay, if any.
        self.protected: ReservedStart | None = None
        self.without_room: set[Shape] = set()  # shapes with a number in `no_room_for`

    def prepare(self) -> None:
        """Update data for the changes since the last call.

        Forget `no_room_for` of shapes with room on freed servers, resume waiting lists that are
        within their limits again, and rank queues if needed.
        """
        freed = self.state.freed
        if freed.servers:
            for shape in list(self.without_room):
                if shape.groups == 0 or freed.has_room(shape):
                    shape.no_room_for = MANY
                    self.without_room.remove(shape)
        for queue in self.state.queues.values():
            resume(queue)
        super().prepare()

    def place_next(self, started: list[Task]) -> bool:
        """Start the first group, or a later one that does not delay it; return whether one did."""
        head = self.next_group()
        if head is None:
            return False
        if self.start_next(head, started):
            return True
        return self.start_later(head, self.reserve(head), started)

    def start_next(self, group: TaskGroup, started: list[Task]) -> bool:
        if not isinstance(group, Gang):
            return super().start_next(group, started)
        if group.is_parked:
            return False
        plan = self.plan_now(group)
        self.book_plan(group, plan, started)
        return len(plan) > 0

    def plan_now(self, gang: Gang) -> Plan:
        """Return the plan of a gang; park a gang of one shape that does not fit.

        A gang of several shapes is not parked: as it is planned task by task, it may fit when less
        is free.
        """
        if not gang.has_one_shape():
            return self.plan_gang(gang)
        shape, tasks = gang.shape, gang.waiting
        plan: Plan = self.plan_gang(gang) if tasks < shape.no_room_for else []
        if not plan:
            self.note_without_room(shape, tasks)
            self.state.park_gang(gang)
        return plan

    def note_without_room(self, shape: Shape, tasks: i64) -> None:
        """Record that this many tasks of a shape do not fit on the open servers together."""
        shape.no_room_for = min(shape.no_room_for, tasks)
        self.without_room.add(shape)

    # The reservation

    def next_moment(self) -> float:
        """Return the first expected end of a task after the reserved time; infinite if none."""
        head = self.next_group()
        if head is None:
            return UNLIMITED
        at = self.reserve(head).at
        ends = self.state.ends
        later = bisect_right(ends, at, key=end_of)
        return ends[later][0] if later < len(ends) else UNLIMITED

    def reserve(self, group: TaskGroup) -> ReservedStart:
        """Return the reserved start of a group that does not fit now."""
        reserved = ReservedStart(self.state)
        planned = find_start(self.state, group, [], UNLIMITED, reserved.plan_on)
        if planned is not None:
            reserved.at = planned.at
        return reserved

    # Later groups that start before the head

    def start_later(self, head: TaskGroup, reserved: ReservedStart, started: list[Task]) -> bool:
        """Start the earliest later group that does not delay the head; return whether one did."""
        best: TaskGroup | None = None
        best_key: Order = ()  # `latest_submission`, then the order in its queue
        best_plan: Plan = []
        for queue in self.state.queues.values():
            if queue.rank is None or queue.children:
                continue
            for order, waiting_list in queue.active:
                shape = waiting_list.shape
                if shape is not None and shape.no_room_for == 1:
                    continue  # not even one task fits
                if waiting_list.active_order is not order and waiting_list.active_order != order:
                    continue  # stale
                group = waiting_list.first()
                if group is None or group is head or limit_reached(group):
                    continue
                if best is not None and submitted(group) > best_key[:2]:
                    continue  # `latest_submission` would be later still
                plan = self.plan_later(group, reserved)
                if plan and self.criterion.fits_empty(group):
                    key: Order = (*self.latest_submission(group), *group.order)
                    if best is None or key < best_key:
                        best = group
                        best_key = key
                        best_plan = plan
        if best is None:
            return False
        self.book_plan(best, best_plan, started)
        return True

    def ends_in_time(self, group: TaskGroup, reserved: ReservedStart) -> bool:
        """Return whether tasks of a group that start now end by the reserved time."""
        return self.state.now + group.time_limit <= reserved.at

    def plan_later(self, group: TaskGroup, reserved: ReservedStart) -> Plan:
        """Return the plan of a group's next task, or of a gang, that does not delay the head.

        Groups of one waiting list have one time limit, so only the first one is tried.
        """
        ends_in_time = self.ends_in_time(group, reserved)
        if isinstance(group, Gang):
            return self.plan_now(group) if ends_in_time else self.plan_spare(group, reserved)
        shape, index = group.shape, group.first_index()
        if not ends_in_time and reserved.no_spare_for.get(shape, MANY) == 1:
            return []
        server = self.state.selection.find(shape)
        if server is None:
            self.note_without_room(shape, 1)
            return []
        if ends_in_time:
            return [PlannedTask(index, shape, server, server.free)]
        server = self.find_spare(server, shape, reserved)
        if server is None:
            reserved.no_spare_for[shape] = 1
            return []
        return [PlannedTask(index, shape, server, reserved.spare_on(server, shape))]

    def find_spare(
        self, first: Server | None, shape: Shape, reserved: ReservedStart
    ) -> Server | None:
        """Return the server for a task that still runs at the reserved time.

        This is `first`, the choice of the selection, if the task there leaves room for the reserved
        tasks. Otherwise the selection chooses among the servers where it does.
        """
        if first is None or reserved.has_spare(first, shape):
            return first
        servers = self.state.servers.values()
        spare = [server for server in servers if reserved.has_spare(server, shape)]
        return self.state.selection.find_among(spare, shape)

    def plan_spare(self, gang: Gang, reserved: ReservedStart) -> Plan:
        """Return the plan of a gang whose tasks still run at the reserved time."""
        shape, tasks = gang.shape, int(gang.waiting)
        too_many = min(int(shape.no_room_for), reserved.no_spare_for.get(shape, MANY))
        if gang.has_one_shape() and tasks >= too_many:
            return []
        self.protected = reserved
        plan = self.plan_gang(gang)
        self.protected = None
        if gang.has_one_shape() and not plan:
            reserved.no_spare_for[shape] = tasks
        return plan

    def find_for_gang(self, gang: Gang, shape: Shape, plan: Plan) -> Server | None:
        """Return the server for the next task of a gang that must not delay `protected`."""
        first = super().find_for_gang(gang, shape, plan)
        return first if self.protected is None else self.find_spare(first, shape, self.protected)

    def plan_task(self, index: int, shape: Shape, server: Server) -> PlannedTask:
        if self.protected is None:
            return super().plan_task(index, shape, server)
        return PlannedTask(index, shape, server, self.protected.spare_on(server, shape))

    def hold(self, gang: Gang, task: PlannedTask, sign: i64) -> None:
        super().hold(gang, task, sign)
        if self.protected is not None:
            self.protected.use(task, sign)

    def latest_submission(self, group: TaskGroup) -> tuple[float, float]:
        """Return the latest submission among a group and the waiting groups before it in its queue.

        Groups of all queues are tried in this order, so that each comes after all groups that are
        before it in its queue.
        """
        latest = submitted(group)
        queue = group.waiting_list.queue
        if len(queue.priorities) > 1:
            for other in self.state.groups.values():
                if (
                    other.waiting_list.queue is queue
                    and other.waiting > 0
                    and other.order < group.order
                    and self.criterion.fits_empty(other)
                    and not limit_reached(other)
                ):
                    latest = max(latest, submitted(other))
        return latest

    # For explanations

    def why_waits(self, group: TaskGroup, had_room: bool) -> WaitReason:
        if not self.criterion.fits_empty(group):
            return TOO_LARGE_TOGETHER
        if self.next_group() is group or not self.has_room_now(group):
            return reason_without_room(group, had_room)
        return reason_to_wait_for("the first waiting group", group)

    def reservation(self, group: TaskGroup) -> Reservation | None:  # noqa: ARG002 (one for all)
        head = self.next_group()
        if head is None:
            return None
        reserved = self.reserve(head)
        servers = sorted([self.state.servers[name] for name in reserved.spare])
        names = [server.name for server in servers]
        return Reservation(head.waiting_list.queue.name, head.id, reserved.at, tuple(names))

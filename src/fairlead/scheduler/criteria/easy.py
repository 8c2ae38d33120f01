"""EASY backfilling: first in, first out, but a group may pass others if it delays no reservation.

The first group that does not fit gets a reservation: the earliest time at which it would fit if the
running tasks ended at their limits, and the servers that the selection would choose then. An
overdue task is expected to end now; a task without a limit, never. Another group may start before
if it fits now, and either ends by that time or leaves room for the reserved tasks. The reservation
is recomputed after each start. (Mu'alem and Feitelson 2001, for one pool.) Oversized groups never
start, as under `criteria.fifo`.
"""

from __future__ import annotations

from bisect import bisect_right

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._cycle import hold_together, reason_without_room, release_tasks
from fairlead.scheduler._devices import summarise_devices
from fairlead.scheduler._entities import (
    MANY,
    UNLIMITED,
    Gang,
    Order,
    Plan,
    Server,
    Shape,
    Task,
    TaskGroup,
    choose_devices,
    fits,
    limit_reached,
    take_from,
)
from fairlead.scheduler._shortage import FittingTogether
from fairlead.scheduler._state import State, end_of
from fairlead.scheduler._waiting import resume_all
from fairlead.scheduler.criteria.fifo import (
    TOO_LARGE_TOGETHER,
    SubmissionCycle,
    SubmissionTime,
    submitted,
)
from fairlead.scheduler.explanation import Reservation, WaitReason, duration


class ReservedStart:
    def __init__(self, at: float) -> None:
        self.at = at  # in seconds; infinite if it does not fit after all ends of tasks
        # By name of its servers: their free amounts at that time, after the reserved tasks started.
        self.spare: dict[str, vec[i64]] = {}
        # The fewest tasks of a shape that did not fit on the servers next to the reserved ones.
        self.crowded: dict[Shape, int] = {}

    def has_spare(self, server: Server, shape: Shape) -> bool:
        """Return whether a task on a server leaves enough for the reserved tasks."""
        if server.name not in self.spare:
            return True
        return fits(shape.need, self.spare_on(server, shape))

    def spare_on(self, server: Server, shape: Shape) -> vec[i64]:
        """Return the amounts of a server that are spare until after that time.

        A device must have room for a task both now and then.
        """
        spare = self.spare.get(server.name)
        if spare is None:
            return server.free
        if not shape.by_device:
            return spare
        least = spare[:]
        for r in range(len(least)):
            least[r] = min(least[r], server.free[r])
        summarise_devices(least, shape.by_device)
        return least

    def use(self, server: Server, shape: Shape, devices: vec[i64], sign: i64) -> None:
        """Count a task that still runs at that time (1), or uncount it (-1)."""
        spare = self.spare.get(server.name)
        if spare is not None:
            take_from(spare, shape, devices, sign)


class BackfillingTime(SubmissionTime):
    """Ranks queues by submission; running tasks are expected to end at their limits."""

    splits_by_limit = True
    keeps_ends = True


class BackfillingCycle(SubmissionCycle):
    """Places groups in order of submission, and later ones before if they delay no reservation."""

    makes_reservations = True

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        self.beside: ReservedStart | None = None  # which a planned gang must not delay
        self.full: set[Shape] = set()  # shapes of which some number of tasks did not fit

    def prepare(self) -> None:
        freed = self.state.freed
        if freed.servers:
            for shape in list(self.full):
                if shape.groups == 0 or freed.has_room(shape):
                    shape.no_room_for = MANY
                    self.full.remove(shape)
        for queue in self.state.queues.values():
            resume_all(queue)
        super().prepare()

    def place_next(self, started: list[Task]) -> bool:
        """Start the next group, or a later one that may pass it; return whether one fits."""
        head = self.next_group()
        if head is None:
            return False
        if self.start_next(head, started):
            return True
        return self.start_behind(head, self.reserve(head), started)

    def start_next(self, group: TaskGroup, started: list[Task]) -> bool:
        if not isinstance(group, Gang):
            return super().start_next(group, started)
        if group.is_parked:
            return False
        plan = self.plan_now(group)
        self.book_plan(group, plan, started)
        return len(plan) > 0

    def plan_now(self, gang: Gang) -> Plan:
        """Return where a gang would start; if it does not fit and has one shape, park it.

        A gang of several shapes may fit when less is free.
        """
        if not gang.is_alike():
            return self.plan_gang(gang)
        shape, tasks = gang.shape, gang.waiting
        plan: Plan = self.plan_gang(gang) if tasks < shape.no_room_for else []
        if not plan:
            self.note_full(shape, tasks)
            self.state.park_gang(gang)
        return plan

    def note_full(self, shape: Shape, tasks: i64) -> None:
        """Record that this number of tasks of a shape does not fit on open servers."""
        shape.no_room_for = min(shape.no_room_for, tasks)
        self.full.add(shape)

    # The reservation

    def next_moment(self) -> float:
        """Return the next expected end of a task after the reserved time."""
        head = self.next_group()
        if head is None:
            return UNLIMITED
        at = self.reserve(head).at
        ends = self.state.ends
        later = bisect_right(ends, at, key=end_of)
        return ends[later][0] if later < len(ends) else UNLIMITED

    def reserve(self, group: TaskGroup) -> ReservedStart:
        state = self.state
        released: list[Task] = []
        fitting = FittingTogether(group, state.servers.values())
        held = ReservedStart(UNLIMITED)
        ends = state.ends
        at = 0
        while at < len(ends) and held.at == UNLIMITED:
            time = max(ends[at][0], state.now)
            touched: dict[str, Server] = {}
            while at < len(ends) and max(ends[at][0], state.now) == time:
                task = ends[at][2]
                server = task.server
                if not server.is_draining:
                    fitting.count(server, -1)
                    take_from(server.free, task.shape, task.devices, -1)
                    fitting.count(server, 1)
                    released.append(task)
                    touched[server.name] = server
                at += 1
            if fitting.is_enough():
                held = self.plan_at(group, time, list(touched.values()))
        for task in released:
            take_from(task.server.free, task.shape, task.devices, 1)
        return held

    def plan_at(self, group: TaskGroup, time: float, touched: list[Server]) -> ReservedStart:
        """Return the reservation of a group at a time, whose free amounts are set."""
        state = self.state
        servers = state.open_servers() if isinstance(group, Gang) else touched
        holds = hold_together(group, servers, state.selection, state.criterion.total)
        held = ReservedStart(time if holds else UNLIMITED)
        for hold in holds:
            held.spare[hold.server.name] = hold.server.free[:]
        release_tasks(holds)
        return held

    # Groups that may pass

    def start_behind(self, head: TaskGroup, held: ReservedStart, started: list[Task]) -> bool:
        """Start the first later group that does not delay the head; return whether one does."""
        best: TaskGroup | None = None
        best_key: Order = ()  # by submission, and in its queue by order
        best_plan: Plan = []
        for queue in self.state.queues.values():
            if queue.rank is None or queue.children:
                continue
            for order, waiting_list in queue.active:
                shape = waiting_list.shape
                if shape is not None and shape.no_room_for == 1:
                    continue
                if waiting_list.active_order is not order and waiting_list.active_order != order:
                    continue  # stale
                group = waiting_list.first()
                if group is None or group is head or limit_reached(group):
                    continue
                if best is not None and submitted(group) > best_key[:2]:
                    continue
                plan = self.plan_behind(group, held)
                if plan and self.order.fits_idle(group):
                    key: Order = (*self.latest(group), *group.order)
                    if best is None or key < best_key:
                        best = group
                        best_key = key
                        best_plan = plan
        if best is None:
            return False
        is_over = self.state.now + best.limit <= held.at
        if is_over or not self.state.counting.devices:
            self.book_plan(best, best_plan, started)
            return True
        for index, server in best_plan:
            shape = best.shape_of(index)
            devices = choose_devices(shape, held.spare_on(server, shape))
            self.book_plan(best, [(index, server)], started, [devices])
            held.use(server, shape, devices, 1)
        return True

    def plan_behind(self, group: TaskGroup, held: ReservedStart) -> Plan:
        """Return where a task of a group, or a gang whole, would start now without delaying others.

        Groups of one waiting list have one time limit, so only the first one is tried.
        """
        is_over = self.state.now + group.limit <= held.at
        if isinstance(group, Gang):
            return self.plan_now(group) if is_over else self.plan_beside(group, held)
        shape = group.shape
        if not is_over and held.crowded.get(shape, MANY) == 1:
            return []
        server = self.state.selection.find(shape)
        if server is None:
            self.note_full(shape, 1)
        elif not is_over:
            server = self.find_beside(server, shape, held)
            if server is None:
                held.crowded[shape] = 1
        return [] if server is None else [(group.first_index(), server)]

    def find_beside(self, first: Server | None, shape: Shape, held: ReservedStart) -> Server | None:
        """Return the server for a task that still runs when the head is to start.

        That is the first choice of the selection, or another one if the head needs that server.
        """
        if first is None or held.has_spare(first, shape):
            return first
        servers = self.state.servers.values()
        spare = [server for server in servers if held.has_spare(server, shape)]
        return self.state.selection.find_among(spare, shape)

    def plan_beside(self, gang: Gang, held: ReservedStart) -> Plan:
        """Return where a gang would start now whose tasks still run when the head is to start."""
        shape, tasks = gang.shape, int(gang.waiting)
        if gang.is_alike() and tasks >= min(int(shape.no_room_for), held.crowded.get(shape, MANY)):
            return []
        self.beside = held
        plan = self.plan_gang(gang)
        self.beside = None
        if gang.is_alike() and not plan:
            held.crowded[shape] = tasks
        return plan

    def find_for_gang(self, gang: Gang, shape: Shape, plan: Plan) -> Server | None:
        """Return the server for the next task of a gang that must not delay a reservation."""
        first = super().find_for_gang(gang, shape, plan)
        return first if self.beside is None else self.find_beside(first, shape, self.beside)

    def choose_devices(self, server: Server, shape: Shape) -> vec[i64]:
        free = server.free if self.beside is None else self.beside.spare_on(server, shape)
        return choose_devices(shape, free)

    def hold(self, gang: Gang, shape: Shape, server: Server, devices: vec[i64], sign: i64) -> None:
        super().hold(gang, shape, server, devices, sign)
        if self.beside is not None:
            self.beside.use(server, shape, devices, sign)

    def latest(self, group: TaskGroup) -> tuple[float, float]:
        """Return the latest submission in its queue up to a group, by which queues are merged."""
        latest = submitted(group)
        queue = group.waiting_list.queue
        if len(queue.priorities) > 1:
            for other in self.state.groups.values():
                if (
                    other.waiting_list.queue is queue
                    and other.waiting > 0
                    and other.order < group.order
                    and self.order.fits_idle(other)
                    and not limit_reached(other)
                ):
                    latest = max(latest, submitted(other))
        return latest

    # For explanations

    def why_waits(self, group: TaskGroup, had_room: bool) -> WaitReason:
        if not self.order.fits_idle(group):
            return TOO_LARGE_TOGETHER
        if self.next_group() is group or not self.has_room_now(group):
            return reason_without_room(group, had_room)
        limit = group.limit
        runs = "has no time limit" if limit == UNLIMITED else f"may run for {duration(limit)}"
        reason = f"It {runs}, and so might delay the first waiting group."
        return WaitReason("reservation", reason)

    def reservation(self, group: TaskGroup) -> Reservation | None:  # noqa: ARG002 (one for all)
        head = self.next_group()
        if head is None:
            return None
        held = self.reserve(head)
        servers = sorted([self.state.servers[name] for name in held.spare])
        names = [server.name for server in servers]
        return Reservation(head.waiting_list.queue.name, head.id, held.at, tuple(names))

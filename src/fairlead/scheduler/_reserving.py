"""Reserved starts, so that large tasks and gangs do not wait behind small ones for ever.

When no other task fits, the first waiting group in the policy's order gets a reservation: servers
for its next task, or for all tasks of a gang, and the earliest time at which it fits if running
tasks end at their limits. Later tasks start only if they end by then, or leave the reserved amounts
free. So the group starts no later than the reserved time, as long as no server leaves.

A task without a time limit is expected to run for the mean of the last two run times in its queue
(Tsafrir, Etsion and Feitelson 2007); reservations that depend on it may be late. With several
reservations, each respects all others. Groups that have no server in common, such as those of two
partitions, have separate reservations.

The policy's own cycle places other tasks around the reservations, in steps. First the
amounts that tasks of any length must leave free are taken from servers, and such tasks are placed.
Then, for each reserved start, the last one first, the same is done for tasks that end by then.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nextafter
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._cycle import Cycle, hold_task, plan_together, release_tasks
from fairlead.scheduler._devices import summarise_devices
from fairlead.scheduler._entities import (
    UNLIMITED,
    Gang,
    Plan,
    Queue,
    Server,
    Shape,
    Task,
    TaskGroup,
    add_to,
    has_room,
    limit_reached,
    restore_columns,
    take_from,
)
from fairlead.scheduler._shortage import FittingTogether, fit_together
from fairlead.scheduler._state import PlannedStart, State
from fairlead.scheduler._waiting import first_groups
from fairlead.scheduler.explanation import Reservation, WaitReason, duration

# At most `MAX_SETS * per_server` groups have reservations. All are planned again at every call of
# `place`, and without a limit there might be one for every server.
MAX_SETS: Final = 16

# After a call of `place`, at most MAX_CONSIDERED first groups of different shapes of each queue,
# and MAX_TRIED in all, are tried for a reservation: groups that get none must cost others little.
MAX_CONSIDERED: Final = 4
MAX_TRIED: Final = 64


class Step:
    """A task that takes its amounts from a server (1) or returns them (-1) at a time."""

    def __init__(
        self, time: float, server: Server, shape: Shape, devices: vec[i64], sign: i64
    ) -> None:
        self.time = time  # in seconds
        self.server = server
        self.shape = shape
        self.devices = devices
        self.sign = sign

    def apply(self, free: vec[i64]) -> None:
        take_from(free, self.shape, self.devices, self.sign)

    def undo(self, free: vec[i64]) -> None:
        take_from(free, self.shape, self.devices, -self.sign)


class Timeline:
    """The free amounts, from now on, of servers with reservations."""

    def __init__(self, state: State, reserved: list[PlannedStart]) -> None:
        self.now = state.now
        self.devices = state.counting.devices
        self.servers: dict[str, Server] = {}  # servers with reservations, by name
        self.steps: list[Step] = []  # of reserved tasks, by time
        for planned in reserved:
            end = planned.at + planned.group.time_limit
            for task in planned.plan:
                server, shape, devices = task.server, task.shape, task.devices
                self.servers[server.name] = server
                restore_columns(server, devices)
                self.steps.append(Step(planned.at, server, shape, devices, 1))
                if end < UNLIMITED:
                    self.steps.append(Step(end, server, shape, devices, -1))
        self.steps.sort(key=order_of)
        self.free = {name: server.free[:] for name, server in self.servers.items()}
        self.of_server: dict[str, list[Step]] = {}  # of reserved and running tasks, by time
        for name, server in self.servers.items():
            self.of_server[name] = [
                Step(max(end, self.now), server, running.shape, running.devices, -1)
                for end, _, running in state.ends_on.get(name, [])
            ]
        for step in self.steps:
            self.of_server[step.server.name].append(step)
        for steps in self.of_server.values():
            steps.sort(key=order_of)

    def min_free(self, server: Server, since: float, until: float) -> vec[i64]:
        """Return the minimum of each free amount of a server from `since` until before `until`."""
        free = self.free[server.name][:]
        steps = self.of_server[server.name]
        at = 0
        while at < len(steps) and steps[at].time <= since:
            steps[at].apply(free)
            at += 1
        minimum = free[:]
        while at < len(steps) and steps[at].time < until:
            steps[at].apply(free)
            at += 1
            for r in range(len(free)):
                minimum[r] = min(minimum[r], free[r])
        summarise_devices(minimum, self.devices)
        return minimum


def order_of(step: Step) -> tuple[float, int]:
    """Return the sort key of a step: by time, and at one time amounts are freed first."""
    return (step.time, int(step.sign))


class ReservingCycle(Cycle):
    """Starts reserved groups, and places other tasks around them by an inner cycle."""

    makes_reservations = True

    def __init__(self, inner: Cycle, per_server: int) -> None:
        super().__init__(inner.state, inner.is_strict)
        self.inner = inner
        self.per_server = per_server  # maximum number of reserved groups that may run on one server
        # During a call of `start_tasks`: servers from which amounts were taken for a while. Waiting
        # lists that were parked meanwhile must be compared with them again.
        self.reduced: dict[str, Server] = {}

    def start_tasks(self, limit: int) -> list[Task]:
        """Start reserved groups, then other tasks around the reservations, and reserve more."""
        state = self.state
        started: list[Task] = []
        while True:
            before = len(started)
            self.start_reserved(started, limit)
            for until in self.placing_bounds():
                if len(started) < limit:
                    started += self.place_before(until, limit - len(started))
            # Repeat after any start: short tasks may have taken amounts that reserved starts left
            # for longer ones. Under strict order, groups behind the started ones may start now.
            if len(started) == before or len(started) >= limit or not state.reserved:
                break
        for server in self.reduced.values():
            state.free_up(server)
        self.reduced = {}
        if len(started) < limit:
            self.reserve_more()
        return started

    def prepare(self) -> None:
        self.inner.prepare()

    def find(self, queue: Queue, shape: Shape) -> Server | None:
        return self.inner.find(queue, shape)

    # Reserved groups

    def start_reserved(self, started: list[Task], limit: int) -> None:
        """Start reserved groups that fit now; plan the others again, earlier if possible.

        A start becomes later only if its time has passed between calls, or if servers changed. Such
        an overdue start goes before later ones, which may become later, too.
        """
        state = self.state
        if state.is_stale:
            state.rerank_all()
        state.reserved = [planned for planned in state.reserved if self.is_waiting(planned)]
        state.reserved.sort(key=start_of)
        at = 0
        while at < len(state.reserved) and len(started) < limit:
            planned = state.reserved[at]
            others = state.reserved[:at] + state.reserved[at + 1 :]
            if limit_reached(planned.group) is not None:  # by a start of this call
                state.reserved = others
                continue
            others = [other for other in others if self.has_servers(other)]
            start = self.plan_now(planned.group, others) or self.plan_due(planned)
            replanned: list[PlannedStart] = []
            if start is not None:
                self.start_plan(start, started)
            else:
                found = self.plan_later(planned, others)
                replanned = [] if found is None else [found]
            state.reserved = state.reserved[:at] + replanned + state.reserved[at + 1 :]
            at += len(replanned)

    def is_waiting(self, planned: PlannedStart) -> bool:
        """Return whether the reserved tasks are still the next ones of their group."""
        group = planned.group
        if group.waiting == 0 or limit_reached(group) is not None:
            return False
        if isinstance(group, Gang):
            return sorted([task.index for task in planned.plan]) == group.indices()
        return planned.plan[0].index == group.first_index()

    def start_plan(self, start: PlannedStart, started: list[Task]) -> None:
        """Start the tasks of a reservation."""
        group = start.group
        if isinstance(group, Gang) and group.is_parked:
            self.state.unpark_gang(group)
        self.book_plan(group, start.plan, started)
        if any(task.server.is_freed for task in start.plan):
            self.state.freed.tighten()

    def plan_now(self, group: TaskGroup, others: list[PlannedStart]) -> PlannedStart | None:
        """Plan a start now that leaves other reservations possible; None if it does not fit."""
        until = self.state.now + group.time_limit
        taken = self.take_reserved(others, until)
        plan: Plan = []
        if isinstance(group, Gang):
            if FittingTogether(group, self.state.servers.values()).is_enough():
                plan = self.plan_gang(group)
        else:
            server = self.find(group.waiting_list.queue, group.shape)
            if server is not None:
                plan = [self.plan_task(group.first_index(), group.shape, server)]
        self.release(taken)
        return PlannedStart(group, plan, self.state.now) if plan else None

    def plan_due(self, planned: PlannedStart) -> PlannedStart | None:
        """Return a reserved start with devices chosen now, if its time has come and it has room."""
        if planned.at > self.state.now or not self.has_servers(planned):
            return None
        plan: Plan = []
        for task in planned.plan:
            if has_room(task.server, task.shape):
                plan.append(hold_task(task.index, task.shape, task.server))
        release_tasks(plan)
        if len(plan) < len(planned.plan):
            return None
        return PlannedStart(planned.group, plan, planned.at)

    def plan_later(self, planned: PlannedStart, others: list[PlannedStart]) -> PlannedStart | None:
        """Return an earlier start; else the same if still possible, else a later one, or None."""
        at = max(planned.at, self.state.now)
        is_overdue = at > planned.at  # then it goes before reservations of a later time
        before = [other for other in others if other.at <= planned.at] if is_overdue else others
        same = PlannedStart(planned.group, planned.plan, at)
        is_possible = self.is_possible(same, before)
        before_then = at if is_possible else UNLIMITED
        found = find_start(self.state, planned.group, others, before_then, self.plan_on)
        if found is None and is_possible:
            return same
        return found

    def is_possible(self, planned: PlannedStart, others: list[PlannedStart]) -> bool:
        """Return whether a reserved start still has room, as servers may have changed."""
        if not self.has_servers(planned):
            return False
        timeline = Timeline(self.state, [*others, planned])
        end = planned.at + planned.group.time_limit
        for task in planned.plan:
            for amount in timeline.min_free(task.server, planned.at, end):
                if amount < 0:
                    return False
        return True

    def has_servers(self, planned: PlannedStart) -> bool:
        """Return whether the servers of a reservation are present, open, and admit its tasks."""
        for task in planned.plan:
            server = task.server
            is_open = self.state.servers.get(server.name) is server and not server.is_draining
            if not is_open or not task.shape.constraint.admits[server.kind]:
                return False
        return True

    def reserve_more(self) -> None:
        """Reserve starts for the first waiting groups, as long as more reservations are allowed.

        The first groups of all queues are tried in the policy's order, then their second ones, and
        so on.
        """
        state = self.state
        counts = self.count_by_kind()
        if self.are_enough(counts) or not state.ends:
            return
        reserved = {planned.group.id for planned in state.reserved}
        queues = state.criterion.service_order(state.root).leaves(state.root)
        free_finally = self.free_finally()
        firsts: dict[Queue, list[TaskGroup]] = {}
        tried = 0
        considered = 1 if self.is_strict else MAX_CONSIDERED
        for position in range(considered):
            for queue in queues:
                if queue not in firsts:
                    firsts[queue] = first_groups(queue)[:considered]
                if position >= len(firsts[queue]):
                    continue
                group = firsts[queue][position]
                if group.id in reserved or limit_reached(group) is not None:
                    continue
                kinds = [kind for kind in counts if may_run_on(group, kind)]
                if any(counts[kind] >= self.per_server for kind in kinds):
                    continue
                if self.fits_finally(group, free_finally):
                    found = find_start(state, group, state.reserved, UNLIMITED, self.plan_on)
                    if found is not None:
                        state.reserved = [*state.reserved, found]
                        for kind in kinds:
                            counts[kind] += 1
                tried += 1
                if self.are_enough(counts) or tried >= MAX_TRIED:
                    return

    def count_by_kind(self) -> dict[i64, i64]:
        """Return the number of reserved groups that may run on servers of each kind, by number."""
        counts: dict[i64, i64] = {
            kind.number: 0 for kind in self.state.server_kinds.by_number if kind.servers > 0
        }
        for planned in self.state.reserved:
            for kind in counts:
                if may_run_on(planned.group, kind):
                    counts[kind] += 1
        return counts

    def are_enough(self, counts: dict[i64, i64]) -> bool:
        """Return whether there are as many reservations as allowed."""
        if len(self.state.reserved) >= self.per_server * MAX_SETS:
            return True
        return all(count >= self.per_server for count in counts.values())

    def free_finally(self) -> dict[str, vec[i64]]:
        """Return the free amounts of open servers after all expected ends, by name."""
        free_finally = {server.name: server.free[:] for server in self.state.open_servers()}
        for _, _, task in self.state.ends:
            free = free_finally.get(task.server.name)
            if free is not None:
                take_from(free, task.shape, task.devices, -1)
        return free_finally

    def fits_finally(self, group: TaskGroup, free_finally: dict[str, vec[i64]]) -> bool:
        """Return whether a group may fit after all expected ends: a quick necessary condition."""
        servers = self.state.open_servers()
        for shape, tasks in group.tasks_together().items():
            if not fit_together(servers, shape, tasks, free_finally):
                return False
        return True

    def plan_on(self, group: TaskGroup, servers: list[Server]) -> Plan:
        """Plan a group on servers: a gang of one shape in their order, others by the selection."""
        if not isinstance(group, Gang) or not group.has_one_shape():
            selection, total = self.state.selection, self.state.criterion.total
            return plan_together(group, servers, selection, total)
        plan: Plan = []
        indices = group.indices()
        for server in sorted(servers):
            while len(plan) < len(indices) and has_room(server, group.shape):
                plan.append(hold_task(indices[len(plan)], group.shape, server))
        release_tasks(plan)
        return plan if len(plan) == len(indices) else []

    # Other groups

    def placing_bounds(self) -> list[float]:
        """Return the times by which placed tasks must end, from infinity down."""
        starts = {planned.at for planned in self.state.reserved if planned.at > self.state.now}
        return sorted({UNLIMITED, *starts}, reverse=True)

    def place_before(self, until: float, limit: int) -> list[Task]:
        """Place tasks that end by a time, around the starts reserved before it; return them.

        With an infinite time, tasks of any length are placed.
        """
        state = self.state
        taken = self.take_reserved(state.reserved, until)
        limited: list[bool] = []
        if until < UNLIMITED:
            longest = seconds_until(until, state.now)
            limited = [queue.is_limited for queue in state.queues.values()]
            for queue in state.queues.values():
                queue.longest_limit = longest
                queue.is_limited = True  # so that `limit_reached` compares `longest_limit`
        started = self.inner.start_tasks(limit)
        if until < UNLIMITED:
            for queue, is_limited in zip(state.queues.values(), limited, strict=True):
                queue.longest_limit = UNLIMITED
                queue.is_limited = is_limited
                if queue.held_back:
                    queue.may_resume = True
        self.release(taken)
        return started

    def take_reserved(
        self, reserved: list[PlannedStart], until: float
    ) -> list[tuple[Server, vec[i64]]]:
        """Take from servers the amounts that tasks running until a time must leave free.

        Return the taken amounts of each server, for `release`.
        """
        timeline = Timeline(self.state, reserved)
        taken: list[tuple[Server, vec[i64]]] = []
        for server in timeline.servers.values():
            min_free = timeline.min_free(server, self.state.now, until)
            amounts = server.free[:]
            is_any = False
            for r in range(len(amounts)):
                amounts[r] = max(amounts[r] - min_free[r], 0)
                is_any = is_any or amounts[r] > 0
            if is_any:
                taken.append((server, amounts))
        for server, amounts in taken:
            self.add_free(server, amounts, -1)
            self.reduced[server.name] = server
        return taken

    def release(self, taken: list[tuple[Server, vec[i64]]]) -> None:
        """Return the amounts that `take_reserved` took."""
        for server, amounts in taken:
            self.add_free(server, amounts, 1)
            self.state.free_up(server)

    def add_free(self, server: Server, amounts: vec[i64], sign: i64) -> None:
        """Add amounts to the free ones of a server (1), or subtract them (-1)."""
        add_to(server.free, amounts, sign)
        summarise_devices(server.free, self.state.counting.devices)
        self.state.selection.change(server)

    # For explanations

    def has_room_now(self, group: TaskGroup) -> bool:
        return self.inner.has_room_now(group)

    def why_never(self, gang: Gang) -> WaitReason | None:
        return self.inner.why_never(gang)

    def why_waits(self, group: TaskGroup, had_room: bool) -> WaitReason:
        is_reserved = any(planned.group is group for planned in self.state.reserved)
        if is_reserved or not self.state.reserved or not self.has_room_now(group):
            return self.inner.why_waits(group, had_room)
        return reason_to_wait_for("a reserved start", group)

    def reservation(self, group: TaskGroup) -> Reservation | None:
        """Return the reservation of a group, or else the first one on servers where it may run."""
        kinds = self.count_by_kind()
        reserved = [
            planned
            for planned in self.state.reserved
            if any(may_run_on(planned.group, kind) and may_run_on(group, kind) for kind in kinds)
        ]
        own = [planned for planned in reserved if planned.group is group]
        for planned in own or reserved[:1]:
            servers = {task.server.name: task.server for task in planned.plan}
            names = tuple([server.name for server in sorted(servers.values())])
            queue = planned.group.waiting_list.queue.name
            is_sure = self.is_sure(planned, servers)
            return Reservation(queue, planned.group.id, planned.at, names, is_sure)
        return None

    def is_sure(self, planned: PlannedStart, servers: dict[str, Server]) -> bool:
        """Return whether all tasks that must end before a reserved start have time limits."""
        for name in servers:
            for end, _, task in self.state.ends_on.get(name, []):
                if end <= planned.at and task.group.time_limit == UNLIMITED:
                    return False
        return True


def find_start(
    state: State,
    group: TaskGroup,
    others: list[PlannedStart],
    before: float,
    plan_on: Callable[[TaskGroup, list[Server]], Plan],
) -> PlannedStart | None:
    """Return the earliest start of a group before a time; None if there is none.

    Walk through the times at which running tasks end, and at which the reserved tasks of `others`
    start and end. At each, change the free amounts of servers to those of that time, and try to
    plan the group by `plan_on`. At the end undo all changes.
    """
    timeline = Timeline(state, others)
    fitting = FittingTogether(group, state.servers.values())
    is_gang = isinstance(group, Gang)
    ends, reserved_steps = state.ends, timeline.steps
    done: list[Step] = []
    plan: Plan = []
    time = UNLIMITED
    next_end = next_step = 0
    while not plan and (next_end < len(ends) or next_step < len(reserved_steps)):
        time = UNLIMITED
        if next_end < len(ends):
            time = max(ends[next_end][0], state.now)
        if next_step < len(reserved_steps):
            time = min(time, reserved_steps[next_step].time)
        if time >= before:
            break
        steps: list[Step] = []  # at this time
        while next_end < len(ends) and ends[next_end][0] <= time:
            task = ends[next_end][2]
            next_end += 1
            if not task.server.is_draining:
                steps.append(Step(time, task.server, task.shape, task.devices, -1))
        while next_step < len(reserved_steps) and reserved_steps[next_step].time <= time:
            steps.append(reserved_steps[next_step])
            next_step += 1
        for step in steps:
            if is_gang:
                fitting.count(step.server, -1)
            step.apply(step.server.free)
            if is_gang:
                fitting.count(step.server, 1)
        done += steps
        servers: list[Server] = []
        if is_gang:
            servers = state.open_servers() if fitting.is_enough() else []
        else:  # it can only fit on servers with changes at this time
            servers = [step.server for step in steps if has_room(step.server, group.shape)]
        if servers:
            plan = plan_at(group, time, servers, timeline, plan_on)
    for step in done:
        step.undo(step.server.free)
    return PlannedStart(group, plan, time) if plan else None


def plan_at(
    group: TaskGroup,
    time: float,
    servers: list[Server],
    timeline: Timeline,
    plan_on: Callable[[TaskGroup, list[Server]], Plan],
) -> Plan:
    """Plan a group on some servers at a time; their free amounts must be those of that time."""
    reserved = list(timeline.servers.values())
    free = [server.free for server in reserved]
    for server in reserved:
        server.free = timeline.min_free(server, time, time + group.time_limit)
    plan = plan_on(group, servers)
    for server, amounts in zip(reserved, free, strict=True):
        server.free = amounts
    return plan


def may_run_on(group: TaskGroup, kind: i64) -> bool:
    """Return whether servers of a kind admit any of the group's tasks that start together."""
    return any(shape.constraint.admits[kind] for shape in group.tasks_together())


def reason_to_wait_for(start: str, group: TaskGroup) -> WaitReason:
    """Return why a group with room waits for a reserved start, which is named by `start`."""
    limit = group.time_limit
    runs = "has no time limit" if limit == UNLIMITED else f"may run for {duration(limit)}"
    return WaitReason("reservation", f"It {runs}, and so might delay {start}.")


def start_of(planned: PlannedStart) -> float:
    return planned.at


def seconds_until(time: float, now: float) -> float:
    """Return the longest run from now that ends by a time, in seconds.

    With rounding, ``now + (time - now)`` may exceed ``time``.
    """
    longest = time - now
    while now + longest > time:
        longest = nextafter(longest, -UNLIMITED)
    return longest

"""Reserved starts, so that large tasks and gangs do not wait behind small ones for ever.

When nothing else fits, the first waiting group in the policy's order gets a reservation: servers
for its next task, or for all tasks of a gang, and the earliest time at which it fits if running
tasks end at their limits. Later tasks start only if they end by then, or leave room. So the start
is never later than the reserved time, as long as no server leaves. Tasks without a time limit are
expected to run as long as the last two of their queue did (Tsafrir, Etsion and Feitelson 2007);
their reservations may be late. With several reservations, each respects all others. Groups that may
run on different servers only, such as those of two partitions, get reservations of their own.

Any policy places tasks, in one or two steps. First the reserved amounts are taken from the servers.
Then they are returned, and only tasks that end before the next reserved start are placed.
"""

from __future__ import annotations

from math import nextafter
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._cycle import Cycle, Hold, hold_together, release_tasks
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
    hold_on,
    limit_reached,
    take_from,
)
from fairlead.scheduler._shortage import FittingTogether, count_fitting
from fairlead.scheduler._state import PlannedStart
from fairlead.scheduler._timeline import Step, Timeline
from fairlead.scheduler._waiting import FIRST_RESUMED, first_groups
from fairlead.scheduler.explanation import Reservation, WaitReason, duration

# The most reservations are this many times the number for each server: every one of them is planned
# again at each call of `place`, and tasks may be bound to single servers.
MOST_SETS: Final = 16

# Of each queue, the first groups of unlike shapes that are considered for a reservation, and the
# groups that are tried after a call of `place`: many that can have none must cost others little.
MOST_CONSIDERED: Final = 4
MOST_TRIED: Final = 64


class ReservingCycle(Cycle):
    """Places tasks by another cycle beside reserved starts."""

    makes_reservations = True

    def __init__(self, inner: Cycle, most: int) -> None:
        super().__init__(inner.state, inner.is_strict)
        self.inner = inner
        self.most = most  # reservations of groups that may run on one server
        # During a call of `start_tasks`: servers that had less free for some tasks than for others,
        # so that parked tasks must be compared with them again.
        self.held: dict[str, Server] = {}

    def start_tasks(self, limit: int) -> list[Task]:
        state = self.state
        started: list[Task] = []
        while True:
            before = len(started)
            self.start_reserved(started, limit)
            for until in self.steps_of_placing():
                if len(started) < limit:
                    started += self.place_before(until, limit - len(started))
            # Again, as short tasks may have taken what reserved tasks left to longer ones. Under
            # strict order, groups behind the started ones may start now.
            if len(started) == before or len(started) >= limit or not state.reserved:
                break
        for server in self.held.values():
            state.free_up(server)
        self.held = {}
        if len(started) < limit:
            self.reserve_more()
        return started

    def prepare(self) -> None:
        self.inner.prepare()

    def find(self, queue: Queue, shape: Shape) -> Server | None:
        return self.inner.find(queue, shape)

    # Reserved groups

    def start_reserved(self, started: list[Task], limit: int) -> None:
        """Start reserved groups that fit now; plan the others again, never for a later time.

        An overdue start delays later ones: time passes between calls.
        """
        state = self.state
        if state.is_stale:
            state.rerank_all()
        state.reserved = [held for held in state.reserved if self.is_waiting(held)]
        state.reserved.sort(key=start_of)
        at = 0
        while at < len(state.reserved) and len(started) < limit:
            held = state.reserved[at]
            others = state.reserved[:at] + state.reserved[at + 1 :]
            others = [other for other in others if self.has_servers(other)]
            start = self.plan_now(held.group, others) or self.plan_due(held)
            planned: list[PlannedStart] = []
            if start is not None:
                self.start_plan(start, started)
            else:
                found = self.plan_later(held, others)
                planned = [] if found is None else [found]
            state.reserved = state.reserved[:at] + planned + state.reserved[at + 1 :]
            at += len(planned)

    def is_waiting(self, held: PlannedStart) -> bool:
        """Return whether the tasks of a reservation are the next ones of their group."""
        group = held.group
        if group.waiting == 0 or limit_reached(group) is not None:
            return False
        if isinstance(group, Gang):
            return sorted([index for index, _ in held.plan]) == group.indices()
        return held.plan[0][0] == group.first_index()

    def start_plan(self, start: PlannedStart, started: list[Task]) -> None:
        group = start.group
        if isinstance(group, Gang) and group.is_parked:
            self.state.unpark_gang(group)
        self.book_plan(group, start.plan, started, start.devices)
        if any(server.is_freed for _, server in start.plan):
            self.state.freed.tighten()

    def plan_now(self, group: TaskGroup, others: list[PlannedStart]) -> PlannedStart | None:
        """Return where a group starts now beside other reservations; None if it does not fit."""
        until = self.state.now + group.limit
        holds = self.hold_reserved(others, until)
        plan: Plan = []
        if isinstance(group, Gang):
            if FittingTogether(group, self.state.servers.values()).is_enough():
                plan = self.plan_gang(group)
        else:
            server = self.find(group.waiting_list.queue, group.shape)
            if server is not None:
                plan = [(group.first_index(), server)]
        found = planned_start(group, plan, self.state.now) if plan else None
        self.release(holds)
        return found

    def plan_due(self, held: PlannedStart) -> PlannedStart | None:
        """Return the start now of a reservation whose time has come, if its servers have room."""
        if held.at > self.state.now or not self.has_servers(held):
            return None
        holds: list[Hold] = []
        for index, server in held.plan:
            shape = held.group.shape_of(index)
            if has_room(server, shape):
                holds.append(Hold(index, shape, server))
        release_tasks(holds)
        if len(holds) < len(held.plan):
            return None
        return PlannedStart(held.group, held.plan, held.at, [hold.devices for hold in holds])

    def plan_later(self, held: PlannedStart, others: list[PlannedStart]) -> PlannedStart | None:
        """Return an earlier start if there is one, or the same one if that is possible still."""
        at = max(held.at, self.state.now)
        beside = [other for other in others if other.at <= held.at] if at > held.at else others
        same = PlannedStart(held.group, held.plan, at, held.devices)
        is_possible = self.is_possible(same, beside)
        found = self.find_start(held.group, others, at if is_possible else UNLIMITED)
        if found is None and is_possible:
            return same
        return found

    def is_possible(self, held: PlannedStart, others: list[PlannedStart]) -> bool:
        """Return whether a reserved start still has room, as servers may have changed."""
        if not self.has_servers(held):
            return False
        timeline = Timeline(self.state, [*others, held])
        for _, server in held.plan:
            least = timeline.least(server, held.at, held.at + held.group.limit)
            for amount in least:
                if amount < 0:
                    return False
        return True

    def has_servers(self, held: PlannedStart) -> bool:
        """Return whether the servers of a reservation are open and admit its tasks."""
        for index, server in held.plan:
            is_there = self.state.servers.get(server.name) is server and not server.is_draining
            if not is_there or not held.group.shape_of(index).constraint.admits[server.kind]:
                return False
        return True

    def reserve_more(self) -> None:
        """Reserve starts for the first waiting groups, up to the number of reservations.

        The first group of each queue in the policy's order, then the second ones, and so on.
        """
        state = self.state
        counts = self.count_by_kind()
        if self.are_enough(counts) or not state.ends:
            return
        reserved = {held.group.id for held in state.reserved}
        queues = state.criterion.in_turn(state.root, state.servers.values())
        last = self.free_at_last()
        firsts: dict[Queue, list[TaskGroup]] = {}
        tried = 0
        most = 1 if self.is_strict else MOST_CONSIDERED
        for place in range(most):
            for queue in queues:
                if queue not in firsts:
                    firsts[queue] = first_groups(queue)[:most]
                if place >= len(firsts[queue]):
                    continue
                group = firsts[queue][place]
                if group.id in reserved or limit_reached(group) is not None:
                    continue
                kinds = [kind for kind in counts if may_run_on(group, kind)]
                if any(counts[kind] >= self.most for kind in kinds):
                    continue
                if self.fits_at_last(group, last):
                    found = self.find_start(group, state.reserved, UNLIMITED)
                    if found is not None:
                        state.reserved = [*state.reserved, found]
                        for kind in kinds:
                            counts[kind] += 1
                tried += 1
                if self.are_enough(counts) or tried >= MOST_TRIED:
                    return

    def count_by_kind(self) -> dict[i64, i64]:
        """Return the number of reserved groups that may run on servers of each kind."""
        counts: dict[i64, i64] = {
            kind.number: 0 for kind in self.state.kinds.by_number if kind.servers > 0
        }
        for held in self.state.reserved:
            for kind in counts:
                if may_run_on(held.group, kind):
                    counts[kind] += 1
        return counts

    def are_enough(self, counts: dict[i64, i64]) -> bool:
        """Return whether no group gets another reservation."""
        if len(self.state.reserved) >= self.most * MOST_SETS:
            return True
        return all(count >= self.most for count in counts.values())

    def free_at_last(self) -> dict[str, vec[i64]]:
        """Return the free amounts of open servers after all expected ends, by name."""
        last = {server.name: server.free[:] for server in self.state.open_servers()}
        for _, _, task in self.state.ends:
            free = last.get(task.server.name)
            if free is not None:
                take_from(free, task.shape, task.devices, -1)
        return last

    def fits_at_last(self, group: TaskGroup, last: dict[str, vec[i64]]) -> bool:
        """Return whether a group may fit after all expected ends, which is quicker to find."""
        for shape, tasks in group.tasks_together().items():
            rest = tasks
            for name, free in last.items():
                if rest <= 0:
                    break
                if shape.constraint.admits[self.state.servers[name].kind]:
                    rest -= max(count_fitting(shape, free), 0)
            if rest > 0:
                return False
        return True

    # The earliest start

    def find_start(
        self, group: TaskGroup, others: list[PlannedStart], before: float
    ) -> PlannedStart | None:
        """Return the earliest start of a group before a time, after tasks have ended."""
        state = self.state
        timeline = Timeline(state, others)
        fitting = FittingTogether(group, state.servers.values())
        is_gang = isinstance(group, Gang)
        ends, steps = state.ends, timeline.steps
        changed: list[Step] = []
        found: PlannedStart | None = None
        at = following = done = 0
        while found is None and (at < len(ends) or following < len(steps)):
            time = UNLIMITED
            if at < len(ends):
                time = max(ends[at][0], state.now)
            if following < len(steps):
                time = min(time, steps[following].time)
            if time >= before:
                break
            touched: dict[str, Server] = {}
            while at < len(ends) and ends[at][0] <= time:
                task = ends[at][2]
                at += 1
                if not task.server.is_draining:
                    changed.append(Step(time, task.server, task.shape, task.devices, -1))
                    touched[task.server.name] = task.server
            while following < len(steps) and steps[following].time <= time:
                step = steps[following]
                following += 1
                changed.append(step)
                touched[step.server.name] = step.server
            for step in changed[done:]:
                if is_gang:
                    fitting.count(step.server, -1)
                step.apply(step.server.free)
                if is_gang:
                    fitting.count(step.server, 1)
            done = len(changed)
            if not is_gang or fitting.is_enough():
                found = self.plan_at(group, time, list(touched.values()), timeline)
        for step in changed:
            step.undo(step.server.free)
        return found

    def plan_at(
        self, group: TaskGroup, time: float, touched: list[Server], timeline: Timeline
    ) -> PlannedStart | None:
        """Return the start of a group at a time, to which the free amounts were changed."""
        servers = self.state.open_servers() if isinstance(group, Gang) else touched
        reserved = list(timeline.servers.values())
        free = [server.free for server in reserved]
        for server in reserved:
            server.free = timeline.least(server, time, time + group.limit)
        plan = self.plan_on(group, servers)
        found = planned_start(group, plan, time) if plan else None
        for server, amounts in zip(reserved, free, strict=True):
            server.free = amounts
        return found

    def plan_on(self, group: TaskGroup, servers: list[Server]) -> Plan:
        """Return where a group starts among some servers; a gang of one shape on the first ones."""
        if not isinstance(group, Gang) or not group.is_alike():
            selection, total = self.state.selection, self.state.criterion.total
            holds = hold_together(group, servers, selection, total)
            release_tasks(holds)
            return [(hold.index, hold.server) for hold in holds]
        indices = group.indices()
        plan: Plan = []
        for server in sorted(servers):
            if has_room(server, group.shape) and len(plan) < len(indices):
                rest = len(indices) - len(plan)
                fitting = min(rest, count_fitting(group.shape, server.free))
                plan += [(indices[len(plan) + k], server) for k in range(fitting)]
        return plan if len(plan) == len(indices) else []

    # Other groups

    def steps_of_placing(self) -> list[float]:
        """Return times before which placed tasks must end, the latest first; that is infinite."""
        starts = {held.at for held in self.state.reserved if held.at > self.state.now}
        return sorted({UNLIMITED, *starts}, reverse=True)

    def place_before(self, until: float, limit: int) -> list[Task]:
        """Place tasks by the policy that end before a time, beside the reserved starts until then.

        At an infinite time all tasks are placed.
        """
        state = self.state
        holds = self.hold_reserved(state.reserved, until)
        limited: list[bool] = []
        if until < UNLIMITED:
            longest = seconds_until(until, state.now)
            limited = [queue.is_limited for queue in state.queues.values()]
            for queue in state.queues.values():
                queue.longest = longest
                queue.is_limited = True
        started = self.inner.start_tasks(limit)
        if until < UNLIMITED:
            for queue, is_limited in zip(state.queues.values(), limited, strict=True):
                queue.longest = UNLIMITED
                queue.is_limited = is_limited
                if queue.held_back:
                    queue.resumes = FIRST_RESUMED
        self.release(holds)
        return started

    def hold_reserved(
        self, reserved: list[PlannedStart], until: float
    ) -> list[tuple[Server, vec[i64]]]:
        """Take from the servers what tasks may not use that run from now until a time."""
        timeline = Timeline(self.state, reserved)
        holds: list[tuple[Server, vec[i64]]] = []
        for server in timeline.servers.values():
            least = timeline.least(server, self.state.now, until)
            held = server.free[:]
            is_any = False
            for r in range(len(held)):
                held[r] = max(held[r] - least[r], 0)
                is_any = is_any or held[r] > 0
            if is_any:
                holds.append((server, held))
        for server, held in holds:
            self.add_held(server, held, -1)
            self.held[server.name] = server
        return holds

    def release(self, holds: list[tuple[Server, vec[i64]]]) -> None:
        for server, held in holds:
            self.add_held(server, held, 1)
            self.state.free_up(server)

    def add_held(self, server: Server, held: vec[i64], sign: i64) -> None:
        """Add held amounts to the free ones of a server (`sign` 1), or subtract them (-1)."""
        add_to(server.free, held, sign)
        summarise_devices(server.free, self.state.counting.devices)
        self.state.selection.change(server)

    # For explanations

    def has_room_now(self, group: TaskGroup) -> bool:
        return self.inner.has_room_now(group)

    def why_never(self, gang: Gang) -> WaitReason | None:
        return self.inner.why_never(gang)

    def why_waits(self, group: TaskGroup, had_room: bool) -> WaitReason:
        is_reserved = any(held.group is group for held in self.state.reserved)
        if is_reserved or not self.state.reserved or not self.has_room_now(group):
            return self.inner.why_waits(group, had_room)
        limit = group.limit
        runs = "has no time limit" if limit == UNLIMITED else f"may run for {duration(limit)}"
        return WaitReason("reservation", f"It {runs}, and so might delay a reserved start.")

    def reservation(self, group: TaskGroup) -> Reservation | None:
        """Return the reservation of a group, or the first one on servers where it may run."""
        kinds = self.count_by_kind()
        reserved = [
            held
            for held in self.state.reserved
            if any(may_run_on(held.group, kind) and may_run_on(group, kind) for kind in kinds)
        ]
        own = [held for held in reserved if held.group is group]
        for held in own or reserved[:1]:
            servers = {server.name: server for _, server in held.plan}
            names = tuple([server.name for server in sorted(servers.values())])
            queue = held.group.waiting_list.queue.name
            is_sure = self.is_sure(held, servers)
            return Reservation(queue, held.group.id, held.at, names, is_sure)
        return None

    def is_sure(self, held: PlannedStart, servers: dict[str, Server]) -> bool:
        """Return whether all tasks that are to end before a start have time limits."""
        for name in servers:
            for end, _, task in self.state.ends_on.get(name, []):
                if end <= held.at and task.group.limit == UNLIMITED:
                    return False
        return True


def may_run_on(group: TaskGroup, kind: i64) -> bool:
    """Return whether servers of a kind admit one of a group's next tasks."""
    return any(shape.constraint.admits[kind] for shape in group.tasks_together())


def planned_start(group: TaskGroup, plan: Plan, at: float) -> PlannedStart:
    """Return a start with the devices that its tasks take of the present free amounts, in order."""
    devices = [hold_on(server, group.shape_of(index)) for index, server in plan]
    for (index, server), taken in zip(plan, devices, strict=True):
        take_from(server.free, group.shape_of(index), taken, -1)
    return PlannedStart(group, plan, at, devices)


def start_of(held: PlannedStart) -> float:
    return held.at


def seconds_until(time: float, now: float) -> float:
    """Return the longest run from now that ends by a time."""
    longest = time - now
    while now + longest > time:
        longest = nextafter(longest, -UNLIMITED)
    return longest

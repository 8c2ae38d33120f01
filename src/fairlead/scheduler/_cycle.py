"""The steps of a placement; docstrings of cycles begin with their numbers.

1. Who: choose the queue to serve.
2. What: choose the group of that queue from which a task starts.
3. Where: choose the server on which it starts.
4. Book: start the task, count its amounts in its queue and server, and re-rank the queue.

Cycles differ in the order of these steps. `QueueCycle` chooses the queue first; its scores do not
depend on tasks or servers. `TaskCycle` first chooses a task of each queue; its scores do depend on
tasks. In `selection.round_robin` a round gives the server first.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import (
    UNLIMITED,
    Gang,
    Placement,
    Plan,
    PlannedTask,
    Queue,
    Server,
    Shape,
    Task,
    TaskGroup,
    add_to,
    has_room,
    limit_reached,
    placement_of,
)
from fairlead.scheduler._shortage import FittingTogether
from fairlead.scheduler._state import State
from fairlead.scheduler._waiting import first_to_try, first_waiting, is_behind, park
from fairlead.scheduler.explanation import Reservation, WaitReason, tasks_in_words
from fairlead.scheduler.selection.first_fit import Selection

MAX_FREED: Final = 128  # if more servers were freed, a search of all servers is faster
AHEAD: Final = WaitReason("order", "Tasks ahead of it take the free capacity.")
OUT_OF_TURN: Final = WaitReason(
    "strict order", "The first group of its queue waits, and no other group may pass it."
)
NO_POOL: Final = Fraction(2**200)  # the share that a task takes of a resource that no server has

# A group with the server of its next task, or a gang with its plan; all None for no group.
NextStart = tuple[TaskGroup | None, Server | None, Plan | None]


class Cycle:
    """Starts tasks one after the other, and all tasks of a gang together."""

    makes_reservations = False  # whether waiting groups get reserved starts
    preempts: str = ""  # the kind of preemption, as in `Policy`; empty for none
    min_run: float = 0.0  # seconds that a task has run before it may be preempted

    def __init__(self, state: State, is_strict: bool) -> None:
        self.state = state
        self.is_strict = is_strict  # whether a group waits for all earlier ones of its queue

    def place(self, limit: int) -> list[Placement]:
        """Start tasks as `start_tasks` does; return their placements."""
        return [placement_of(task) for task in self.start_tasks(limit)]

    def start_tasks(self, limit: int) -> list[Task]:
        """Start tasks until no other task fits, or at least `limit` have started; return them."""
        state = self.state
        state.calls += 1
        self.prepare()
        started: list[Task] = []
        while len(started) < limit:
            if not self.place_next(started):
                state.freed.clear()  # no waiting task fits on these servers
                break
        return started

    def prepare(self) -> None:
        """Update data for the changes since the last call."""
        state = self.state
        if state.is_stale:
            state.rerank_all()
        if len(state.freed.servers) > MAX_FREED:
            state.unpark_all()

    def place_next(self, started: list[Task]) -> bool:
        """Start the next task or gang, and add it to `started`; return whether one started."""
        raise NotImplementedError

    def find(self, queue: Queue, shape: Shape) -> Server | None:  # noqa: ARG002 (Joint uses it)
        """Return the server for a task of a queue by the selection."""
        return self.state.selection.find(shape)

    def book(self, group: TaskGroup, server: Server, started: list[Task]) -> None:
        """4. Book: start a group's next task on a server."""
        state = self.state
        started.append(state.start(group, group.first_index(), server, state.now))
        if server.is_freed:
            state.freed.tighten()

    def book_plan(self, group: TaskGroup, plan: Plan, started: list[Task]) -> None:
        """4. Book: start the tasks of a plan on the planned devices."""
        state = self.state
        for task in plan:
            started.append(state.start(group, task.index, task.server, state.now, task.devices))

    def plan_gang(self, gang: Gang) -> Plan:
        """Return the server of each waiting task of a gang; empty if not all fit.

        While it plans, each planned task is taken from its server.
        """
        if is_too_large(gang, self.state.servers.values()):
            return []
        plan: Plan = []
        indices = largest_first(gang, self.state.criterion.total)
        for index in indices:
            shape = gang.shape_of(index)
            server = self.find_for_gang(gang, shape, plan)
            if server is None:
                break
            task = self.plan_task(index, shape, server)
            self.hold(gang, task, 1)
            plan.append(task)
        for task in plan:
            self.hold(gang, task, -1)
        return plan if len(plan) == len(indices) else []

    def find_for_gang(self, gang: Gang, shape: Shape, plan: Plan) -> Server | None:  # noqa: ARG002
        """Return the server for the next task of a gang; `plan` has the tasks planned before."""
        return self.find(gang.waiting_list.queue, shape)

    def plan_task(self, index: int, shape: Shape, server: Server) -> PlannedTask:
        """Plan a task on a server."""
        return PlannedTask(index, shape, server, server.free)

    def hold(self, gang: Gang, task: PlannedTask, sign: i64) -> None:
        """Take the amounts of a planned task of a gang from its server (1), or return them (-1)."""
        self.state.take(task.server, task.shape, task.devices, sign)
        # The choice of the next server may depend on the held amounts of the queue.
        add_to(gang.waiting_list.queue.held, task.shape.demand, sign)

    def next_moment(self) -> float:
        """Return the time at which to place again if no event comes before; infinite for never."""
        return UNLIMITED

    # For explanations

    def has_room_now(self, group: TaskGroup) -> bool:
        """Return whether a group's next task, or a whole gang that is not parked, fits now."""
        if isinstance(group, Gang):
            return not group.is_parked and len(self.plan_gang(group)) > 0
        return self.find(group.waiting_list.queue, group.shape) is not None

    def why_never(self, gang: Gang) -> WaitReason | None:  # noqa: ARG002 (Offers uses it)
        """Return why a gang never starts even though empty servers hold its tasks of each shape."""
        return None

    def why_waits(self, group: TaskGroup, had_room: bool) -> WaitReason:
        """Return why a group still waits after a trial `place`, before which some server had room.

        `had_room` is whether its next task, or all of a gang, fitted before.
        """
        if self.is_strict and first_waiting(group.waiting_list.queue) is not group:
            return OUT_OF_TURN
        return reason_without_room(group, had_room)

    def reservation(self, group: TaskGroup) -> Reservation | None:  # noqa: ARG002 (overridden)
        """Return the reserved start of a group, or else of the first reserved one, if any."""
        return None


class QueueCycle(Cycle):
    """Serves the queue with the least score first; in a tree, on each level from the root down."""

    def place_next(self, started: list[Task]) -> bool:
        return self.start_below(self.state.root, started)

    def start_below(self, queue: Queue, started: list[Task]) -> bool:
        """1. Who: start a task of the first child that can start one; return whether one started.

        Children are tried by rank. Free amounts only fall during a call of `place`, so a child
        without a task that fits is skipped for the rest of the call.
        """
        if queue.passed_in != self.state.calls:
            queue.passed_in = self.state.calls
            queue.passed = 0
        while queue.passed < len(queue.ranked):
            child = queue.ranked[queue.passed]
            if child.children:
                is_started = self.start_below(child, started)
            else:
                is_started = self.start_first(child, started)
            if is_started:
                return True
            queue.passed += 1
        return False

    def start_first(self, queue: Queue, started: list[Task]) -> bool:
        """Start a task of the first group of a queue that fits; return whether one does."""
        group, server, plan = self.find_first(queue)
        if group is None:
            return False
        if plan is not None:
            self.book_plan(group, plan, started)
        elif server is not None:
            self.book(group, server, started)
        return True

    def find_first(self, queue: Queue) -> NextStart:
        """2. What: return the first group of a queue that fits, and park the groups before it.

        A parked group is compared only with servers that were freed since; see `_waiting`.
        """
        state = self.state
        while True:
            group = first_to_try(queue, state.freed)
            if group is None or (self.is_strict and is_behind(queue, group)):
                return None, None, None
            if isinstance(group, Gang):
                plan = self.plan_gang(group)
                if plan:
                    return group, None, plan
                state.park_gang(group)
                continue
            # 3. Where
            if group.waiting_list.row >= 0:
                server = state.selection.find_among(state.freed.servers, group.shape)
            else:
                server = state.selection.find(group.shape)
            if server is not None:
                return group, server, None
            if self.is_strict:
                return None, None, None
            park(group.waiting_list)


class Candidate:
    """The first group of a queue that has room."""

    def __init__(
        self, group: TaskGroup, shape: Shape, server: Server, plan: Plan, score: int
    ) -> None:
        self.queue = group.waiting_list.queue
        self.group = group
        self.shape = shape  # of its next task; for a gang, of the task that is planned first
        self.server = server  # a server with room for that task; `Joint` and rounds start it there
        # Servers of the tasks of a gang, valid until another task starts; empty for a single task.
        self.plan = plan
        self.score = score  # the score of the queue, or a lower bound
        self.is_exact = False  # whether `score` is exact

    def still_holds(self) -> bool:
        """Return whether the group is still the first that fits, after other tasks started."""
        if self.plan or self.group.waiting == 0 or limit_reached(self.group):
            return False
        return has_room(self.server, self.shape)

    def is_before(self, other: Candidate) -> bool:
        """Return whether it has a smaller score than another; queues of weight 0 come last."""
        if (self.queue.weight[0] == 0) != (other.queue.weight[0] == 0):
            return other.queue.weight[0] == 0
        return self.score < other.score


class TaskCycle(Cycle):
    """Serves the queue with the least score, where the score depends on the queue's next task.

    A score never falls while tasks start, so an earlier score is a lower bound. The least of these
    is recomputed, until the least one is exact.
    """

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        # The candidate of each queue during a call of `place`; None if no group of it fits.
        self.candidates: dict[Queue, Candidate | None] = {}

    def prepare(self) -> None:
        super().prepare()
        self.candidates = {}

    def place_next(self, started: list[Task]) -> bool:
        candidates: list[Candidate] = []
        for queue in self.state.root.ranked:
            candidate = self.candidate(queue)
            if candidate is not None:
                candidates.append(candidate)
        least = self.least(candidates)
        if least is None:
            return False
        self.start(least, self.choose(least), started)
        return True

    def candidate(self, queue: Queue) -> Candidate | None:
        """1. What: return the first group of a queue that has room."""
        kept = self.candidates.get(queue)
        if kept is None:
            if queue in self.candidates:
                return None  # no group of it fits until a server is freed
        elif kept.still_holds():
            return kept
        found = self.find_candidate(queue)
        if found is not None and kept is not None and found.shape is kept.shape:
            found.score = max(found.score, kept.score)
        self.candidates[queue] = found
        return found

    def find_candidate(self, queue: Queue) -> Candidate | None:
        """Find the first group of a queue that has room; park the groups before it."""
        while True:
            group = first_to_try(queue, self.state.freed)
            if group is None or (self.is_strict and is_behind(queue, group)):
                return None
            candidate = self.try_group(group)
            if candidate is not None:
                return candidate
            if not isinstance(group, Gang):
                if self.is_strict:
                    return None
                park(group.waiting_list)

    def try_group(self, group: TaskGroup) -> Candidate | None:
        """Return a group as a candidate if it has room; park a gang without room."""
        if isinstance(group, Gang):
            plan = self.plan_gang(group)
            if plan:
                return self.gang_candidate(group, plan)
            self.state.park_gang(group)
            return None
        server = self.state.selection.find(group.shape)
        if server is None:
            return None
        bound = self.state.criterion.bound(group.waiting_list.queue, group.shape, None)
        return Candidate(group, group.shape, server, [], bound)

    def gang_candidate(self, gang: Gang, plan: Plan) -> Candidate:
        first = plan[0]
        bound = self.state.criterion.bound(gang.waiting_list.queue, first.shape, first.server)
        return Candidate(gang, first.shape, first.server, plan, bound)

    def least(self, candidates: list[Candidate]) -> Candidate | None:
        """2. Who: return the candidate with the least score, the first of equal ones."""
        while True:
            least: Candidate | None = None
            for candidate in candidates:
                if least is None or candidate.is_before(least):
                    least = candidate
            if least is None or least.is_exact:
                return least
            self.rescore(least)
            least.is_exact = True

    def rescore(self, candidate: Candidate) -> None:
        criterion = self.state.criterion
        candidate.score = criterion.score_of(candidate.queue, candidate.shape, candidate.server)

    def choose(self, candidate: Candidate) -> Server:
        """3. Where: return the server on which a candidate starts."""
        server = self.state.selection.find(candidate.shape)
        assert server is not None
        return server

    def start(self, candidate: Candidate, server: Server, started: list[Task]) -> None:
        """4. Book: start the task of a candidate on a server, or its gang as planned."""
        group = candidate.group
        if isinstance(group, Gang):
            self.book_plan(group, candidate.plan, started)
        else:
            self.book(group, server, started)
        for kept in self.candidates.values():
            if kept is not None:
                kept.is_exact = self.stays_exact(kept, candidate)

    def stays_exact(self, kept: Candidate, started: Candidate) -> bool:  # noqa: ARG002
        """Return whether the score of `kept` is still exact after another candidate started."""
        return False


def reason_without_room(group: TaskGroup, had_room: bool) -> WaitReason:
    """Return why a group waits that has no room after other groups were placed."""
    if had_room or not isinstance(group, Gang):
        return AHEAD
    tasks = tasks_in_words(int(group.waiting))
    reason = f"Its {tasks} start together, the largest first, and did not fit when they were tried."
    return WaitReason("gang", reason)


def largest_first(group: TaskGroup, total: vec[i64]) -> list[int]:
    """Return the indices of a group's tasks to start together: the next one, or all of a gang.

    Those of a gang are ordered by dominant demand, the largest first, ties by index.
    """
    if not isinstance(group, Gang):
        return [group.first_index()]
    indices = group.indices()
    if group.has_one_shape():
        return indices
    sizes = {shape: dominant_demand(shape, total) for shape in group.parts}
    ordered = sorted([(-sizes[group.shape_of(index)], index) for index in indices])
    return [index for _, index in ordered]


def is_too_large(group: TaskGroup, servers: Collection[Server]) -> bool:
    """Return whether a gang has more tasks than servers, and too many for their free amounts.

    A plan would list all its tasks, so a gang of a million would cost all other users much time.
    """
    if not isinstance(group, Gang) or group.waiting <= len(servers):
        return False
    return not FittingTogether(group, servers).is_enough()


def plan_together(
    group: TaskGroup, servers: list[Server], selection: Selection, total: vec[i64]
) -> Plan:
    """Plan a group's next task, or a whole gang, on those of `servers` that a selection finds.

    Empty if no server is found for a task. Unlike `Cycle.plan_gang`, it changes no index.
    """
    if is_too_large(group, servers):
        return []
    plan: Plan = []
    indices = largest_first(group, total)
    for index in indices:
        shape = group.shape_of(index)
        server = selection.find_among(servers, shape)
        if server is None:
            break
        plan.append(hold_task(index, shape, server))
    release_tasks(plan)
    return plan if len(plan) == len(indices) else []


def hold_task(index: int, shape: Shape, server: Server) -> PlannedTask:
    """Plan a task on a server, and take its amounts from the server."""
    task = PlannedTask(index, shape, server, server.free)
    task.take_from(server.free, 1)
    return task


def release_tasks(plan: Plan) -> None:
    """Return the amounts of held tasks to their servers."""
    for task in plan:
        task.take_from(task.server.free, -1)


def dominant_demand(shape: Shape, total: vec[i64]) -> Fraction:
    """Return the largest share that a task takes of the total of any resource."""
    largest = Fraction(0)
    for demand, capacity in zip(shape.demand, total, strict=True):
        if demand > 0:
            share = Fraction(int(demand), int(capacity)) if capacity > 0 else NO_POOL
            largest = max(largest, share)
    return largest

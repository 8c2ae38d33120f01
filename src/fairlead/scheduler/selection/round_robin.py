"""Round-robin and offers: each round visits every server once, in a new random order.

Under round-robin, a visited server gets at most one task:

1. Where: the next server of the round, which may span several calls of `place`.
2. What: in each queue, the first group of which a task fits there.
3. Who: of these queues, the one with the least score; ties by the order of queues.
4. Book: as in all cycles.

`place` ends after a round without placements. The first task of a gang starts on the visited
server, the others by first-fit. A gang that does not fit is tried again on the next servers.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from fairlead.model.quantity import exact
from fairlead.scheduler._cycle import AHEAD, Candidate, TaskCycle
from fairlead.scheduler._entities import (
    Gang,
    Order,
    Plan,
    Queue,
    Server,
    Shape,
    Task,
    TaskGroup,
    WaitingList,
    has_room,
    limit_reached,
)
from fairlead.scheduler._shortage import fit_together
from fairlead.scheduler._state import State
from fairlead.scheduler._waiting import first_active, hold_back, is_behind, is_valid, park, resume
from fairlead.scheduler.criteria.criterion import TaskCriterion
from fairlead.scheduler.explanation import WaitReason

DECLINED: Final = WaitReason("declined", "Its queue declined the servers with room.")
NOT_ON_ONE: Final = WaitReason(
    "gang", "Servers are offered one by one, and none has room for all of its tasks now."
)


class RoundRobin(TaskCycle):
    """Visits servers; on each it starts a task of the queue with the least score, if any fits."""

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        # Whether scores depend on tasks; if so, `waiting_queues` are not sorted by score.
        self.scores_depend_on_tasks = isinstance(state.criterion, TaskCriterion)
        self.visited: Server | None = None  # the server on which a gang is tried
        self.has_active = True  # whether some waiting group is not parked

    def prepare(self) -> None:
        """Update `has_active`; if all waiting groups are parked, only freed servers are tried."""
        super().prepare()
        self.has_active = False
        for queue in self.waiting_queues():
            resume(queue)
            self.has_active = self.has_active or first_active(queue) is not None

    def waiting_queues(self) -> list[Queue]:
        """Return the leaves with waiting tasks, by rank."""
        return self.state.root.ranked

    def place_next(self, started: list[Task]) -> bool:
        """Visit servers until one gets a task; return whether one did."""
        state = self.state
        while True:
            server = state.rounds.next_server(state.servers)
            if server is None:
                self.park_all()
                return False
            least = self.least(self.candidates_on(server))
            if least is not None:
                state.rounds.is_idle = False
                self.start(least, server, started)
                return True

    def candidates_on(self, server: Server) -> list[Candidate]:
        """2. What: return, for each queue, its first group with a task that fits on a server.

        If queues are sorted by score, only the first candidate is returned.
        """
        candidates: list[Candidate] = []
        if server.is_draining or not (self.has_active or server.is_freed):
            return candidates
        for queue in self.waiting_queues():
            candidate = self.candidate_on(queue, server)
            if candidate is not None:
                candidates.append(candidate)
                if not self.scores_depend_on_tasks:
                    break
        return candidates

    def candidate_on(self, queue: Queue, server: Server) -> Candidate | None:
        """Return a queue's first group whose next task, or whole gang, fits; None if none does."""
        tried: Order | None = None
        while True:
            group = self.first_fitting(queue, server, tried)
            if group is None:
                return None
            if not isinstance(group, Gang):
                bound = self.state.criterion.bound(queue, group.shape, server)
                return Candidate(group, group.shape, server, [], bound)
            self.visited = server
            plan = self.plan_gang(group)
            if plan:
                return self.gang_candidate(group, plan)
            if self.is_strict:
                return None
            tried = group.order

    def first_fitting(self, queue: Queue, server: Server, after: Order | None) -> TaskGroup | None:
        """Return the first group of a queue, after `after`, with a task that fits on a server."""
        if self.is_strict:
            group = self.first_ready(queue)
            return group if group is not None and any_fits(group, server) else None
        first: TaskGroup | None = None
        for entry in queue.active:
            if is_valid(entry):
                first = earlier_fitting(first, entry[1], server, after)
        if server.is_freed:
            for waiting_list in queue.parked[:]:
                if may_start(waiting_list):
                    first = earlier_fitting(first, waiting_list, server, after)
                else:
                    hold_back(waiting_list)
        return first

    def first_ready(self, queue: Queue) -> TaskGroup | None:
        """Return the first group of a queue that is neither parked nor beyond a limit.

        Under strict order, return None if a parked gang or a held-back group goes before it.
        """
        group = first_active(queue)
        if group is None or (self.is_strict and is_behind(queue, group)):
            return None
        return group

    def find_for_gang(self, gang: Gang, shape: Shape, plan: Plan) -> Server | None:
        """Return the visited server for the first task of a gang, others by first-fit."""
        if plan:
            return self.find(gang.waiting_list.queue, shape)
        server = self.visited
        return server if server is not None and has_room(server, shape) else None

    def has_room_now(self, group: TaskGroup) -> bool:
        if not isinstance(group, Gang):
            return super().has_room_now(group)
        for server in self.state.servers.values():
            self.visited = server
            if self.plan_gang(group):
                return True
        return False

    def park_all(self) -> None:
        """Park all waiting lists except those of gangs, after a round without placements.

        A list whose first group is at a limit is held back instead.
        """
        if self.is_strict:
            return  # most waiting lists were not tried, so they may fit
        for queue in self.waiting_queues():
            for _, waiting_list in queue.active:
                # Skip lists of gangs, parked lists and empty ones.
                if (
                    waiting_list.shape is not None
                    and waiting_list.row < 0
                    and waiting_list.first() is not None
                ):
                    if may_start(waiting_list):
                        park(waiting_list)
                    else:
                        hold_back(waiting_list)


class Offers(RoundRobin):
    """Offers each server of a round to a queue whose demands are unknown.

    1. Where: the next server of the round that is not full.
    2. Who: of the queues that have not declined it, the one with the least score; ties by the
       order of queues.
    3. What: its groups in order, as long as a task fits there; a gang only if all of it does.

    Then the queue declines the rest. The server is offered to it again

    - as soon as more tasks of the queue wait, or
    - when `refuse_seconds` have passed and more of the server was freed since.

    `place` ends after a round without offers.
    """

    def prepare(self) -> None:
        """Update data for the changes since the last call, and the time of the rounds."""
        super().prepare()
        state = self.state
        # An equal `rounds.now` is kept: as a fraction it may be more exact.
        if float(state.rounds.now) != state.now:
            state.rounds.now = exact(state.now)

    def place_next(self, started: list[Task]) -> bool:
        """Offer servers until a queue takes one for a task; return whether one did."""
        state = self.state
        rounds = state.rounds
        while True:
            if rounds.current_offer is not None:
                queue_name, server_name = rounds.current_offer
                queue, server = state.queues[queue_name], state.servers[server_name]
                candidate = None if server.is_draining else self.candidate_on(queue, server)
                if candidate is not None:
                    self.start(candidate, server, started)
                    return True
                rounds.decline(queue_name, server_name)
            visited = rounds.next_server(state.servers)
            if visited is None:
                return False
            least = self.queue_for(visited)
            if least is not None:
                rounds.current_offer = (least.name, visited.name)
                rounds.is_idle = False

    def queue_for(self, server: Server) -> Queue | None:
        """2. Who: return the queue to which a server is offered."""
        if server.is_draining or not has_free_amount(server, self.state.width):
            return None
        state = self.state
        candidates: list[Candidate] = []
        for queue in self.waiting_queues():
            if not state.rounds.is_declined(queue.name, server.name):
                group = self.first_ready(queue)
                if group is not None:
                    bound = state.criterion.bound(queue, group.shape, server)
                    candidates.append(Candidate(group, group.shape, server, [], bound))
                    if not self.scores_depend_on_tasks:
                        break
        least = self.least(candidates)
        return None if least is None else least.queue

    def find_for_gang(self, gang: Gang, shape: Shape, plan: Plan) -> Server | None:  # noqa: ARG002
        server = self.visited
        return server if server is not None and has_room(server, shape) else None

    def next_moment(self) -> float:
        state = self.state
        queues = state.queues.values()
        waiting = {queue.name for queue in queues if self.first_ready(queue) is not None}
        servers = {server.name for server in state.open_servers()}
        return state.rounds.time_of_next_offer(waiting, servers)

    def why_never(self, gang: Gang) -> WaitReason | None:
        """Return the reason if no server is large enough for all tasks of a gang, else None."""
        shapes = gang.tasks_together()
        demand = gang.demand_together()
        for server in self.state.servers.values():
            pairs = zip(demand, server.capacity, strict=False)
            if all(amount <= capacity for amount, capacity in pairs if amount > 0) and all(
                fit_together([server], shape, tasks) for shape, tasks in shapes.items()
            ):
                return None
        reason = "Servers are offered one by one, and none is large enough for all of its tasks."
        return WaitReason("gang", reason)

    def why_waits(self, group: TaskGroup, had_room: bool) -> WaitReason:
        reason = super().why_waits(group, had_room)
        if reason.held_by == "gang":
            return NOT_ON_ONE
        return DECLINED if reason is AHEAD and self.has_room_now(group) else reason


def may_start(waiting_list: WaitingList) -> bool:
    """Return whether no limit keeps the first group of a waiting list from starting."""
    group = waiting_list.first()
    return group is None or limit_reached(group) is None


def earlier_fitting(
    first: TaskGroup | None, waiting_list: WaitingList, server: Server, after: Order | None
) -> TaskGroup | None:
    """Return the earlier of `first` and the first group of a waiting list, if that may start.

    The waiting list's group may start if it comes after the order `after`, is within its limits,
    and has a task that fits on the server.
    """
    group = waiting_list.first()
    if group is None or (first is not None and first.order < group.order):
        return first
    if limit_reached(group):
        return first
    if after is not None and group.order <= after:
        return first
    return group if any_fits(group, server) else first


def any_fits(group: TaskGroup, server: Server) -> bool:
    """Return whether a server has room for a task of a group."""
    if not isinstance(group, Gang):
        return has_room(server, group.shape)
    return any(has_room(server, shape) for shape in group.parts)


def has_free_amount(server: Server, width: i64) -> bool:
    """Return whether any resource of a server is free."""
    return any(server.free[r] > 0 for r in range(width))

"""First in, first out: groups start in the order of their submission, over all queues.

Inside a queue a higher priority goes first. Of the first groups of all queues, the earliest is
next, and no other group may pass it. Oversized groups, for which the selection finds no servers
even if all are empty, are skipped and do not start. That includes a gang of several shapes that
fits now only because running tasks change the choices of the selection. A gang that did not fit is
tried again when a server with room for one of its tasks is freed.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._cycle import Cycle, plan_together, reason_without_room
from fairlead.scheduler._entities import (
    Gang,
    Queue,
    Rank,
    Server,
    Task,
    TaskGroup,
    WaitingList,
    limit_reached,
)
from fairlead.scheduler._shortage import fit_together
from fairlead.scheduler._state import State
from fairlead.scheduler._waiting import activate, first_active
from fairlead.scheduler.criteria.criterion import Criterion, FlatOrder, ServiceOrder
from fairlead.scheduler.explanation import WaitReason
from fairlead.scheduler.selection.first_fit import Selection

BEHIND: Final = WaitReason("fifo", "An earlier group waits, and no other group may pass it.")
TOO_LARGE_TOGETHER: Final = WaitReason(
    "gang",
    "Its tasks start together, and do not fit on the open servers even when these are empty.",
)


class SubmissionTime(Criterion):
    """Ranks queues by the submission of their first group that is not oversized."""

    measure = "time of submission"
    ranks_groups = True

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.oversized: list[WaitingList] = []  # waiting lists whose first group is oversized
        self.selection = Selection(width, self.total)  # `Policy.make_cycle` sets the real one

    def score(self, queue: Queue) -> int:  # noqa: ARG002 (all queues score alike)
        return 0

    def rank(self, queue: Queue, serial: int) -> Rank | None:  # noqa: ARG002 (ids differ)
        """Return the submission of a queue's first group; None if all groups are oversized."""
        if queue.children:
            return queue.ranks[0] if queue.ranks else None
        group = self.first_group(queue)
        return None if group is None else submitted(group)

    def service_order(self, root: Queue, group: TaskGroup | None = None) -> ServiceOrder:
        """Return the leaves by the submission of their first groups; shares are these times."""
        order = FlatOrder(self.measure)
        if group is not None:
            order.shares[group.waiting_list.queue] = group.time
        for queue in ServiceOrder().leaves(root):
            if queue.rank is not None:
                order.add(queue.rank, queue, queue.rank[0])
        return order

    def first_group(self, queue: Queue) -> TaskGroup | None:
        """Return the first group of a queue that is not oversized; set oversized ones aside."""
        first = first_active(queue)
        while first is not None and not self.fits_empty(first):
            first.waiting_list.active_order = None
            self.oversized.append(first.waiting_list)
            first = first_active(queue)
        for gang in queue.gangs_parked.values():
            if (
                (first is None or gang.order < first.order)
                and self.fits_empty(gang)
                and not limit_reached(gang)
            ):
                first = gang
        return first

    def fits_empty(self, group: TaskGroup) -> bool:
        """Return whether empty servers have room for a group's next task, or for a whole gang."""
        version = self.version
        if isinstance(group, Gang):
            if group.checked_at != version or group.checked_tasks != group.waiting:
                group.fits_empty = self.fits_when_empty(group)
                if group.has_one_shape():
                    group.checked_at = version
                    group.checked_tasks = group.waiting
            return group.fits_empty
        shape = group.shape
        if shape.checked_at != version:
            shape.checked_at = version
            shape.fits_empty = self.fits_when_empty(group)
        return shape.fits_empty

    def fits_when_empty(self, group: TaskGroup) -> bool:
        servers = [server for server in self.servers.values() if not server.is_draining]
        return fits_when_empty(group, servers, self.selection, self.total)


def fits_when_empty(
    group: TaskGroup, servers: list[Server], selection: Selection, total: vec[i64]
) -> bool:
    """Return whether servers, if empty, have room for a group's next task, or for a whole gang.

    A gang of several shapes must fit on the servers that the selection chooses.
    """
    if isinstance(group, Gang) and not group.has_one_shape():
        empty = [empty_copy(server) for server in servers]
        return len(plan_together(group, empty, selection, total)) > 0
    tasks = int(group.waiting) if isinstance(group, Gang) else 1
    return fit_together(servers, group.shape, tasks)


def empty_copy(server: Server) -> Server:
    """Return a server like this one, open and without tasks."""
    copy = Server(server.name, server.order, server.joined, server.given, server.labels)
    copy.capacity = server.capacity
    copy.free = server.capacity[:]
    copy.kind = server.kind
    copy.is_draining = False
    return copy


class SubmissionCycle(Cycle):
    """Starts groups in the order of submission; while one has no room, all later ones wait."""

    def __init__(self, state: State, is_strict: bool) -> None:  # noqa: ARG002 (it always is)
        super().__init__(state, True)
        assert isinstance(state.criterion, SubmissionTime)
        self.criterion = state.criterion
        self.version: i64 = 0  # that of the criterion at the last ranking of queues

    def prepare(self) -> None:
        """Rank all queues anew if servers changed, as other groups may be oversized now."""
        version = self.criterion.version
        if self.state.is_stale or version != self.version:
            self.version = version
            oversized = self.criterion.oversized
            self.criterion.oversized = []
            for waiting_list in oversized:
                activate(waiting_list)
            self.state.rerank_all()
        self.state.freed.clear()  # not used: each call tries the next group anyway

    def place_next(self, started: list[Task]) -> bool:
        group = self.next_group()
        return group is not None and self.start_next(group, started)

    def start_next(self, group: TaskGroup, started: list[Task]) -> bool:
        """Start a task of the next group, or a whole gang; return whether it has room."""
        if isinstance(group, Gang):
            if group.is_parked:
                return False
            plan = self.plan_gang(group)
            self.book_plan(group, plan, started)
            if not plan:
                self.state.park_gang(group)
            return len(plan) > 0
        server = self.state.selection.find(group.shape)
        if server is None:
            return False
        self.book(group, server, started)
        return True

    def next_group(self) -> TaskGroup | None:
        """Return the group that is next; None if no group may start."""
        queue = self.state.root
        while queue.ranked:
            queue = queue.ranked[0]
        return None if queue is self.state.root else self.criterion.first_group(queue)

    def why_waits(self, group: TaskGroup, had_room: bool) -> WaitReason:
        if not self.criterion.fits_empty(group):
            return TOO_LARGE_TOGETHER
        if self.next_group() is not group:
            return BEHIND
        return reason_without_room(group, had_room)


def submitted(group: TaskGroup) -> tuple[float, float]:
    """Return the time of submission of a group, and its id for ties."""
    return (group.order[1], group.order[2])

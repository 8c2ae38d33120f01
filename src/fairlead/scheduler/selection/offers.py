"""Offers: demands are unknown; a round offers each server to a queue, which starts tasks there.

1. Where: the next server of the round with any free amount.
2. Who: of the queues that have not declined it, the one with the least score; ties by order.
3. What: its groups in order, as long as a task fits there; a gang as a whole.
4. Book: as in all cycles.

Then the queue declines the rest. The server is offered to it again after `refuse_seconds`, if more
was freed since, or as soon as more of the queue's tasks wait. Placing ends after a round without
offers.
"""

from __future__ import annotations

from typing import Final

from fairlead.model.quantity import exact
from fairlead.scheduler._cycle import AHEAD, Candidate, Plan
from fairlead.scheduler._entities import Gang, Queue, Server, Shape, Task, TaskGroup, has_room
from fairlead.scheduler._waiting import first_active
from fairlead.scheduler.explanation import WaitReason
from fairlead.scheduler.selection.round_robin import RoundRobin

DECLINED: Final = WaitReason("declined", "Its queue declined the servers with room.")
NOT_ON_ONE: Final = WaitReason(
    "gang", "Servers are offered one by one, and none has room for all of its tasks now."
)


class Offers(RoundRobin):
    """Offers each server of a round to the queue with the least score."""

    def prepare(self) -> None:
        """Update data for the changes since the last call, and the exact time."""
        super().prepare()
        state = self.state
        if float(state.rounds.now) != state.now:  # else `rounds.now` may be more exact
            state.rounds.now = exact(state.now)

    def place_next(self, started: list[Task]) -> bool:
        """Offer servers until a queue takes one for a task; return whether one did."""
        state = self.state
        rounds = state.rounds
        while True:
            if rounds.current_offer is not None:
                name, place = rounds.current_offer
                queue, server = state.queues[name], state.servers[place]
                candidate = None if server.is_draining else self.candidate_on(queue, server)
                if candidate is not None:
                    self.start(candidate, server, started)
                    return True
                rounds.decline(name, place)
            visited = rounds.next_server(state.servers)
            if visited is None:
                return False
            least = self.queue_for(visited)
            if least is not None:
                rounds.current_offer = (least.name, visited.name)
                rounds.is_idle = False

    def queue_for(self, server: Server) -> Queue | None:
        """2. Who: return the queue to which a server is offered."""
        if server.is_draining or not has_any(server):
            return None
        state = self.state
        candidates: list[Candidate] = []
        declines = state.rounds.declines.get(server.name)
        for queue in state.root.ranked:
            if declines is None or declines.is_over(queue.name, state.rounds.now):
                group = first_active(queue)
                if group is not None:
                    bound = state.criterion.bound(queue, group.shape, server)
                    candidates.append(Candidate(group, group.shape, server, [], bound))
                    if not self.compares:
                        break
        least = self.least(candidates)
        return None if least is None else least.queue

    def find_for_gang(self, gang: Gang, shape: Shape, plan: Plan) -> Server | None:  # noqa: ARG002
        server = self.visited
        return server if server is not None and has_room(server, shape) else None

    def next_moment(self) -> float:
        state = self.state
        waiting = {queue.name for queue in state.queues.values() if queue.waiting > 0}
        is_open = {server.name for server in state.servers.values() if not server.is_draining}
        return state.rounds.next_offer(waiting, is_open)

    def why_never(self, gang: Gang) -> WaitReason | None:
        """Return the reason why a gang never starts if no server is large enough for all of it."""
        shapes = [gang.shape_of(index) for index in gang.indices()]
        demand = [sum([int(shape.demand[r]) for shape in shapes]) for r in range(self.state.width)]
        for server in self.state.servers.values():
            rows = zip(demand, server.capacity, strict=True)
            if all(amount <= capacity for amount, capacity in rows if amount > 0) and all(
                shape.constraint.admits[server.kind] for shape in shapes
            ):
                return None
        reason = "Servers are offered one by one, and none is large enough for all of its tasks."
        return WaitReason("gang", reason)

    def why_waits(self, group: TaskGroup, had_room: bool) -> WaitReason:
        hold = super().why_waits(group, had_room)
        if hold.held_by == "gang":
            return NOT_ON_ONE
        return DECLINED if hold is AHEAD and self.has_room_now(group) else hold


def has_any(server: Server) -> bool:
    for amount in server.free:  # noqa: SIM110 (a loop that is compiled)
        if amount > 0:
            return True
    return False

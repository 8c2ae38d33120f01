"""Why a group of tasks waits, and what would let it start: counted, and tried.

1. One scan counts what servers lack.
2. The group's queue is compared with the others.
3. Tasks are placed on the live state, inside `what_if`: does one of the group start?
4. Each change is made on the live state in the same way, and taken back.

Criteria give the order of queues (`standing`); the way of placing gives the reason (`why_waits`).
"""

from __future__ import annotations

from fractions import Fraction

from fairlead.scheduler.changes import Changes, starts_something
from fairlead.scheduler.explanation import (
    Explanation,
    Hold,
    Miss,
    Reservation,
    list_in_words,
)
from fairlead.scheduler.placing import Placing
from fairlead.scheduler.shortage import Shortage, has_rooms, lacks
from fairlead.scheduler.state import State
from fairlead.scheduler.tables import Gang, Server, Shape, TaskGroup
from fairlead.scheduler.undo import WhatIf


class Question:
    """Why a group waits."""

    cycle: Placing
    state: State
    group: TaskGroup
    now: float  # the time of the question, in seconds
    resources: list[str]
    quanta: list[Fraction]
    names: list[str]  # (W,) what each amount is called
    units: list[Fraction]  # (W,) what one of each amount is
    shape: Shape  # of the first task that waits
    shortage: Shortage
    reservation: Reservation | None = None

    def __init__(
        self,
        cycle: Placing,
        resources: list[str],
        quanta: list[Fraction],
        group: TaskGroup,
        now: float,
    ) -> None:
        state = cycle.state
        self.cycle = cycle
        self.state = state
        self.group = group
        self.now = now
        self.resources = resources
        self.quanta = quanta
        self.names = state.counting.names(resources)
        self.units = state.counting.units(quanta)
        self.shape = group.shape_of(group.first_index()) if group.waiting > 0 else group.shape
        self.shortage = Shortage(state.servers.values(), self.shape, state.counting)

    def answer(self) -> Explanation:
        """Return the explanation."""
        state, group, shortage = self.state, self.group, self.shortage
        with WhatIf(state):  # to prepare may begin a round
            self.cycle.prepare()
            standing = state.criterion.standing(group, self.shape, state.servers.values())
        short = self.short() if group.waiting > 0 else {}
        hold = self.never(short) if group.waiting > 0 else Hold("nothing", "All of its tasks run.")
        is_never = group.waiting > 0 and hold is not None
        starts = False
        changes = Changes(self.cycle, group, shortage, self.resources, self.quanta, self.now)
        if group.waiting > 0:
            tried = self.tried()
            hold = tried if hold is None else hold
            starts = tried.held_by == "nothing"
            if not starts:
                changes.try_all(self.reservation)
        assert hold is not None
        return Explanation(
            group=group.id,
            queue=group.line.queue.name,
            waiting=int(group.waiting),
            running=len(group.tasks or ()),
            starts=starts,
            now=self.now,
            held_by=hold.held_by,
            reason=hold.reason,
            servers=shortage.servers,
            allowed=shortage.allowed,
            open=shortage.open,
            fitting=shortage.fitting,
            lacking={
                name: int(servers)
                for name, servers in zip(self.names, shortage.lacking, strict=True)
                if servers > 0
            },
            nearest=tuple([self.miss(server) for _, server in shortage.nearest]),
            score=standing.score,
            measure=standing.measure,
            ahead=tuple(standing.ahead),
            n_ahead=standing.n_ahead,
            above=tuple(standing.above),
            would_change=tuple(changes.found),
            untried=changes.untried,
            never=is_never,
            short=short,
            reservation=self.reservation,
            is_time=standing.is_time,
        )

    def amount(self, r: int, quanta: int) -> float:
        """Return an amount as its users know it."""
        return float(quanta * self.units[r])

    def miss(self, server: Server) -> Miss:
        """Return what a server lacks now."""
        shape = self.shape
        lacking = lacks(shape, server.free)
        short = {r: int(shape.need[r]) - int(server.free[r]) for r in lacking}
        return Miss(server.name, {self.names[r]: self.amount(r, n) for r, n in short.items()})

    # Without anything else

    def short(self) -> dict[str, tuple[float, float]]:
        """Return the demand and the largest capacity, if no allowed server is large enough."""
        shape, most = self.shape, self.shortage.most
        return {
            self.names[r]: (self.amount(r, int(shape.demand[r])), self.amount(r, int(most[r])))
            for r in self.shortage.short_of()
        }

    def never(self, short: dict[str, tuple[float, float]]) -> Hold | None:
        """Return why the group starts never, even on empty servers without drains, if so."""
        if self.shortage.allowed == 0:
            return Hold("where", "It may run on none of the servers that are there.")
        if short:
            parts = [f"{asked:.6g} {r} of at most {most:.6g}" for r, (asked, most) in short.items()]
            asks = list_in_words(parts)
            reason = f"No server where it may run is large enough: it asks for {asks}."
            return Hold("size", reason)
        for shape, tasks in self.group.tasks_together().items():
            if not has_rooms(self.state.servers.values(), shape, tasks):
                reason = "Even empty, the servers have too little room for its tasks of one shape."
                return Hold("gang", reason)
        return self.cycle.why_never(self.group) if isinstance(self.group, Gang) else None

    # As it is

    def tried(self) -> Hold:
        """Place tasks; return why the group does not start, or that it does."""
        shortage, group, cycle = self.shortage, self.group, self.cycle
        had_room = shortage.fitting > 0 and cycle.has_room_now(group)
        hold: Hold | None = None
        with WhatIf(self.state):
            self.state.now = self.now
            # Placing frees nothing, so without room for the first task nothing has to be tried.
            is_tried = shortage.fitting > 0 or cycle.makes_reservations
            if is_tried and starts_something(cycle, group):
                return Hold("nothing", "It starts when tasks are placed next.")
            self.reservation = cycle.reservation()
            if shortage.fitting > 0:
                hold = cycle.why_waits(group, had_room)
        if hold is not None:
            return hold
        if shortage.open == 0:
            return Hold("drained", "All servers where it may run are drained.")
        return Hold("room", "No server where it may run has room for a task now.")

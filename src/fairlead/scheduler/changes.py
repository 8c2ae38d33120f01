"""Changes that might let a group start, each made on the live state and taken back.

After a change tasks are placed until one of the group starts, or nothing more does.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter
from typing import Final

from fairlead.errors import InputError
from fairlead.scheduler.arguments import LARGEST
from fairlead.scheduler.criteria.criterion import path_of
from fairlead.scheduler.explanation import Change, Reservation
from fairlead.scheduler.placing import Placing
from fairlead.scheduler.shortage import Shortage
from fairlead.scheduler.state import State
from fairlead.scheduler.tables import (
    Gang,
    Labels,
    Member,
    PlaceKey,
    Server,
    Shape,
    TaskGroup,
    fits,
)
from fairlead.scheduler.undo import WhatIf

CLASSES: Final = 32  # classes of servers are tried, those with the most servers
PORTION: Final = 256  # tasks are placed before the group is looked at


class Changes:
    """Tries changes."""

    cycle: Placing
    state: State
    group: TaskGroup
    shape: Shape
    demand: list[int]  # (R,) of that shape, in quanta
    shortage: Shortage
    resources: list[str]
    quanta: list[Fraction]
    now: float  # the time of the question, in seconds
    found: list[Change]
    untried: int = 0  # classes of servers that were not tried

    def __init__(
        self,
        cycle: Placing,
        group: TaskGroup,
        shortage: Shortage,
        resources: list[str],
        quanta: list[Fraction],
        now: float,
    ) -> None:
        self.cycle = cycle
        self.state = cycle.state
        self.group = group
        self.shape = shortage.shape
        self.demand = [int(amount) for amount in shortage.shape.given]
        self.shortage = shortage
        self.resources = resources
        self.quanta = quanta
        self.now = now
        self.found = []

    def try_all(self, held: Reservation | None) -> None:
        """Try everything once."""
        self.try_less()
        self.try_wider()
        if held is not None:
            self.try_shorter(held)
        self.try_weights()
        self.try_priority()
        self.try_servers()

    def starts(self, group: TaskGroup) -> bool:
        """Place tasks now, in a question; return whether one of a group starts."""
        self.state.now = self.now
        return starts_something(self.cycle, group)

    @property
    def is_hopeless(self) -> bool:
        """Whether only other servers or a smaller demand could help, as placing frees nothing."""
        return self.shortage.fitting == 0

    # The demand of the group

    def try_less(self) -> None:
        """Try to ask for less of one resource: the most that a server has which lacks no other."""
        for r, less in enumerate(self.shortage.less):
            if less == 0:
                continue
            demand = [*self.demand[:r], less, *self.demand[r + 1 :]]
            starts = self.starts_as(demand, self.shape.place.key)
            name, amount = self.resources[r], float(less * self.quanta[r])
            asked = float(self.demand[r] * self.quanta[r])
            words = f"it asked for {amount:.6g} {name} instead of {asked:.6g}"
            self.found.append(Change(words, "resource", name, amount, starts))

    def try_wider(self) -> None:
        """Try to drop one of the conditions on servers."""
        place = self.shape.place
        if place.names is not None:
            self.try_where("it might run on any server", "names", (place.labels, None))
        for label in sorted(place.labels):
            key, value = label
            asked = key if value == "yes" else f"{key}={value}"
            words = f"it did not ask for {asked}"
            self.try_where(words, key, (place.labels - {label}, place.names))

    def try_where(self, words: str, of: str, where: PlaceKey) -> None:
        """Try another condition on servers."""
        self.found.append(Change(words, "where", of, None, self.starts_as(self.demand, where)))

    def try_shorter(self, held: Reservation) -> None:
        """Try the longest time limit by which it is over when another group is to start."""
        if held.group == self.group.id or held.at == inf:
            return
        limit = held.at - self.now
        while self.now + limit > held.at:
            limit = nextafter(limit, -inf)
        if not 0 < limit < self.group.limit:
            return
        place = self.shape.place
        starts = not self.is_hopeless and self.starts_as(self.demand, place.key, limit)
        words = f"its time limit were {rounded_down(limit)} s at the most"
        self.found.append(Change(words, "limit", "time_limit", limit, starts))

    def starts_as(self, demand: list[int], where: PlaceKey, limit: float | None = None) -> bool:
        """Return whether a task starts if waiting tasks take another demand, and run elsewhere.

        They are submitted anew in their old place in the order. Only those of the first task's
        shape change.
        """
        group, state = self.group, self.state
        members: list[Member] = []
        for shape, tasks in waiting_parts(group):
            if shape is self.shape:
                members.append(Member(demand, tasks, where))
            else:
                given = [int(amount) for amount in shape.given]
                members.append(Member(given, tasks, shape.place.key))
        with WhatIf(state):
            state.withdraw(group)
            changed = state.submit(
                group.line.queue,
                members,
                isinstance(group, Gang),
                group.priority,
                group.time,
                None,
                group.limit if limit is None else limit,
                group.order,
            )
            return self.starts(changed)

    # Its place in the order

    def try_weights(self) -> None:
        """Try twice the weight of its queue, and of each above it; 1 for a weight of 0."""
        path = path_of(self.group.line.queue)
        path.reverse()
        for queue in path:
            over, under = queue.weight
            weight = (2 * over, under) if over > 0 else (1, 1)
            starts = False
            if not self.is_hopeless:
                with WhatIf(self.state):
                    self.state.set_weight(queue, weight)
                    starts = self.starts(self.group)
            to = float(Fraction(weight[0], weight[1]))
            words = f"the weight of {queue.name} were {to:.6g}"
            self.found.append(Change(words, "weight", queue.name, to, starts))

    def try_priority(self) -> None:
        """Try the highest priority."""
        starts = False
        if not self.is_hopeless:
            with WhatIf(self.state):
                self.state.set_priority(self.group, LARGEST)
                starts = self.starts(self.group)
        words = "it had the highest priority in its queue"
        self.found.append(Change(words, "priority", self.group.line.queue.name, None, starts))

    # Servers

    def try_servers(self) -> None:
        """Try one more server of each class, those first of which there are most."""
        classes = classes_of(self.state)
        self.untried = max(len(classes) - CLASSES, 0)
        for like in classes[:CLASSES]:
            name = self.new_name(like)
            starts = False
            if not self.is_hopeless or self.would_take(like, name):
                with WhatIf(self.state):
                    starts = self.join(like, name) and self.starts(self.group)
            words = f"there were one more server like {like.name}"
            self.found.append(Change(words, "server", like.name, None, starts))

    def new_name(self, like: Server) -> str:
        """Return a name that no server has."""
        name, number = f"{like.name} again", 2
        while name in self.state.servers:
            name, number = f"{like.name} again {number}", number + 1
        return name

    def would_take(self, like: Server, name: str) -> bool:
        """Return whether a new server like another one takes the first task."""
        place = self.shape.place
        names = place.names
        is_named = names is None or name in names or like.group in names
        is_allowed = is_named and place.labels <= like.labels
        return is_allowed and fits(self.shape.need, like.capacity)

    def join(self, like: Server, name: str) -> bool:
        """Add a server like another one; return whether it can be counted."""
        state = self.state
        try:
            state.use(self.resources, [0] * len(like.given), like.given)
        except InputError:
            return False
        joined = state.joined
        server = Server(name, joined, joined, like.given, like.labels, like.group)
        state.joined += 1
        state.join(server)
        state.open(server)
        return True


def starts_something(cycle: Placing, group: TaskGroup) -> bool:
    """Place tasks until one of a group starts; return whether one does."""
    waiting = group.waiting
    placed = PORTION
    while group.waiting == waiting and placed >= PORTION:
        placed = len(cycle.place(PORTION))
    return group.waiting < waiting


def waiting_parts(group: TaskGroup) -> list[tuple[Shape, int]]:
    """Return the parts of a group that wait, and the tasks of each."""
    if not isinstance(group, Gang):
        return [(group.shape, int(group.waiting))]
    tasks = [0] * len(group.parts)
    part = 0
    for index in group.indices():
        while index >= group.ends[part]:
            part += 1
        tasks[part] += 1
    return [(shape, n) for shape, n in zip(group.parts, tasks, strict=True) if n > 0]


def classes_of(state: State) -> list[Server]:
    """Return the first server of each capacity and labels, the most common class first."""
    counts: dict[tuple[tuple[int, ...], Labels], int] = {}
    firsts: dict[tuple[tuple[int, ...], Labels], Server] = {}
    for server in state.servers.values():
        key = (tuple(server.given), server.labels)
        counts[key] = counts.get(key, 0) + 1
        first = firsts.get(key)
        if first is None or server < first:
            firsts[key] = server
    rows = [(-counts[key], server) for key, server in firsts.items()]
    return [server for _, server in sorted(rows)]


def rounded_down(seconds: float) -> str:
    """Return a time as exactly as it is known."""
    thousandths = Fraction(seconds) * 1000 // 1
    return f"{thousandths / 1000:.15g}" if 0 < thousandths < 10**15 else repr(seconds)

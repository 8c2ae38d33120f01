"""Why a group of tasks waits, and what would let it start: from the state alone, and tried.

What is said of servers is counted; what would change it is done, and undone (`undo`): the tasks
that wait are submitted anew, changed, in their old place in the order, and tasks are placed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.scheduler.arguments import LARGEST, Predicate
from fairlead.scheduler.policies import AT_HAND, DRF, FIFO, ON_SERVER, SUMMED
from fairlead.scheduler.records import NONE
from fairlead.scheduler.shape_units import sum_with
from fairlead.scheduler.undo import NotedTable

# As many servers and queues are named; all are counted.
NAMED = 10
# As many classes of servers are tried, those with the most servers.
CLASSES = 32
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_AT_ONCE = 256  # tasks placed before one looks whether the group's are among them
_AS_IT_IS = object()
Trial = Callable[[], int]  # changes something, and returns the row of the group
_MEASURES = {
    DRF: "dominant share by weight",
    SUMMED: "tasks, of those that could run alone, by weight",
    FIFO: "time of submission",
}


class Miss(NamedTuple):
    """A server that does not take a task now: what it lacks of each resource."""

    server: str
    lacks: dict[str, float]


class Ahead(NamedTuple):
    """A queue that is served before: its score is lower, or the same and its turn comes first.

    In a tree it is held against the group's queue, or the one above that has the same parent.
    """

    queue: str
    score: float

    def said(self, now: float | None) -> str:
        """Return the score in words; a time of submission as how long ago that is."""
        return f"{self.score:.4g}" if now is None else f"{lasting(now - self.score)} ago"


class Reservation(NamedTuple):
    """When the first group that does not fit is to start, and where, if tasks end at their limits.

    Of a group that is not a gang, that is its first task.

    Attributes
    ----------
    queue, group : str, int
    at : float
        Infinite where nobody knows.
    servers : tuple of str
    """

    queue: str
    group: int
    at: float
    servers: tuple[str, ...]


class Change(NamedTuple):
    """A change, and whether the group's first task would start at once if it were made.

    Attributes
    ----------
    change : str
        In words, after "if".
    kind : str
        ``"resource"``, ``"where"``, ``"limit"``, ``"weight"``, ``"priority"`` or ``"server"``.
    of : str
        The resource, the key of `where` (or ``"names"``), ``"time_limit"``, the queue, or a server
        like the new one.
    to : float or None
        The amount, the seconds, or the weight.
    starts : bool
    """

    change: str
    kind: str
    of: str
    to: float | None
    starts: bool


@dataclass(frozen=True)
class Explanation:
    """Why tasks of a group wait.

    Attributes
    ----------
    group : int
    queue : str
    waiting, running : int
        Tasks.
    starts : bool
        Whether its first task would be placed by the next call of `place`.
    now : float
        The moment that it is about.
    held_by : str
        What holds it back: ``"nothing"``, ``"where"``, ``"size"``, ``"drained"``, ``"room"``,
        ``"gang"``, ``"strict order"``, ``"fifo"``, ``"reservation"``, ``"declined"``,
        ``"best server"`` or ``"order"``.
    reason : str
        The same, in a sentence.
    servers, allowed, open, fitting : int
        Servers that are there; of those where its first task may run; of those not drained; of
        those with room for it now.
    lacking : dict of str to int
        How many of the open ones have too little of each resource. A server may lack several.
    nearest : tuple of Miss
        Servers with too little, those first that lack the least part of what is asked.
    score, measure : float, str
        The queue's score, and what that is.
    ahead, n_ahead : tuple of Ahead, int
        Queues with tasks that wait and come before it, in their order; and how many there are.
    above : tuple of Ahead
        The queues above the group's own, and their scores, from the root down; none under fifo
        and easy, where times of submission decide.
    would_change : tuple of Change
        What was tried; empty where it starts anyway.
    untried : int
        Classes of servers that were not tried, where there are many.
    never : bool
        Whether it fits on no server that is there, emptied and undrained.
    short : dict of str to (float, float)
        Where it never fits: what is asked of a resource, and the most that an allowed server has.
    reservation : Reservation or None
        Under easy, if a group waits that came before all others.
    """

    group: int
    queue: str
    waiting: int
    running: int
    starts: bool
    now: float
    held_by: str
    reason: str
    servers: int
    allowed: int
    open: int
    fitting: int
    lacking: dict[str, int]
    nearest: tuple[Miss, ...]
    score: float
    measure: str
    ahead: tuple[Ahead, ...]
    n_ahead: int
    above: tuple[Ahead, ...] = ()
    would_change: tuple[Change, ...] = ()
    untried: int = 0
    never: bool = False
    short: dict[str, tuple[float, float]] | None = None
    reservation: Reservation | None = None

    @property
    def state(self) -> str:
        """``"pending"`` while any of its tasks waits, else ``"running"``."""
        return "pending" if self.waiting else "running"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        return {
            "group": self.group,
            "queue": self.queue,
            "state": self.state,
            "waiting": self.waiting,
            "running": self.running,
            "starts": self.starts,
            "held_by": self.held_by,
            "reason": self.reason,
            "servers_there": self.servers,
            "servers_allowed": self.allowed,
            "servers_open": self.open,
            "servers_fitting": self.fitting,
            "lacking": self.lacking,
            "servers": [{"name": m.server, "lacks": m.lacks} for m in self.nearest],
            "measure": self.measure,
            "share": self.score,
            "ahead": [{"user": a.queue, "share": a.score} for a in self.ahead],
            "queues_ahead": self.n_ahead,
            "above": [{"user": a.queue, "share": a.score} for a in self.above],
            "would_change": [change._asdict() for change in self.would_change],
            "classes_untried": self.untried,
            "never": self.never,
            "short": {r: {"asked": a, "most": m} for r, (a, m) in (self.short or {}).items()},
            "reservation": self._reserved(),
        }

    def _reserved(self) -> dict[str, Any] | None:
        held = self.reservation
        if held is None:
            return None
        at = held.at if held.at < inf else None
        return {"user": held.queue, "group": held.group, "at": at, "servers": list(held.servers)}

    def __str__(self) -> str:
        return "\n".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        yield f"{self.queue}: {_tasks(self.waiting)} waiting, {self.running:,} running."
        yield self.reason
        if not self.waiting:
            return
        drained = self.allowed - self.open
        yield (
            f"Servers: {self.servers:,} there, {self.allowed:,} allowed"
            + (f", {drained:,} of these drained" if drained else "")
            + f"; {self.fitting:,} with room now."
        )
        if self.lacking:
            counts = ", ".join(
                f"{n:,} ha{'s' if n == 1 else 've'} too little {name}"
                for name, n in self.lacking.items()
            )
            yield f"Of those allowed and open, {counts}."
        for miss in self.nearest[:3]:
            yield f"Nearest: {miss.server} lacks {_amounts(miss.lacks)}."
        if self.n_ahead:
            now = self.now if self.measure == _MEASURES[FIFO] else None
            first = ", ".join(f"{a.queue} ({a.said(now)})" for a in self.ahead[:3])
            more = f" and {self.n_ahead - 3:,} more" if self.n_ahead > 3 else ""
            own = [*self.above, Ahead(self.queue, self.score)]
            verb = "has" if now is None else "came"
            mine = " / ".join(f"{a.queue} {verb} {a.said(now)}" for a in own)
            yield f"Ahead by {self.measure}: {first}{more}; {mine}."
        if self.reservation is not None:
            yield self._in_reserve(self.reservation)
        for starts, words in ((True, "It would start now"), (False, "It would still wait")):
            changes = [c.change for c in self.would_change if c.starts == starts]
            if changes:
                yield f"{words} if {'; or if '.join(changes)}."

    def _in_reserve(self, held: Reservation) -> str:
        mine = held.group == self.group
        who = "It" if mine else f"The first group that waits, of {held.queue},"
        if held.at == inf:
            return f"{who} can start at no known time: tasks in its way have no time limit."
        names, more = ", ".join(held.servers[:NAMED]), len(held.servers) - NAMED
        names += f" and {more:,} more" if more > 0 else ""
        when = f"in {lasting(held.at - self.now)}" if held.at > self.now else "at any moment"
        return f"{who} is to start {when} on {names}, or before if tasks end early."


def explained(scheduler: Any, g: int, group: int, now: float) -> Explanation:
    """Return why tasks of a group, or gang, wait."""
    found = _Question(scheduler, g, group, now)
    plain = found.counted()
    if not plain.waiting:
        return plain
    is_moot = found.is_hopeless and not scheduler._policy.backfills  # which tells of a reservation
    if found.tried(found.as_it_is, is_moot):
        return replace(
            plain, starts=True, held_by="nothing", reason="It starts when tasks are placed next."
        )
    held_by, reason = plain.held_by, plain.reason
    if not plain.never:
        held_by, reason = found.held_by(plain)
    changes, untried = found.changes()
    return replace(
        plain,
        held_by=held_by,
        reason=reason,
        would_change=tuple(changes),
        untried=untried,
        reservation=found.others.reservation,
    )


class Others(NamedTuple):
    """What became of the rest while tasks were placed for trial."""

    placed: bool  # whether any were placed
    leave_room: bool  # whether a server has room left for the first task in question
    reservation: Reservation | None


class _Question:
    """What is asked of a group `g`, whose first waiting task is of the shape `k`."""

    def __init__(self, scheduler: Any, g: int, group: int, now: float) -> None:
        self.s, self.g, self.group, self.now = scheduler, g, group, now
        core = scheduler._core
        self.members = [m for m in scheduler._members(g) if core.groups[m].waiting]
        first = self.members[0] if self.members else g
        line = core.lines[core.groups[first].line]
        self.q, self.k = int(line.queue), int(line.task_shape)
        self.columns = [*scheduler.resources, *(["slots"] if scheduler._slot else [])]
        self.units = [float(q) for q in scheduler._quanta] + [1.0]
        self.there = core.sequence[: core.numbers[0].servers].copy()
        may = core.may[core.shapes[self.k].where, core.servers["klass"][self.there]]
        self.allowed = self.there[may]
        self.open = self.allowed[core.servers["open"][self.allowed]]
        # (R, open servers): numpy adds up long rows faster than long columns.
        self.free = np.ascontiguousarray(core.free[self.open].T)
        self.lacks: BoolArray = self.free < self.demand[:, None]
        # Placing frees nothing: with another turn alone it does not start.
        self.is_hopeless = bool(self.lacks.any(axis=0).all()) and not self._is_gang()
        self.others = Others(placed=False, leave_room=False, reservation=None)
        self.foreseen: dict[int, Any] = NotedTable()

    @property
    def demand(self) -> IntArray:
        row: IntArray = self.s._core.demand[self.k]
        return row

    # What is so

    def counted(self) -> Explanation:
        """Say all that needs no trial."""
        s, core = self.s, self.s._core
        rows = [core.groups[m] for m in s._members(self.g)]
        waiting, running = sum(int(r.waiting) for r in rows), sum(int(r.running) for r in rows)
        lacks, short = self.lacks, self._lacking_part(self.open)
        some = np.flatnonzero(short > 0)
        if len(some) > NAMED:  # sorting all would take longer than all else here
            some = some[short[some] <= np.partition(short[some], NAMED)[NAMED]]
        near = some[np.argsort(short[some], kind="stable")[:NAMED]]
        mine, before, measure = self._order()
        never, too_small = False, self._short() if waiting else {}
        if waiting:
            never = bool(too_small) or not self._has_room(core.capacity, self.there)
            never |= self._is_offered_whole() and not self._has_room_on_one(core.capacity)
        plain = Explanation(
            group=self.group,
            queue=s._queue_names[self.q],
            waiting=waiting,
            running=running,
            starts=False,
            now=self.now,
            held_by="nothing",
            reason="All of its tasks run.",
            servers=len(self.there),
            allowed=len(self.allowed),
            open=len(self.open),
            fitting=int((~lacks.any(axis=0)).sum()),
            lacking={
                name: int(n)
                for name, n in zip(self.columns, lacks.sum(axis=1).tolist(), strict=True)
                if n
            },
            nearest=tuple(self._miss(int(self.open[i]), lacks[:, i]) for i in near.tolist()),
            score=mine,
            measure=measure,
            ahead=tuple(Ahead(s._queue_names[q], score) for score, q in before[:NAMED]),
            n_ahead=len(before),
            above=self._above(),
            never=never,
            short=too_small,
        )
        if not never:
            return plain
        held_by, reason = self._why_never(too_small)
        return replace(plain, held_by=held_by, reason=reason)

    def _lacking_part(self, servers: IntArray) -> FloatArray:
        """Return the largest part of what is asked of a resource that each server lacks."""
        free = np.ascontiguousarray(self.s._core.free[servers].T)
        asked = self.demand[:, None]
        parts = (asked - free) / np.where(asked, asked, 1)
        largest: FloatArray = np.where(free < asked, parts, 0.0).max(axis=0, initial=0.0)
        return largest

    def _miss(self, s: int, lacks: BoolArray) -> Miss:
        short = self.demand - self.s._core.free[s]
        rows = zip(self.columns, short.tolist(), self.units, lacks.tolist(), strict=False)
        return Miss(self.s._server_names[s], {n: x * unit for n, x, unit, is_so in rows if is_so})

    def _short(self) -> dict[str, tuple[float, float]]:
        """Return, if no allowed server has enough, of what: what is asked and the most there is."""
        capacity = np.ascontiguousarray(self.s._core.capacity[self.allowed].T)
        lacks = capacity < self.demand[:, None]
        if not capacity.size or not lacks.any(axis=0).all():
            return {}
        of_all = lacks.all(axis=1)
        columns = of_all if of_all.any() else lacks[:, lacks.sum(axis=0).argmin()]
        most, asked = capacity.max(axis=1).tolist(), self.demand.tolist()
        return {
            self.columns[r]: (asked[r] * self.units[r], most[r] * self.units[r])
            for r in np.flatnonzero(columns).tolist()
        }

    def _why_never(self, short: dict[str, tuple[float, float]]) -> tuple[str, str]:
        if not len(self.allowed):
            return "where", "It may run on none of the servers that are there."
        if not short and self._is_offered_whole():
            reason = "Each server is offered by itself, and none is large enough for all of it."
            return "gang", reason
        if not short:
            reason = "Even empty, the servers have too little room for its tasks of one shape."
            return "gang", reason
        parts = [f"{a:.6g} {name} of at most {most:.6g}" for name, (a, most) in short.items()]
        return "size", f"No server where it may run is large enough: it asks for {_list(parts)}."

    def _has_room(self, amounts: IntArray, servers: IntArray) -> bool:
        """Return whether amounts of servers suffice for the tasks of each shape alone."""
        core, needed = self.s._core, Counter[int]()
        for m in self.members:
            k = int(core.lines[core.groups[m].line].task_shape)
            needed[k] += int(core.groups[m].waiting)
        for k, tasks in needed.items():
            may = core.may[core.shapes[k].where, core.servers["klass"][servers]]
            has, takes = np.maximum(amounts[servers[may]], 0), core.demand[k] > 0
            room = (has[:, takes] // core.demand[k][takes]).min(axis=1)
            if int(room.astype(object).sum()) < (tasks if self._is_gang() else 1):
                return False
        return True

    def _has_room_on_one(self, amounts: IntArray) -> bool:
        """Return whether amounts of one server suffice for all that waits of a gang."""
        core, servers = self.s._core, self.there
        total: Any = np.zeros(core.demand.shape[1], dtype=object)  # more than a column may hold
        for m in self.members:
            k = int(core.lines[core.groups[m].line].task_shape)
            servers = servers[core.may[core.shapes[k].where, core.servers["klass"][servers]]]
            total = total + core.demand[k].astype(object) * int(core.groups[m].waiting)
        return bool((total <= amounts[servers]).all(axis=1).any())

    def _is_offered_whole(self) -> bool:
        """Return whether all of it has to start on one server: where demands are unknown."""
        return self._is_gang() and bool(self.s._policy.oblivious)

    def _is_gang(self) -> bool:
        return bool(self.s._core.groups[self.g].gang != NONE)

    def _order(self) -> tuple[float, list[tuple[float, int]], str]:
        """Return the queue's score, those of the queues before it, in order, and what they are."""
        s, rows = self.s, self.s._core.queues
        key = int(s._core.numbers[0].criterion)
        waits = rows["waiting"][: len(s._queue_names)] > 0
        if key == FIFO:
            waits &= rows["place"][: len(s._queue_names)] != NONE
        if key == DRF and s._core.numbers[0].has_depth:
            return self._order_in_tree(waits)
        queues = [q for q in np.flatnonzero(waits).tolist() if q != self.q]
        if key in (ON_SERVER, AT_HAND):
            amounts, measure = self._amounts_in_view()
            shapes = self._first_shapes()
            scores = {q: self._share(q, shapes[q], amounts) for q in queues}
            mine = (self._share(self.q, self.k, amounts), int(rows[self.q].serial))
            found = sorted((scores[q], int(rows[q].serial), q) for q in queues)
            before = [(float(score), q) for score, serial, q in found if (score, serial) < mine]
            return float(mine[0]), before, measure
        measure = "share of slots by weight" if s._slot else _MEASURES[key]
        if key == SUMMED and s._core.numbers[0].by_place:
            measure = "sum of shares of servers by weight"
        names = ("key", "key_low", "serial")
        columns = [rows[name][queues].tolist() for name in names]
        own = tuple(rows[name][self.q].item() for name in names)
        keys = sorted(zip(*columns, queues, strict=True))
        before = [(high, q) for high, low, serial, q in keys if (high, low, serial) < own]
        return own[0], before, measure

    def _order_in_tree(self, waits: BoolArray) -> tuple[float, list[tuple[float, int]], str]:
        """Return, for the group's queue and each above it, the siblings that are before it."""
        rows, before = self.s._core.queues, []
        for leaf in np.flatnonzero(waits).tolist():
            above = int(rows[leaf].parent)
            while above != NONE:
                waits[above], above = True, int(rows[above].parent)
        for own in self._path():
            beside = rows["parent"][: len(waits)] == rows[own].parent
            queues = np.flatnonzero(waits & beside).tolist()
            keys = sorted((*self._key(q), q) for q in queues if q != own)
            before += [
                (high, q) for high, low, serial, q in keys if (high, low, serial) < self._key(own)
            ]
        return float(rows[self.q].key), before, "dominant share by weight"

    def _key(self, q: int) -> tuple[float, float, int]:
        row = self.s._core.queues[q]
        return float(row.key), float(row.key_low), int(row.serial)

    def _above(self) -> tuple[Ahead, ...]:
        """Return the queues above the group's own with their scores, where these decide."""
        s, rows = self.s, self.s._core.queues
        path = self._path()[:-1] if s._core.numbers[0].criterion == DRF else []
        return tuple(Ahead(s._queue_names[q], float(rows[q].key)) for q in path)

    def _path(self) -> list[int]:
        """Return the queues above the group's own, from the root down, and that."""
        path, q = [self.q], int(self.s._core.queues[self.q].parent)
        while q != NONE:
            path.insert(0, q)
            q = int(self.s._core.queues[q].parent)
        return path

    def _amounts_in_view(self) -> tuple[Any, str]:
        """Return over what shares are taken where scores relate to a server or to what is free."""
        s, core, policy = self.s, self.s._core, self.s._policy
        free = np.maximum(core.free, 0)
        if policy.criterion == "drf":
            total = free[self.there].astype(object).sum(axis=0)
            return (lambda _: total), "dominant share of what is free"
        if policy.criterion == "tsf":
            there = np.ascontiguousarray(free[self.there].T)

            @cache
            def rooms(k: int) -> list[float]:  # in floats: there are S sums for each shape
                demand = core.demand[k]
                room = (there[demand > 0] / demand[demand > 0, None]).min(axis=0).sum()
                return [float(d * room) for d in demand.tolist()]

            return rooms, "part of the tasks that what is free would take"
        if not len(self.there):
            return (lambda _: [0] * len(self.columns)), "share of servers"
        view = self._server_in_view()
        row = (free if policy.residual else core.capacity)[view].tolist()
        what = "what is free" if policy.residual else "all"
        return (lambda _: row), f"share of {what} on {s._server_names[view]}"

    def _server_in_view(self) -> int:
        """Return the first open server that takes a task, or else the one that lacks least."""
        servers = self.open if len(self.open) else self.allowed if len(self.allowed) else self.there
        return int(servers[self._lacking_part(servers).argmin()])

    def _share(self, q: int, k: int, amounts: Callable[[int], Any]) -> Fraction:
        core = self.s._core
        held, demand, over = core.held[q].tolist(), core.demand[k].tolist(), amounts(k)
        rows = zip(held, demand, over, strict=True)
        is_known = not self.s._policy.oblivious
        parts = [Fraction(h) / Fraction(o) for h, d, o in rows if o and (d or not is_known)]
        weight = core.queues[q]
        return max(parts, default=Fraction(0)) / (
            Fraction(float(weight.weight)) + Fraction(float(weight.weight_low))
        )

    def _first_shapes(self) -> dict[int, int]:
        """Return the shape of the first task of each queue that waits."""
        core, g = self.s._core, self._in_order()
        line = core.lines[core.groups["line"][g]]
        queues, first = np.unique(line["queue"], return_index=True)
        return dict(zip(queues.tolist(), line["task_shape"][first].tolist(), strict=True))

    def _in_order(self) -> IntArray:
        """Return the groups that wait, in the order inside queues."""
        core = self.s._core
        g = np.flatnonzero(core.groups["waiting"][: core.numbers[0].groups] > 0)
        node = core.group_node[g]
        return g[np.lexsort((node["serial"], node["time"], node["rank"]))]

    # What is tried

    def held_by(self, plain: Explanation) -> tuple[str, str]:
        """Say what holds back a group that would not start now though it fits servers."""
        s, policy, others = self.s, self.s._policy, self.others
        if not plain.open:
            return "drained", "All servers where it may run are drained."
        if not plain.fitting:
            return "room", "No server where it may run has room for a task now."
        numbers = s._core.numbers[0]
        if policy.backfills:
            return self._held_by_reservation()
        if numbers.criterion == FIFO and (plain.n_ahead or not self._is_first()):
            return "fifo", "A group that came before it waits, and nothing passes that."
        if numbers.strict and not self._is_first():
            return "strict order", "The first group of its queue waits, and nothing passes that."
        if self._is_offered_whole() and not self._has_room_on_one(s._core.free):
            reason = "Each server is offered by itself, and none has room for all of it now."
            return "gang", reason
        if self._is_gang() and not (others.placed and self._has_room(s._core.free, self.there)):
            n = sum(int(s._core.groups[m].waiting) for m in self.members)
            return "gang", f"All of its {_tasks(n)} start together, and now there is no room."
        if others.leave_room and policy.oblivious:
            return "declined", "Its queue declined the servers with room, for a while."
        if others.leave_room and policy.select == "best-fit-first":
            return "best server", "It waits for the server that fits it best, which is full."
        return "order", "Tasks that are ahead of it take the room."

    def _is_held_for(self) -> bool:
        held = self.others.reservation
        return held is None or held.group == self.group

    def _held_by_reservation(self) -> tuple[str, str]:
        s, limit = self.s, float(self.s._core.groups[self.g].limit)
        if self._is_gang() and not self._has_room(s._core.free, self.there):
            n = sum(int(s._core.groups[m].waiting) for m in self.members)
            return "gang", f"All of its {_tasks(n)} start together, and now there is no room."
        if self._is_held_for() or not self.others.leave_room:
            return "order", "Tasks that are ahead of it take the room."
        runs = "It has no time limit" if limit == inf else f"It may run for {lasting(limit)}"
        return "reservation", f"{runs}, and so might delay the first group that waits."

    def _is_first(self) -> bool:
        core, g = self.s._core, self._in_order()
        own = g[core.lines["queue"][core.groups["line"][g]] == self.q]
        return int(own[0]) in self.members

    def changes(self) -> tuple[list[Change], int]:
        """Try what might let it start; return that, and how many classes were not tried."""
        s, found = self.s, []

        def add(
            words: str, kind: str, of: str, to: float | None, change: Trial, moot: bool = False
        ) -> None:
            try:
                starts = self.tried(change, moot)
            except InputError:  # more than can be counted
                starts = False
            found.append(Change(words, kind, of, to, starts))

        for r, amount in self._lower():
            name, asked = s.resources[r], float(self.demand[r]) * self.units[r]
            least = amount * self.units[r]
            words = f"it asked for {least:.6g} {name} instead of {asked:.6g}"
            add(words, "resource", name, least, partial(self._anew, lower=(r, amount)))
        for words, key, where in self._wider():
            add(words, "where", key, None, partial(self._anew, where=where))
        for limit in self._shorter():
            words = f"its time limit were {_rounded_down(limit)} s at the most"
            add(words, "limit", "time_limit", limit, partial(self._anew, limit=limit))
        for q in reversed(self._path()):
            queue, row = s._queue_names[q], s._core.queues[q]
            weight = 2 * (Fraction(float(row.weight)) + Fraction(float(row.weight_low)))
            words, double = f"the weight of {queue} were {float(weight):.6g}", float(weight)
            weighing = partial(self._weighing, queue, weight)
            add(words, "weight", queue, double, weighing, self.is_hopeless)
        queue = s._queue_names[self.q]
        words = "it had the highest priority in its queue"
        add(words, "priority", queue, None, self._first, self.is_hopeless)
        classes = self._classes()
        moot = {n: self.is_hopeless and not self._would_take(n) for n in classes[:CLASSES]}
        self._foresee([name for name, is_so in moot.items() if not is_so])
        for name, is_so in moot.items():
            words = f"there were one more server like {name}"
            add(words, "server", name, None, partial(self._with_another, name), is_so)
        return found, max(len(classes) - CLASSES, 0)

    def as_it_is(self) -> int:
        """Change nothing."""
        return self.g

    def _first(self) -> int:
        self.s.set_priority(self.group, LARGEST)
        return self.g

    def _weighing(self, queue: str, weight: Fraction) -> int:
        self.s.set_weight(queue, weight)
        return self.g

    def tried(self, change: Trial, is_moot: bool = False) -> bool:
        """Change something; return whether the group is placed then.

        Where that is known not to be so, nothing is tried.
        """
        if is_moot:
            return False
        with self.s.what_if():
            s, any_placed = self.s, False
            g = s._group_id(change())
            while True:
                placed = s.place(self.now, limit=_AT_ONCE)
                any_placed |= bool(placed)
                starts = any(p.group == g for p in placed)
                if starts or len(placed) < _AT_ONCE:
                    if change == self.as_it_is:
                        fits = (s._core.free[self.open] >= self.demand).all(axis=1).any()
                        self.others = Others(any_placed, bool(fits), self._reservation())
                    return starts

    def _reservation(self) -> Reservation | None:
        """Return what is reserved, in the state that placing has led to."""
        s, backlog = self.s, self.s._backlog
        if backlog is None or backlog.state[0].held_for == NONE:
            return None
        state = backlog.state[0]
        g, touched = int(state.held_for), backlog.touched[: state.touched]
        held = touched[backlog.servers["held_in"][touched] == state.stamp]
        held = held[np.argsort(s._core.servers["position"][held])].tolist()
        gang = int(s._core.groups[g].gang)
        g = g if gang == NONE else gang
        queue = s._queue_names[int(s._core.lines[s._core.groups[g].line].queue)]
        servers = tuple(s._server_names[i] for i in held)
        at = float(state.at)
        return Reservation(queue, s._group_id(g), at, servers if at < inf else ())

    def _shorter(self) -> Iterator[float]:
        """Yield the longest time limit with which it is over by the reserved time."""
        held = self.others.reservation
        if self._is_held_for() or held is None or held.at == inf:
            return
        at = held.at
        limit = at - self.now
        while self.now + limit > at:
            limit = float(np.nextafter(limit, -inf))
        if 0 < limit < self.s._core.groups[self.g].limit:
            yield limit

    def _lower(self) -> Iterator[tuple[int, int]]:
        """Yield resources, and the most of each that a server has which lacks nothing else."""
        s, lacks = self.s, self.lacks
        for r in range(len(s.resources)):
            if s._slot:
                amount = self._by_slots(r, self.free)
            else:
                only = lacks[r] & (lacks.sum(axis=0) == 1)
                amount = int(self.free[r, only].max(initial=-1))
            if 0 < amount < int(self.demand[r]):
                yield r, amount

    def _by_slots(self, r: int, free: IntArray) -> int:
        """Return the most of a resource with which the slots that a server has left suffice."""
        slot, demand = self.s._slot, self.demand.tolist()
        if r not in slot.largest:
            return -1
        row = [0 if other == r else x for other, x in enumerate(demand[:-1])]
        need = slot.of_task(row)
        beside = [other for other in range(len(row)) if other not in slot.largest]
        fits = (free[beside] >= self.demand[beside, None]).all(axis=0) & (free >= 0).all(axis=0)
        slots = int(free[-1, fits & (free[-1] < self.demand[-1])].max(initial=-1))
        return slots * slot.largest[r] // slot.slots if slots >= need else -1

    def _wider(self) -> Iterator[tuple[str, str, Predicate]]:
        """Yield what `where` is without one of its keys, in words too."""
        where = self._condition()
        if isinstance(where, frozenset):
            yield "it might run on any server", "names", None
        elif where:
            for key, value in where:
                rest = tuple(pair for pair in where if pair[0] != key)
                asked = key if value == "yes" else f"{key}={value}"
                yield f"it did not ask for {asked}", key, rest

    def _condition(self) -> Predicate:
        p = int(self.s._core.shapes[self.k].where)
        predicates: dict[Predicate, int] = self.s._predicates
        return next(where for where, row in predicates.items() if row == p)

    def _classes(self) -> list[str]:
        """Return a server of each capacity and labels, the most common first."""
        s, core = self.s, self.s._core
        alike: dict[Any, list[int]] = {}  # the first one in order, and how many there are
        kinds, first = core.servers["kind"][self.there], np.zeros(len(core.kinds), dtype=np.int64)
        first[kinds[::-1]] = self.there[::-1]
        counts = np.bincount(kinds, minlength=1)
        for c in np.flatnonzero(counts).tolist():
            i, n = int(first[c]), int(counts[c])
            key = (core.capacity[i].tobytes(), tuple(sorted(s._labels[i].items())))
            row = alike.setdefault(key, [i, 0])
            row[0] = min(row[0], i, key=lambda i: int(core.servers[i].position))
            row[1] += n
        rows = sorted(alike.values(), key=lambda row: (-row[1], core.servers[row[0]].position))
        return [s._server_names[i] for i, _ in rows]

    def _would_take(self, name: str) -> bool:
        """Return whether a new, empty server like another one takes the first task."""
        core, i = self.s._core, self.s._servers[name]
        may = core.may[core.shapes[self.k].where, core.servers[i].klass]
        is_named = isinstance(self._condition(), frozenset)  # the new one has another name
        return bool(may and not is_named and (core.capacity[i] >= self.demand).all())

    def _foresee(self, names: list[str]) -> None:
        """Sum at once what scores are with another server like each: where it joins, pages are own.

        Reading what is there costs less than reading it through a question's own pages.
        """
        s, core = self.s, self.s._core
        if core.numbers[0].criterion == SUMMED and names:
            kinds = np.unique(core.servers["kind"][[s._servers[name] for name in names]])
            high, low = np.zeros((2, len(kinds), len(core.queues)))
            sum_with(core, kinds, high, low)
            rows = zip(kinds.tolist(), high, low, strict=True)
            self.foreseen = NotedTable({kind: totals for kind, *totals in rows})

    def _with_another(self, name: str) -> int:
        s = self.s
        s._foreseen = self.foreseen
        i = s._servers[name]
        amounts = s._core.capacity[i].tolist()
        another, n = f"{name} again", 2
        while another in s._servers:
            another, n = f"{name} again {n}", n + 1
        capacity = zip(s.resources, amounts, s._quanta, strict=False)
        s.add_server(another, {r: a * q for r, a, q in capacity}, s._labels[i])
        return self.g

    def _anew(
        self,
        lower: tuple[int, int] | None = None,
        where: Any = _AS_IT_IS,
        limit: float | None = None,
    ) -> int:
        """Submit the tasks that wait anew, changed; return their row."""
        s, core = self.s, self.s._core
        n, node = len(s.resources), core.group_node[self.members[0]]
        key = int(node.rank), float(node.time), int(node.serial)
        conditions = {p: condition for condition, p in s._predicates.items()}
        shapes = []
        for m in self.members:
            k = int(core.lines[core.groups[m].line].task_shape)
            amounts, condition = core.demand[k, :n].tolist(), conditions[int(core.shapes[k].where)]
            if k == self.k:
                if lower is not None:
                    amounts[lower[0]] = lower[1]
                condition = condition if where is _AS_IT_IS else where
            shapes.append((amounts, int(core.groups[m].waiting), condition))
        gang = self._is_gang()
        limit = float(core.groups[self.g].limit) if limit is None else limit
        s._drop(self.g)
        row: int = s._enter_rows(self.q, shapes, gang, key, limit)
        return row


def lasting(seconds: float) -> str:
    """Return a time in words: ``3.5 h``."""
    unit = next((u for u in "dhm" if seconds >= SECONDS[u]), "s")
    return f"{seconds / SECONDS[unit]:.4g} {unit}"


def _rounded_down(seconds: float) -> str:
    """Return a time as exactly as it is known."""
    thousandths = Fraction(seconds) * 1000 // 1
    return f"{thousandths / 1000:.15g}" if 0 < thousandths < 10**15 else repr(seconds)


def _tasks(n: int) -> str:
    return f"{n:,} task{'s' * (n != 1)}"


def _amounts(amounts: dict[str, float]) -> str:
    return _list([f"{x:.6g} {name}" for name, x in amounts.items()])


def _list(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

"""The next queue and its server by definition: whole numbers, fractions and scans alone.

Nothing is kept beside what is so: servers, queues, groups that wait and tasks that run. What is
free, who holds what, who is next and where is found anew for each placement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from math import ceil, floor, inf
from typing import NamedTuple

import numpy as np

AFTER = ("first-fit", "best-fit", "best-fit-first", "rrr")  # the server is chosen after the queue
POLICIES = (
    *(f"{c}/{s}{form}" for c in ("drf", "tsf") for s in AFTER for form in ("", "/residual")),
    *(f"ps-dsf/{s}" for s in (*AFTER, "joint")),
    *("ps-dsf/rrr/residual", "ps-dsf/joint/residual", "fifo/first-fit", "fifo/best-fit"),
    *("easy/first-fit", "easy/best-fit"),
    *("drf/rrr/oblivious", "ps-dsf/rrr/oblivious"),
)


@dataclass(eq=False)
class Server:
    name: str
    place: tuple[int, int]  # in the order: as told, or its number among all that ever joined
    capacity: list[int]
    labels: dict[str, str]
    draining: bool = False


@dataclass(eq=False)
class Queue:
    name: str
    serial: int
    weight: Fraction
    parent: Queue | None = None
    most: dict[int, int] = field(default_factory=dict)  # of resources, while its tasks run
    most_tasks: float = inf
    quotas: list[tuple[object, dict[int, int]]] = field(default_factory=list)

    def is_in(self, queue: Queue) -> bool:
        """Whether it is that queue, or below it."""
        return self is queue or (self.parent is not None and self.parent.is_in(queue))


@dataclass(eq=False)
class Group:
    id: int
    queue: Queue
    members: list[tuple[list[int], int, object]]  # demand, tasks and `where` of each shape
    priority: int
    time: float
    gang: bool
    attempts: int | None
    limit: float = inf  # seconds for which each of its tasks runs at the most
    fresh: int = 0  # tasks from here up to `end` have never run
    end: int = 0
    returned: list[int] = field(default_factory=list)  # tasks that ran and wait again, ascending
    starts: dict[int, int] = field(default_factory=dict)
    failures: dict[int, int] = field(default_factory=dict)
    is_over: bool = False  # cancelled, or given up: lost tasks do not wait again

    def waits(self) -> int:
        return len(self.returned) + self.end - self.fresh

    def waiting(self) -> Iterator[int]:
        return chain(self.returned, range(self.fresh, self.end))

    def member(self, index: int) -> tuple[list[int], int, object]:
        for member in self.members:
            if index < member[1]:
                return member
            index -= member[1]
        raise AssertionError

    def drop(self) -> None:
        self.returned, self.end, self.is_over = [], self.fresh, True


class Task(NamedTuple):
    id: int
    group: Group
    index: int
    server: Server
    since: float = 0.0
    booked: float = 0.0  # when the scheduler learned of it
    devices: dict[int, list[int]] | None = None  # their numbers, by resource

    @property
    def end(self) -> float:
        """When it ends at the latest."""
        return self.since + self.group.limit


class Score(NamedTuple):
    is_last: bool
    parts: int


Tree = dict[Queue, list[tuple[Group, int]]]  # what each leaf that can start tasks starts next


class Reservation(NamedTuple):
    at: float  # infinite where unknown
    tasks: list[Task]  # where they would start then


class Choosing:
    """Computes the next placement of a scheduler from that scheduler's state."""

    resources: list[str]
    criterion: str  # drf, tsf, ps-dsf, fifo or easy
    select: str
    residual: bool
    oblivious: bool  # demands are unknown: queues are offered free amounts, and decline the rest
    strict: bool  # nothing passes over the first group of its queue
    slots: int  # 0 where tasks take amounts
    largest: list[int] | None  # the server that is cut into slots, if it was given
    random: np.random.Generator
    servers: dict[str, Server]
    queues: dict[str, Queue]  # in the order in which they were added
    groups: dict[int, Group]
    running: dict[int, Task]  # in order of their starts
    trial: list[Task]  # where the tasks of a gang would go
    round: list[Server]  # what the round under way will visit
    is_idle: bool  # whether a round is under way that has placed, or offered, nothing yet
    now: Fraction
    refuse_seconds: Fraction
    taker: tuple[Queue, Server] | None  # the offer under way
    device: dict[int, int]  # quanta of a device, by resources that come in devices
    beside: Reservation | None = None  # that the tasks of the last plan must not delay
    here: Server | None = None  # the server that is divided as a pool, under ps-dsf in trees
    declined: dict[tuple[int, object], Fraction]  # by queue and server: until when
    freed: set[tuple[int, object]]  # declined offers of servers that have more to offer since

    # The state

    def tasks(self) -> list[Task]:
        return [*self.running.values(), *self.trial]

    def slot(self) -> dict[int, Fraction]:
        """Amounts of a slot, by resource; other resources are taken in amounts."""
        rows = (
            [s.capacity for s in self.servers.values()] if self.largest is None else [self.largest]
        )
        shared = [r for r in range(len(self.resources)) if rows and all(row[r] for row in rows)]
        return {r: Fraction(max(row[r] for row in rows), self.slots) for r in shared}

    def capacity(self, server: Server) -> list[int]:
        if not self.slots:
            return server.capacity
        slot, row = self.slot(), server.capacity
        slots = min((row[r] // part for r, part in slot.items()), default=0)
        return [slots, *(amount for r, amount in enumerate(row) if r not in slot)]

    def demand(self, group: Group, index: int) -> list[int]:
        row = group.member(index)[0]
        if not self.slots:
            return row
        slot = self.slot()
        slots = max((ceil(row[r] / part) for r, part in slot.items()), default=1)
        return [slots, *(amount for r, amount in enumerate(row) if r not in slot)]

    def free(self, server: Server) -> list[int]:
        """Free amounts; below 0 where a server is overcommitted."""
        capacity = self.capacity(server)
        taken = [self.demand(t.group, t.index) for t in self.tasks() if t.server is server]
        return [amount - sum(column) for amount, *column in zip(capacity, *taken, strict=True)]

    def held(self, queue: Queue) -> list[int]:
        held = [self.demand(t.group, t.index) for t in self.tasks() if t.group.queue.is_in(queue)]
        return total(held) or [0] * len(self.resources)

    def there(self) -> list[Server]:
        """All servers in their order, draining ones too."""
        return sorted(self.servers.values(), key=lambda s: s.place)

    def may(self, group: Group, index: int, server: Server) -> bool:
        return self.is_in_place(group.member(index)[2], server)

    def is_in_place(self, where: object, server: Server) -> bool:
        if isinstance(where, dict):
            return all(server.labels.get(key) == value for key, value in where.items())
        return where is None or server.name in where

    def fits(self, group: Group, index: int, server: Server) -> bool:
        """Of a resource that a task does not take a server may lack any amount."""
        if server.draining or not self.may(group, index, server):
            return False
        demand = self.demand(group, index)
        if not all(f >= d for f, d in zip(self.free(server), demand, strict=True) if d > 0):
            return False
        return self.have_room(demand, self.free_devices(server, self.tasks()))

    # Devices

    def free_devices(self, server: Server, tasks: list[Task]) -> dict[int, list[int]]:
        """The free amount of each device, by resource; those that are not there have nothing."""
        found = {}
        for r, unit in ({} if self.slots else self.device).items():
            held = Counter[int]()
            for task in tasks:
                if task.server is server:
                    for number in (task.devices or {}).get(r, []):
                        held[number] += min(self.demand(task.group, task.index)[r], unit)
            there = server.capacity[r] // unit
            free = [unit * (k < there) - held[k] for k in range(max([there - 1, *held]) + 1)]
            found[r] = free
        return found

    def have_room(self, demand: list[int], devices: dict[int, list[int]]) -> bool:
        for r, free in devices.items():
            unit, asked = self.device[r], demand[r]
            if 0 < asked < unit and max(free, default=0) < asked:
                return False
            if asked >= unit and sum(amount >= unit for amount in free) < asked // unit:
                return False
        return True

    def devices_of(
        self, group: Group, index: int, server: Server, held: Reservation | None = None
    ) -> dict[int, list[int]]:
        """The fullest device with room for a part, or whole ones in order; beside `held`."""
        found, demand = {}, self.demand(group, index)
        for r, free in self.devices_now(group, server, held).items():
            unit, asked = self.device[r], demand[r]
            numbers = range(len(free))
            if 0 < asked < unit:
                fitting = [k for k in numbers if free[k] >= asked]
                found[r] = sorted(fitting, key=lambda k: free[k])[:1]
            elif asked:
                found[r] = [k for k in numbers if free[k] >= unit][: asked // unit]
        return found

    def devices_now(
        self, group: Group, server: Server, held: Reservation | None
    ) -> dict[int, list[int]]:
        """The free amounts of devices, now and, where a task is not over by then, beside `held`."""
        now = self.free_devices(server, self.tasks())
        if held is None or float(self.now) + group.limit <= held.at:
            return now
        then = self.free_devices(server, [*self.at(held.at), *held.tasks])
        if not any(task.server is server for task in held.tasks):
            return now
        return {r: [min(pair) for pair in zip(now[r], then[r], strict=False)] for r in now}

    # The next queue, and its server

    def score(self, queue: Queue, group: Group, index: int, server: Server) -> Score:
        """The score of a queue for a task and a server.

        In whole parts of 2**-64. Queues of weight 0 come after all others, by shares alone.
        """
        share = self.share(queue, group, index, server)
        return Score(queue.weight == 0, floor(share / (queue.weight or 1) * 2**64))

    def share(self, queue: Queue, group: Group, index: int, server: Server) -> Fraction:
        held, there, scores = self.held(queue), self.there(), Fraction(0)
        demand = self.demand(group, index)
        left = {s.name: [max(f, 0) for f in self.free(s)] for s in there} if self.residual else {}
        wanted = [r for r, d in enumerate(demand) if d > 0 or self.oblivious]
        if self.slots:
            wanted, over = [0], total([self.capacity(s) for s in there])
        elif self.criterion == "drf" and not self.residual:
            wanted, over = range(len(held)), total([s.capacity for s in there])
        elif self.criterion == "drf":
            over = total(list(left.values()))
        elif self.criterion == "tsf" and self.residual:
            rooms = sum(room(demand, left[s.name]) for s in there)
            return max(Fraction(held[r], demand[r]) for r in wanted) / rooms
        elif self.criterion == "ps-dsf" and self.select in ("joint", "rrr"):
            over = left[server.name] if self.residual else server.capacity
        else:
            for task in self.tasks():
                if task.group.queue is queue:
                    scores += self.per_task(task, there)
            return scores
        shares = [Fraction(held[r], over[r]) for r in wanted if over[r]]
        return max(shares, default=Fraction(0))

    def per_task(self, task: Task, there: list[Server]) -> Fraction:
        """The share of a running task; 0 if no server has all that it takes."""
        demand = self.demand(task.group, task.index)
        if self.criterion == "tsf":
            rooms = sum(room(demand, s.capacity) for s in there)
            return 1 / rooms if rooms else Fraction(0)
        rooms = [room(demand, s.capacity) for s in there if self.may(task.group, task.index, s)]
        return sum((1 / r for r in rooms if r > 0), Fraction(0))

    def misfit(self, group: Group, index: int, server: Server) -> float:
        """Best-fit's H, over shares of the pool of the servers that are there, in doubles."""
        demand, free = self.demand(group, index), [max(f, 0) for f in self.free(server)]
        pool, q = total([s.capacity for s in self.there()]), [d > 0 for d in demand].index(True)
        if not free[q]:
            return inf
        misfit = 0.0
        for d, f, t in zip(demand, free, pool, strict=True):
            if t:
                off = abs(float(d) / float(demand[q]) - float(f) / float(free[q]))
                misfit += off * (float(pool[q]) / float(t))
        return misfit

    def choose(self, group: Group, index: int, held: Reservation | None = None) -> Server | None:
        """The server that the selection names; of equals the first."""
        servers = self.there()
        if held is not None:
            servers = [s for s in servers if self.delays_nobody(group, index, s, held)]
        if self.select == "best-fit-first":
            seen = [s for s in servers if not s.draining and self.may(group, index, s)]
            best = min(seen, key=lambda s: self.misfit(group, index, s), default=None)
            return best if best is not None and self.fits(group, index, best) else None
        fitting = [s for s in servers if self.fits(group, index, s)]
        if self.select == "best-fit":
            return min(fitting, key=lambda s: self.misfit(group, index, s), default=None)
        if self.select == "joint":
            score = self.score
            return min(fitting, key=lambda s: score(group.queue, group, index, s), default=None)
        return fitting[0] if fitting else None

    def plan(
        self, group: Group, first: Server | None = None, held: Reservation | None = None
    ) -> list[tuple[Group, int, Server]]:
        """Where the next task goes, or all that waits of a gang, the first as given; or []."""
        try:
            for index in self.to_place(group):
                given = first is not None and (self.oblivious or not self.trial)
                server = first if given else self.choose(group, index, held)
                if server is None or not self.fits(group, index, server):
                    return []
                of = self.devices_of(group, index, server, held)
                self.trial.append(Task(-1, group, index, server, float(self.now), devices=of))
            return [(t.group, t.index, t.server) for t in self.trial]
        finally:
            self.trial = []

    def to_place(self, group: Group) -> list[int]:
        """The next task, or all that wait of a gang, the largest first."""
        if not group.gang:
            return [next(group.waiting())]
        return sorted(group.waiting(), key=lambda index: -self.size(group, index))

    def size(self, group: Group, index: int) -> Fraction | float:
        """The dominant share of the pool that a task takes."""
        demand = self.demand(group, index)
        pool = total([[0] * len(demand), *(self.capacity(s) for s in self.there())])
        rows = zip(demand, pool, strict=True)
        return max(Fraction(d, t) if t else inf for d, t in rows if d > 0)

    def waiting_in(self, queue: Queue) -> list[Group]:
        waiting = [g for g in self.groups.values() if g.queue is queue and g.waits()]
        return sorted(waiting, key=lambda g: (-g.priority, g.time, g.id))

    def in_order(self, queue: Queue) -> list[Group]:
        """Those that no limit holds back; under strict order none behind one that is."""
        found = self.waiting_in(queue)
        if self.strict and self.criterion not in ("fifo", "easy"):
            return found if found and self.is_within(found[0]) else []
        return [g for g in found if self.is_within(g)]

    def is_within(self, group: Group) -> bool:
        """Whether all that would start next of it is within the limits of its queue and above."""
        queue, nexts = group.queue, self.to_place(group)
        rows = [group.member(index)[0] for index in nexts]
        while queue is not None:
            run = [t for t in self.running.values() if t.group.queue.is_in(queue)]
            held = [t.group.member(t.index)[0] for t in run]
            for r, most in queue.most.items():
                asked = sum(row[r] for row in rows)
                if asked > 0 and asked + sum(row[r] for row in held) > most:
                    return False
            if len(run) + len(nexts) > queue.most_tasks:
                return False
            queue = queue.parent
        return True

    def first_plan(self, queue: Queue, server: Server | None = None):
        groups = self.in_order(queue)[:1] if self.strict else self.in_order(queue)
        plans = (self.plan(group, server) for group in groups)
        return next((plan for plan in plans if plan), [])

    def next_plan(self, server: Server | None = None):
        """That of the queue with the least score; of equals the first (best-fit-first: last)."""
        plans = [(q, self.first_plan(q, server)) for q in self.queues.values() if self.is_leaf(q)]
        plans = [(q, plan) for q, plan in plans if plan]
        if self.is_tree():
            self.here = server
            try:
                return self.fair_plan(dict(plans))
            finally:
                self.here = None
        if self.select == "best-fit-first":
            plans.reverse()
        return min(plans, key=lambda p: self.score(p[0], *p[1][0]), default=(None, []))[1]

    def is_tree(self) -> bool:
        return any(q.parent is not None or q.quotas for q in self.queues.values())

    def is_leaf(self, queue: Queue) -> bool:
        return not self.children(queue)

    # Past use with a half-life

    def use(self, queue: Queue) -> int:
        """What it holds and what it used lately, of the pool, by weight; rounded to 2**-32.

        A task's use is the integral of what it held, halved each half-life.
        """
        pool, now, most = self.pool(), float(self.now), 0.0
        rows = [(t, end) for t, end in self.history] + [(t, now) for t in self.running.values()]
        mine = [(t, end) for t, end in rows if t.group.queue.is_in(queue)]
        for r in range(len(self.resources)):
            used = 0.0
            for task, end in mine:
                amount = self.demand(task.group, task.index)[r]
                ages = (now - end) / self.half_life, (now - task.booked) / self.half_life
                used += amount * (2 ** -ages[0] - 2 ** -ages[1])
            if pool[r]:
                most = max(most, (self.held_of(queue)[r] + used) / pool[r])
        parts = round(most * 2**32) << 32
        return floor(parts / Fraction(queue.weight or 1))

    # Hierarchical DRF (Bhattacharya et al. 2013), for whole tasks

    def fair_plan(self, plans):
        """From the root down: the child with the least score below which a task can start."""
        tree = {queue: [(g, index) for g, index, _ in plan] for queue, plan in plans.items()}
        full, queue = self.saturated(), None
        while queue not in plans:
            below = [q for q in self.children(queue) if self.leaves(q, tree)]
            if not below:
                return []
            queue = self.next_child(below, tree, full, plans)
        return plans[queue]

    def next_child(self, below, tree: Tree, full: set[int], plans) -> Queue:
        """Within its quota first, then that with the least score."""
        return min(below, key=lambda q: self.order_of(q, tree, full, plans))

    def order_of(self, queue: Queue, tree: Tree, full: set[int], plans) -> tuple[bool, Score]:
        is_beyond = not self.is_guaranteed(queue, tree, full, plans)
        return is_beyond, self.tree_score(queue, tree, full)

    def is_guaranteed(self, queue: Queue, tree: Tree, full: set[int], plans) -> bool:
        """Whether what would be served next is within its quotas, or where it has none, below."""
        below = [q for q in self.children(queue) if self.leaves(q, tree)]
        child = self.next_child(below, tree, full, plans) if below else None
        leaf = queue
        while inner := [q for q in self.children(leaf) if self.leaves(q, tree)]:
            leaf = self.next_child(inner, tree, full, plans)
        named = False
        for where, amounts in queue.quotas:
            on = [self.demand(g, i) for g, i, s in plans[leaf] if self.is_in_place(where, s)]
            run = [t for t in self.tasks() if t.group.queue.is_in(queue)]
            run = [t for t in run if self.is_in_place(where, t.server)]
            for r, most in amounts.items():
                asked = sum(row[r] for row in on)
                if asked > 0:
                    named = True
                    if asked + sum(self.demand(t.group, t.index)[r] for t in run) > most:
                        return False
        return named or (child is not None and self.is_guaranteed(child, tree, full, plans))

    def leaves(self, queue: Queue, tree: Tree) -> list[Queue]:
        """Those at or below a queue that can start tasks."""
        return [leaf for leaf in tree if leaf.is_in(queue)]

    def saturated(self) -> set[int]:
        """Resources of which no open server has the least amount that a waiting task asks for.

        Or anything at all, where no waiting task asks for it.
        """
        waiting = [(g, i) for g in self.groups.values() for i in g.waiting()]
        frees = [self.free(s) for s in self.there() if not s.draining]
        if self.here is not None:
            waiting = [(g, i) for g, i in waiting if self.may(g, i, self.here)]
            frees = [self.free(self.here)]
        rows = [self.demand(g, i) for g, i in waiting]
        full = set()
        for r in range(len(self.pool())):
            least = min((row[r] for row in rows if row[r] > 0), default=1)
            if all(free[r] < least for free in frees):
                full.add(r)
        return full

    def tree_score(self, queue: Queue, tree: Tree, full: set[int]) -> Score:
        """A leaf has its dominant share; others ignore saturated resources."""
        if self.is_leaf(queue):
            if self.here is not None:
                return self.score(queue, *tree[queue][0], self.here)
            return self.score_of(queue, self.largest_share(self.held_of(queue)))
        parts = self.parts(queue, tree, full)
        counted = [parts[r] for r in self.counted() if r not in full]
        return self.score_of(queue, Fraction(max(counted, default=0), 2**64))

    def parts(self, queue: Queue, tree: Tree, full: set[int]) -> list[int]:
        """What it holds, in parts of 2**-64 of the pool, as if its children were level.

        A child below which something can start counts with at most the least score of these, and
        what it starts next. Others count with what they hold; so do those of weight 0 while others
        can start.
        """
        pool, held = self.pool(), self.counted_in(queue, tree)
        scored = {}
        for child in self.children(queue):
            if self.leaves(child, tree):
                scored[child] = self.tree_score(child, tree, full)
        least = min(scored.values(), default=Score(False, 0))
        scored = {q: s for q, s in scored.items() if s.is_last == least.is_last}
        for child in scored:
            held = [h - c for h, c in zip(held, self.counted_in(child, tree), strict=True)]
        found = [h * 2**64 // p if p else 0 for h, p in zip(held, pool, strict=True)]
        for child, score in scored.items():
            if self.is_leaf(child):
                rows = zip(self.held_of(child), pool, strict=True)
                own = [h * 2**64 // p if p else 0 for h, p in rows]
            else:
                own = self.parts(child, tree, full)
            nexts = [total([self.demand(*row) for row in tree[leaf]]) for leaf in tree]
            nexts = [row for leaf, row in zip(tree, nexts, strict=True) if leaf.is_in(child)]
            step = max(floor(self.largest_share(row) * 2**64) for row in nexts)
            most = least.parts + self.score_of(child, Fraction(step, 2**64)).parts
            if score.parts > most:
                own = [part * most // score.parts for part in own]
            found = [f + part for f, part in zip(found, own, strict=True)]
        return found

    def score_of(self, queue: Queue, share: Fraction) -> Score:
        return Score(queue.weight == 0, floor(share / (queue.weight or 1) * 2**64))

    def largest_share(self, row: list[int]) -> Fraction:
        pool = self.pool()
        shares = [Fraction(row[r], pool[r]) for r in self.counted() if pool[r]]
        return max(shares, default=Fraction(0))

    def counted(self) -> range:
        return range(1 if self.slots else len(self.resources))

    def pool(self) -> list[int]:
        return total([self.capacity(s) for s in ([self.here] if self.here else self.there())])

    def counted_in(self, queue: Queue, tree: Tree) -> list[int]:
        """What it holds; on a server alone, those that can start nothing count with that there."""
        if self.here is None:
            return self.held_of(queue)
        below = [t for t in self.tasks() if t.group.queue.is_in(queue)]
        counted = [t for t in below if t.group.queue in tree or t.server is self.here]
        return total([self.demand(t.group, t.index) for t in counted]) or [0] * len(self.resources)

    def held_of(self, queue: Queue) -> list[int]:
        """The same as `held`; of a queue that holds nothing as many zeros as the pool has."""
        return (self.held(queue) + [0] * len(self.pool()))[: len(self.pool())]

    def children(self, queue: Queue | None) -> list[Queue]:
        return [q for q in self.queues.values() if q.parent is queue]

    def fits_when_empty(self, group: Group) -> bool:
        """Whether it could be placed at all, by the selection, if nothing ran on open servers."""
        running, self.running = self.running, {}
        try:
            return bool(self.plan(group))
        finally:
            self.running = running

    def by_submission(self) -> list[Group]:
        """Those that could be placed at all: always the queues' first that was submitted first."""
        able = [
            [g for g in self.in_order(q) if self.fits_when_empty(g)] for q in self.queues.values()
        ]
        found = []
        while heads := [groups for groups in able if groups]:
            found.append(min(heads, key=lambda groups: (groups[0].time, groups[0].id)).pop(0))
        return found

    def oldest_plan(self):
        """Fifo: nothing passes over the first; easy: what delays it by its reservation does not."""
        groups, self.beside = self.by_submission(), None
        if not groups or (plan := self.plan(groups[0])) or self.criterion == "fifo":
            return plan if groups else []
        held = self.reservation(groups[0])
        plans = (self.plan(group, held=held) for group in groups[1:])
        self.beside = held
        return next((plan for plan in plans if plan), [])

    # Easy: one reservation, and who goes first

    def at(self, time: float) -> list[Task]:
        """The tasks that still run then, if tasks end at their limits or, if late, now."""
        return [t for t in self.tasks() if max(t.end, float(self.now)) > time]

    def reservation(self, group: Group) -> Reservation:
        """When a group would start first, and where, if nothing else started."""
        ends = {max(t.end, float(self.now)) for t in self.running.values()}
        for end in sorted(ends - {inf}):
            running, self.running = self.running, dict(enumerate(self.at(end)))
            try:
                if plan := self.plan(group):
                    for task in plan:
                        of = self.devices_of(*task)
                        self.trial.append(Task(-1, *task, devices=of))
                    return Reservation(end, self.trial)
            finally:
                self.running, self.trial = running, []
        return Reservation(inf, [])

    def delays_nobody(self, group: Group, index: int, server: Server, held: Reservation) -> bool:
        """Whether a task would be over by then, or fit beside the reservation."""
        if float(self.now) + group.limit <= held.at:
            return True
        there = [t for t in (*self.at(held.at), *held.tasks) if t.server is server]
        demand = self.demand(group, index)
        rows = [self.demand(t.group, t.index) for t in there] + [demand]
        columns = zip(demand, server.capacity, *rows, strict=True)
        if not all(c >= sum(column) for d, c, *column in columns if d > 0):
            return False
        return self.have_room(demand, self.devices_now(group, server, held))

    def round_order(self) -> list[Server]:
        """A fresh order of all servers that are there."""
        servers = self.there()
        return [servers[k] for k in self.random.permutation(len(servers))]

    def next_moment(self) -> Fraction | float:
        """When a task may start without an event: under easy, when the reservation changes."""
        if self.criterion != "easy":
            return self.next_offer()
        groups = self.by_submission()
        at = self.reservation(groups[0]).at if groups else inf
        return min((t.end for t in self.running.values() if t.end > at), default=inf)

    # Offers

    def mark(self, server: Server) -> object:
        """The queues that declined a server; a server that joins anew was never declined."""
        return server.place[1]

    def hears(self, queue: Queue, server: Server) -> bool:
        """Of a server declined it hears after a while, if that has more to offer by then."""
        pair = (queue.serial, self.mark(server))
        is_over = pair in self.freed and self.declined[pair] <= self.now
        return bool(self.in_order(queue)) and (pair not in self.declined or is_over)

    def hearing(self, server: Server) -> list[Queue]:
        """The queues to which a server is offered; none if it is full."""
        free = self.free(server)
        is_full = server.draining or max(free) <= 0
        return [] if is_full else [q for q in self.queues.values() if self.hears(q, server)]

    def revive(self, queue: Queue) -> None:
        """A queue with more to place than before drops its declines."""
        self.declined = {p: t for p, t in self.declined.items() if p[0] != queue.serial}
        self.freed &= self.declined.keys()

    def free_up(self, server: Server) -> None:
        self.freed |= {pair for pair in self.declined if pair[1] == self.mark(server)}

    def next_offer(self) -> Fraction | float:
        """The next time at which a declined server with more free amounts is offered again."""
        waits = {q.serial for q in self.queues.values() if self.in_order(q)}
        there = {self.mark(s) for s in self.servers.values() if not s.draining}
        heard = [p for p in self.freed if p[0] in waits and p[1] in there]
        return min((t for p in heard if (t := self.declined[p]) > self.now), default=inf)

    def taken_plan(self):
        """Offer each server once, to the least queue without a decline, which takes all that fits.

        It declines the rest. Placing ends with a round without an offer.
        """
        while True:
            if self.taker is not None:
                queue, server = self.taker
                if plan := self.first_plan(queue, server):
                    return plan
                pair, self.taker = (queue.serial, self.mark(server)), None
                self.declined[pair] = self.now + self.refuse_seconds
                self.freed.discard(pair)
            if not self.round:
                if self.is_idle:
                    self.is_idle = False
                    return []
                self.round, self.is_idle = self.round_order(), True
            if self.round and (queues := self.hearing(server := self.round.pop(0))):
                heads = [self.in_order(q)[0] for q in queues]
                least = min(heads, key=lambda g: self.score(g.queue, g, next(g.waiting()), server))
                self.taker, self.is_idle = (least.queue, server), False

    def offered_plan(self):
        """Round-robin: each server once, to the least queue of which anything fits there."""
        if self.oblivious:
            return self.taken_plan()
        while True:
            if not self.round:
                if self.is_idle:  # the round that ends placed nothing
                    self.is_idle = False
                    return []
                self.round, self.is_idle = self.round_order(), True
            if self.round and (plan := self.next_plan(self.round.pop(0))):
                self.is_idle = False
                return plan


def room(demand: list[int], amounts: list[int]) -> Fraction:
    """Tasks that the amounts would take, whole or not."""
    return min(Fraction(a, d) for a, d in zip(amounts, demand, strict=True) if d > 0)


def total(rows: list[list[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]

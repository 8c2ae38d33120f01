"""Compute the next placement of a scheduler by the definitions, in whole numbers and fractions.

The state has only servers, queues, groups and running tasks. Free amounts, holdings, scores, the
next queue and its server are computed anew for each placement, by scans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from math import ceil, floor, inf
from typing import NamedTuple

SELECTIONS = ("first-fit", "best-fit", "best-fit-first", "rrr")
POLICIES = (
    *(f"{c}/{s}{end}" for c in ("drf", "tsf") for s in SELECTIONS for end in ("", "/residual")),
    *(f"ps-dsf/{s}" for s in (*SELECTIONS, "joint")),
    *("ps-dsf/rrr/residual", "ps-dsf/joint/residual", "fifo/first-fit", "fifo/best-fit"),
    *("easy/first-fit", "easy/best-fit"),
    *("drf/rrr/oblivious", "ps-dsf/rrr/oblivious"),
)


@dataclass(eq=False)
class Server:
    name: str
    order: tuple[int, int]  # sort key: the given order, the number of servers that joined before
    capacity: list[int]  # (R,) quanta
    labels: dict[str, str]
    draining: bool = False


@dataclass(eq=False)
class Queue:
    name: str
    serial: int
    weight: Fraction
    parent: Queue | None = None
    limits: dict[int, int] = field(default_factory=dict)  # of running tasks: quanta by resource
    task_limit: float = inf  # of running tasks
    quotas: list[tuple[object, dict[int, int]]] = field(default_factory=list)  # `where`, quanta

    def path(self) -> list[Queue]:
        """Return the queue and the queues above it, from the bottom up."""
        return [self, *(self.parent.path() if self.parent else [])]

    def is_in(self, queue: Queue) -> bool:
        """Return whether it is a given queue, or below it."""
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
    limit: float = inf  # longest run of each task, in seconds
    fresh: int = 0  # tasks from here up to `end` have never run
    end: int = 0
    returned: list[int] = field(default_factory=list)  # tasks that ran and wait again, ascending
    starts: dict[int, int] = field(default_factory=dict)  # number by index
    failures: dict[int, int] = field(default_factory=dict)  # number by index; of a gang under 0
    is_over: bool = False  # cancelled, or failed too often: lost tasks do not wait again

    def n_waiting(self) -> int:
        return len(self.returned) + self.end - self.fresh

    def waiting_indices(self) -> Iterator[int]:
        """Iterate over the indices of waiting tasks, ascending."""
        return chain(self.returned, range(self.fresh, self.end))

    def member(self, index: int) -> tuple[list[int], int, object]:
        """Return the row of `members` that has the task of an index."""
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
    booked: float = 0.0  # the time at which it was started or assumed, from which past use counts
    devices: dict[int, list[int]] | None = None  # numbers of its devices, by resource

    @property
    def end(self) -> float:
        """The end of the task by its time limit."""
        return self.since + self.group.limit


class Score(NamedTuple):
    is_last: bool  # whether the weight is 0
    value: int


Tree = dict[Queue, list[tuple[Group, int]]]  # the next tasks of each leaf that can start some


class Reservation(NamedTuple):
    at: float  # in seconds; infinite if unknown
    tasks: list[Task]  # the reserved tasks, on their servers


class Choosing:
    """Computes the next placement of a scheduler from its state.

    A *plan* has the group, index and server of each task that starts next: one, or all of a gang.
    `plain_scheduler.Scheduler` describes the state.
    """

    # The state

    def tasks(self) -> list[Task]:
        return [*self.running.values(), *self.planned]

    def slot(self) -> dict[int, Fraction]:
        """Return the amounts of a slot, by resource; without resources that some server lacks."""
        rows = (
            [s.capacity for s in self.servers.values()] if self.largest is None else [self.largest]
        )
        shared = [r for r in range(len(self.resources)) if rows and all(row[r] for row in rows)]
        return {r: Fraction(max(row[r] for row in rows), self.slots) for r in shared}

    def capacity(self, server: Server) -> list[int]:
        """Return the capacity as the policy counts it: with slots, these first."""
        if not self.slots:
            return server.capacity
        slot, row = self.slot(), server.capacity
        slots = min((row[r] // part for r, part in slot.items()), default=0)
        return [slots, *(amount for r, amount in enumerate(row) if r not in slot)]

    def demand(self, group: Group, index: int) -> list[int]:
        """Return the demand of a task as the policy counts it: with slots, these first."""
        row = group.member(index)[0]
        if not self.slots:
            return row
        slot = self.slot()
        slots = max((ceil(row[r] / part) for r, part in slot.items()), default=1)
        return [slots, *(amount for r, amount in enumerate(row) if r not in slot)]

    def free(self, server: Server) -> list[int]:
        """Return the free amounts; below 0 where a server is overcommitted."""
        capacity = self.capacity(server)
        taken = [self.demand(t.group, t.index) for t in self.tasks() if t.server is server]
        return [amount - sum(column) for amount, *column in zip(capacity, *taken, strict=True)]

    def held(self, queue: Queue) -> list[int]:
        held = [self.demand(t.group, t.index) for t in self.tasks() if t.group.queue.is_in(queue)]
        return column_sums(held) or [0] * len(self.resources)

    def servers_in_order(self) -> list[Server]:
        """Return all servers in their order, draining ones too."""
        return sorted(self.servers.values(), key=lambda s: s.order)

    def admits(self, group: Group, index: int, server: Server) -> bool:
        return self.matches(group.member(index)[2], server)

    def matches(self, where: object, server: Server) -> bool:
        if isinstance(where, dict):
            return all(server.labels.get(key) == value for key, value in where.items())
        return where is None or server.name in where

    def fits(self, group: Group, index: int, server: Server) -> bool:
        """Return whether a task may start; only resources that it takes can be lacking."""
        if server.draining or not self.admits(group, index, server):
            return False
        demand = self.demand(group, index)
        if not all(f >= d for f, d in zip(self.free(server), demand, strict=True) if d > 0):
            return False
        return self.devices_fit(demand, self.free_devices(server, self.tasks()))

    # Devices

    def free_devices(self, server: Server, tasks: list[Task]) -> dict[int, list[int]]:
        """Return the free amount of each device, by resource; at most 0 where one is gone."""
        found = {}
        for r, unit in ({} if self.slots else self.device_units).items():
            held = Counter[int]()
            for task in tasks:
                if task.server is server:
                    for number in (task.devices or {}).get(r, []):
                        held[number] += min(self.demand(task.group, task.index)[r], unit)
            devices = server.capacity[r] // unit
            free = [unit * (k < devices) - held[k] for k in range(max([devices - 1, *held]) + 1)]
            found[r] = free
        return found

    def devices_fit(self, demand: list[int], devices: dict[int, list[int]]) -> bool:
        """Return whether one device has a fraction free, or enough devices are wholly free."""
        for r, free in devices.items():
            unit, asked = self.device_units[r], demand[r]
            if 0 < asked < unit and max(free, default=0) < asked:
                return False
            if asked >= unit and sum(amount >= unit for amount in free) < asked // unit:
                return False
        return True

    def choose_devices(
        self, group: Group, index: int, server: Server, held: Reservation | None = None
    ) -> dict[int, list[int]]:
        """Return the fullest device with room for a fraction, or the first whole ones.

        Devices that the reservation `held` needs are avoided.
        """
        found, demand = {}, self.demand(group, index)
        for r, free in self.usable_devices(group, server, held).items():
            unit, asked = self.device_units[r], demand[r]
            numbers = range(len(free))
            if 0 < asked < unit:
                fitting = [k for k in numbers if free[k] >= asked]
                found[r] = sorted(fitting, key=lambda k: free[k])[:1]
            elif asked:
                found[r] = [k for k in numbers if free[k] >= unit][: asked // unit]
        return found

    def usable_devices(
        self, group: Group, server: Server, held: Reservation | None
    ) -> dict[int, list[int]]:
        """Return the free amounts of devices that a task may take without delaying `held`."""
        now = self.free_devices(server, self.tasks())
        if held is None or float(self.now) + group.limit <= held.at:
            return now
        then = self.free_devices(server, [*self.running_at(held.at), *held.tasks])
        if not any(task.server is server for task in held.tasks):
            return now
        return {r: [min(pair) for pair in zip(now[r], then[r], strict=False)] for r in now}

    # The next queue, and its server

    def score(self, queue: Queue, group: Group, index: int, server: Server) -> Score:
        """Return ``floor(share / weight * 2**64)``; weight 0 counts as 1, after all others."""
        share = self.share(queue, group, index, server)
        return Score(queue.weight == 0, floor(share / (queue.weight or 1) * 2**64))

    def share(self, queue: Queue, group: Group, index: int, server: Server) -> Fraction:
        """Return the share of a queue for its next task on a server, by the criterion.

        The dominant share of a pool, or a sum over running tasks:

        - drf: the pool is all servers; residual: their free amounts, of the resources it takes;
        - slots: the pool is all slots;
        - tsf: the sum of 1 / (tasks that fit on all servers); residual: the tasks that the holdings
          are worth, over those that still fit;
        - ps-dsf on a server: the pool is its capacity, or its free amounts; else the sum over
          running tasks of the sum over servers of 1 / (tasks that fit there).
        """
        held, servers = self.held(queue), self.servers_in_order()
        demand = self.demand(group, index)
        taken = [r for r, d in enumerate(demand) if d > 0 or self.oblivious]
        free = {s.name: [max(f, 0) for f in self.free(s)] for s in servers} if self.residual else {}
        if self.slots:
            taken, pool = [0], column_sums([self.capacity(s) for s in servers])
        elif self.criterion == "drf" and not self.residual:
            taken, pool = range(len(held)), column_sums([s.capacity for s in servers])
        elif self.criterion == "drf":
            pool = column_sums(list(free.values()))
        elif self.criterion == "tsf" and self.residual:
            fitting = sum(tasks_that_fit(demand, free[s.name]) for s in servers)
            return max(Fraction(held[r], demand[r]) for r in taken) / fitting
        elif self.criterion == "ps-dsf" and self.select in ("joint", "rrr"):
            pool = free[server.name] if self.residual else server.capacity
        else:
            own = [task for task in self.tasks() if task.group.queue is queue]
            return sum((self.share_of_task(task, servers) for task in own), Fraction(0))
        shares = [Fraction(held[r], pool[r]) for r in taken if pool[r]]
        return max(shares, default=Fraction(0))

    def share_of_task(self, task: Task, servers: list[Server]) -> Fraction:
        """Return the share of a running task; 0 if no server has all resources that it takes."""
        demand = self.demand(task.group, task.index)
        if self.criterion == "tsf":
            gamma = sum(tasks_that_fit(demand, s.capacity) for s in servers)
            return 1 / gamma if gamma else Fraction(0)
        admitted = [s for s in servers if self.admits(task.group, task.index, s)]
        fitting = [tasks_that_fit(demand, s.capacity) for s in admitted]
        return sum((1 / tasks for tasks in fitting if tasks > 0), Fraction(0))

    def fit_score(self, group: Group, index: int, server: Server) -> float:
        """Return H of best-fit, a double: of shares of the pool of all present servers."""
        demand, free = self.demand(group, index), [max(f, 0) for f in self.free(server)]
        pool = column_sums([s.capacity for s in self.servers_in_order()])
        q = [d > 0 for d in demand].index(True)
        if not free[q]:
            return inf
        h = 0.0
        for d, f, t in zip(demand, free, pool, strict=True):
            if t:
                off = abs(float(d) / float(demand[q]) - float(f) / float(free[q]))
                h += off * (float(pool[q]) / float(t))
        return h

    def choose(self, group: Group, index: int, held: Reservation | None = None) -> Server | None:
        """Return the server that the selection chooses, of equals the first.

        Servers where the task would delay the reservation `held` are left out.
        """
        servers = self.servers_in_order()
        if held is not None:
            servers = [s for s in servers if self.keeps_reservation(group, index, s, held)]
        if self.select == "best-fit-first":
            admitted = [s for s in servers if not s.draining and self.admits(group, index, s)]
            best = min(admitted, key=lambda s: self.fit_score(group, index, s), default=None)
            return best if best is not None and self.fits(group, index, best) else None
        fitting = [s for s in servers if self.fits(group, index, s)]
        if self.select == "best-fit":
            return min(fitting, key=lambda s: self.fit_score(group, index, s), default=None)
        if self.select == "joint":
            score = self.score
            return min(fitting, key=lambda s: score(group.queue, group, index, s), default=None)
        return fitting[0] if fitting else None

    def plan(
        self, group: Group, first: Server | None = None, held: Reservation | None = None
    ) -> list[tuple[Group, int, Server]]:
        """Return the plan of a group's next task, or of a gang; [] if it does not fit.

        The first task goes to the server `first`, if given; if oblivious, all of them do.
        """
        try:
            for index in self.next_indices(group):
                given = first is not None and (self.oblivious or not self.planned)
                server = first if given else self.choose(group, index, held)
                if server is None or not self.fits(group, index, server):
                    return []
                devices = self.choose_devices(group, index, server, held)
                task = Task(-1, group, index, server, float(self.now), devices=devices)
                self.planned.append(task)
            return [(t.group, t.index, t.server) for t in self.planned]
        finally:
            self.planned = []

    def next_indices(self, group: Group) -> list[int]:
        """Return the index of the next task, or those of all tasks of a gang, the largest first."""
        if not group.gang:
            return [next(group.waiting_indices())]
        indices = list(group.waiting_indices())
        if len(group.members) == 1:
            return indices
        pool = self.pool()
        return sorted(indices, key=lambda index: -dominant_share(self.demand(group, index), pool))

    def waiting_groups(self, queue: Queue) -> list[Group]:
        """Return the groups of a queue with waiting tasks: by priority, then time, then id."""
        waiting = [g for g in self.groups.values() if g.queue is queue and g.n_waiting()]
        return sorted(waiting, key=lambda g: (-g.priority, g.time, g.id))

    def groups_within_limits(self, queue: Queue) -> list[Group]:
        """Return the waiting groups within limits.

        Under strict order, none if the first one is beyond a limit.
        """
        found = self.waiting_groups(queue)
        if self.strict and self.criterion not in ("fifo", "easy"):
            return found if found and self.is_within_limits(found[0]) else []
        return [g for g in found if self.is_within_limits(g)]

    def is_within_limits(self, group: Group) -> bool:
        """Return whether the next start is within the limits of the queue and those above it."""
        limited = [q for q in group.queue.path() if q.limits or q.task_limit < inf]
        if not limited:
            return True
        indices = self.next_indices(group)
        rows = [group.member(index)[0] for index in indices]
        for queue in limited:
            run = [t for t in self.running.values() if t.group.queue.is_in(queue)]
            held = [t.group.member(t.index)[0] for t in run]
            for r, most in queue.limits.items():
                asked = sum(row[r] for row in rows)
                if asked > 0 and asked + sum(row[r] for row in held) > most:
                    return False
            if len(run) + len(indices) > queue.task_limit:
                return False
        return True

    def first_plan(self, queue: Queue, server: Server | None = None):
        """Return the plan of the first group of a queue that fits, on a server if given; or []."""
        groups = self.groups_within_limits(queue)
        groups = groups[:1] if self.strict else groups
        plans = (self.plan(group, server) for group in groups)
        return next((plan for plan in plans if plan), [])

    def next_plan(self, server: Server | None = None):
        """Return the plan of the queue with the least score, of equals the first.

        Under best-fit-first, of equals the last.
        """
        plans = [(q, self.first_plan(q, server)) for q in self.queues.values() if self.is_leaf(q)]
        plans = [(q, plan) for q, plan in plans if plan]
        if self.is_tree():
            self.pool_server = server
            try:
                return self.plan_in_tree(dict(plans))
            finally:
                self.pool_server = None
        if self.select == "best-fit-first":
            plans.reverse()
        return min(plans, key=lambda p: self.score(p[0], *p[1][0]), default=(None, []))[1]

    def is_tree(self) -> bool:
        """Return whether queues are served as a tree: some have a parent or quotas."""
        return any(q.parent is not None or q.quotas for q in self.queues.values())

    def is_leaf(self, queue: Queue) -> bool:
        return not self.children(queue)

    # Past use with a half-life

    def past_use_score(self, queue: Queue) -> int:
        """Return the score of holdings plus past use; the share is rounded to 2**-32.

        The past use of a task is the integral of its holdings, which count half after a half-life.
        """
        pool, now, most = self.pool(), float(self.now), 0.0
        rows = [(t, end) for t, end in self.history] + [(t, now) for t in self.running.values()]
        own = [(t, end) for t, end in rows if t.group.queue.is_in(queue)]
        for r in range(len(self.resources)):
            used = 0.0
            for task, end in own:
                amount = self.demand(task.group, task.index)[r]
                ages = (now - end) / self.half_life, (now - task.booked) / self.half_life
                used += amount * (2 ** -ages[0] - 2 ** -ages[1])
            if pool[r]:
                most = max(most, (self.held_in_pool(queue)[r] + used) / pool[r])
        parts = round(most * 2**32) << 32
        return floor(parts / Fraction(queue.weight or 1))

    # Hierarchical DRF (Bhattacharya et al. 2013), for whole tasks

    def plan_in_tree(self, plans):
        """Return the plan of the leaf that is served next, by the first plan of each leaf.

        From the root down: of the children below which a task can start, that with the least score.
        """
        tree = {queue: [(g, index) for g, index, _ in plan] for queue, plan in plans.items()}
        saturated, queue = self.saturated(), None
        while queue not in plans:
            below = [q for q in self.children(queue) if self.startable_leaves(q, tree)]
            if not below:
                return []
            queue = self.next_child(below, tree, saturated, plans)
        return plans[queue]

    def next_child(self, below, tree: Tree, saturated: set[int], plans) -> Queue:
        """Return the child to serve next: within quotas first, then by the least score."""
        return min(below, key=lambda q: self.sibling_key(q, tree, saturated, plans))

    def sibling_key(
        self, queue: Queue, tree: Tree, saturated: set[int], plans
    ) -> tuple[bool, Score]:
        is_beyond = not self.is_within_quota(queue, tree, saturated, plans)
        return is_beyond, self.tree_score(queue, tree, saturated)

    def is_within_quota(self, queue: Queue, tree: Tree, saturated: set[int], plans) -> bool:
        """Return whether the next start below a queue is within its quotas.

        If its quotas name no resource of that start, those of the next child decide.
        """
        below = [q for q in self.children(queue) if self.startable_leaves(q, tree)]
        child = self.next_child(below, tree, saturated, plans) if below else None
        leaf = queue
        while inner := [q for q in self.children(leaf) if self.startable_leaves(q, tree)]:
            leaf = self.next_child(inner, tree, saturated, plans)
        named = False
        for where, amounts in queue.quotas:
            on = [self.demand(g, i) for g, i, s in plans[leaf] if self.matches(where, s)]
            run = [t for t in self.tasks() if t.group.queue.is_in(queue)]
            run = [t for t in run if self.matches(where, t.server)]
            for r, most in amounts.items():
                asked = sum(row[r] for row in on)
                if asked > 0:
                    named = True
                    if asked + sum(self.demand(t.group, t.index)[r] for t in run) > most:
                        return False
        return named or (child is not None and self.is_within_quota(child, tree, saturated, plans))

    def startable_leaves(self, queue: Queue, tree: Tree) -> list[Queue]:
        """Return the leaves at or below a queue that can start tasks."""
        return [leaf for leaf in tree if leaf.is_in(queue)]

    def saturated(self) -> set[int]:
        """Return the resources of which no open server has the least positive waiting demand free.

        Without a waiting demand, the resources of which no open server has any free.
        """
        waiting = [(g, i) for g in self.groups.values() for i in g.waiting_indices()]
        frees = [self.free(s) for s in self.servers_in_order() if not s.draining]
        if self.pool_server is not None:
            waiting = [(g, i) for g, i in waiting if self.admits(g, i, self.pool_server)]
            frees = [self.free(self.pool_server)]
        rows = [self.demand(g, i) for g, i in waiting]
        saturated = set()
        for r in range(len(self.pool())):
            least = min((row[r] for row in rows if row[r] > 0), default=1)
            if all(free[r] < least for free in frees):
                saturated.add(r)
        return saturated

    def tree_score(self, queue: Queue, tree: Tree, saturated: set[int]) -> Score:
        """Return the score of a queue; saturated resources do not count in that of inner queues."""
        if self.is_leaf(queue):
            if self.pool_server is not None:
                return self.score(queue, *tree[queue][0], self.pool_server)
            return self.score_of(queue, self.largest_share(self.held_in_pool(queue)))
        shares = self.counted_shares(queue, tree, saturated)
        counted = [shares[r] for r in self.counted() if r not in saturated]
        return self.score_of(queue, Fraction(max(counted, default=0), 2**64))

    def counted_shares(self, queue: Queue, tree: Tree, saturated: set[int]) -> list[int]:
        """Return the shares of the pool that a queue counts with, in units of 2**-64.

        A child below which a task can start counts with its holdings, but at most up to the least
        score of such children plus its next start. Other children count with all holdings; so do
        those of weight 0 while others can start tasks.
        """
        pool, held = self.pool(), self.counted_holdings(queue, tree)
        scored = {}
        for child in self.children(queue):
            if self.startable_leaves(child, tree):
                scored[child] = self.tree_score(child, tree, saturated)
        least = min(scored.values(), default=Score(False, 0))
        scored = {q: s for q, s in scored.items() if s.is_last == least.is_last}
        for child in scored:
            held = [h - c for h, c in zip(held, self.counted_holdings(child, tree), strict=True)]
        found = [h * 2**64 // p if p else 0 for h, p in zip(held, pool, strict=True)]
        for child, score in scored.items():
            if self.is_leaf(child):
                rows = zip(self.held_in_pool(child), pool, strict=True)
                own = [h * 2**64 // p if p else 0 for h, p in rows]
            else:
                own = self.counted_shares(child, tree, saturated)
            leaves = self.startable_leaves(child, tree)
            starts = [column_sums([self.demand(*row) for row in tree[leaf]]) for leaf in leaves]
            next_share = max(floor(self.largest_share(row) * 2**64) for row in starts)
            highest = least.value + self.score_of(child, Fraction(next_share, 2**64)).value
            if score.value > highest:
                own = [share * highest // score.value for share in own]
            found = [f + share for f, share in zip(found, own, strict=True)]
        return found

    def score_of(self, queue: Queue, share: Fraction) -> Score:
        return Score(queue.weight == 0, floor(share / (queue.weight or 1) * 2**64))

    def largest_share(self, row: list[int]) -> Fraction:
        pool = self.pool()
        shares = [Fraction(row[r], pool[r]) for r in self.counted() if pool[r]]
        return max(shares, default=Fraction(0))

    def counted(self) -> range:
        """Return the columns that count in shares: slots, or all amounts."""
        return range(1 if self.slots else len(self.resources))

    def pool(self) -> list[int]:
        servers = [self.pool_server] if self.pool_server else self.servers_in_order()
        return column_sums([self.capacity(s) for s in servers])

    def counted_holdings(self, queue: Queue, tree: Tree) -> list[int]:
        """Return holdings; of leaves that can start no task on `pool_server`, only those there."""
        if self.pool_server is None:
            return self.held_in_pool(queue)
        below = [t for t in self.tasks() if t.group.queue.is_in(queue)]
        counted = [t for t in below if t.group.queue in tree or t.server is self.pool_server]
        rows = [self.demand(t.group, t.index) for t in counted]
        return column_sums(rows) or [0] * len(self.resources)

    def held_in_pool(self, queue: Queue) -> list[int]:
        """Return `held` with as many columns as the pool."""
        return (self.held(queue) + [0] * len(self.pool()))[: len(self.pool())]

    def children(self, queue: Queue | None) -> list[Queue]:
        return [q for q in self.queues.values() if q.parent is queue]

    def fits_when_empty(self, group: Group) -> bool:
        """Return whether the selection finds idle open servers for a task, or for a whole gang."""
        running, self.running = self.running, {}
        try:
            return bool(self.plan(group))
        finally:
            self.running = running

    def by_submission(self) -> list[Group]:
        """Return the groups that are not oversized: always the earliest of the queues' heads."""
        by_queue = [
            [g for g in self.groups_within_limits(q) if self.fits_when_empty(g)]
            for q in self.queues.values()
        ]
        found = []
        while heads := [groups for groups in by_queue if groups]:
            found.append(min(heads, key=lambda groups: (groups[0].time, groups[0].id)).pop(0))
        return found

    def plan_by_submission(self):
        """Return the plan of the first group; under easy, or of one that does not delay it."""
        groups, self.protected = self.by_submission(), None
        if not groups or (plan := self.plan(groups[0])) or self.criterion == "fifo":
            return plan if groups else []
        held = self.reservation(groups[0])
        plans = (self.plan(group, held=held) for group in groups[1:])
        self.protected = held
        return next((plan for plan in plans if plan), [])

    # The reservation of easy

    def running_at(self, time: float) -> list[Task]:
        """Return the tasks that still run at a time if they end at their limits, or now if late."""
        return [t for t in self.tasks() if max(t.end, float(self.now)) > time]

    def reservation(self, group: Group) -> Reservation:
        """Return the earliest start of a group, and its servers, if no other task started."""
        ends = {max(t.end, float(self.now)) for t in self.running.values()}
        for end in sorted(ends - {inf}):
            running, self.running = self.running, dict(enumerate(self.running_at(end)))
            try:
                if plan := self.plan(group):
                    for task in plan:
                        devices = self.choose_devices(*task)
                        self.planned.append(Task(-1, *task, devices=devices))
                    return Reservation(end, self.planned)
            finally:
                self.running, self.planned = running, []
        return Reservation(inf, [])

    def keeps_reservation(
        self, group: Group, index: int, server: Server, held: Reservation
    ) -> bool:
        """Return whether a task ends by the reserved time, or leaves enough for reserved tasks."""
        if float(self.now) + group.limit <= held.at:
            return True
        holding = [t for t in (*self.running_at(held.at), *held.tasks) if t.server is server]
        demand = self.demand(group, index)
        rows = [self.demand(t.group, t.index) for t in holding] + [demand]
        columns = zip(demand, server.capacity, *rows, strict=True)
        if not all(c >= sum(column) for d, c, *column in columns if d > 0):
            return False
        return self.devices_fit(demand, self.usable_devices(group, server, held))

    def random_order(self) -> list[Server]:
        """Return all servers in a new random order."""
        servers = self.servers_in_order()
        return [servers[k] for k in self.random.permutation(len(servers))]

    def next_moment(self) -> Fraction | float:
        """Return the next time at which a task may start without an event; infinite for never.

        Under easy, this is the first expected end of a task after the reserved time.
        """
        if self.criterion != "easy":
            return self.next_offer()
        groups = self.by_submission()
        at = self.reservation(groups[0]).at if groups else inf
        return min((t.end for t in self.running.values() if t.end > at), default=inf)

    # Offers

    def server_number(self, server: Server) -> object:
        """Return the number of a server, a new one if it joins again: then no queue declined it."""
        return server.order[1]

    def may_get_offer(self, queue: Queue, server: Server) -> bool:
        """Return whether a queue did not decline a server, or did a while ago and more is free."""
        pair = (queue.serial, self.server_number(server))
        is_over = pair in self.freed and self.declined[pair] <= self.now
        return bool(self.groups_within_limits(queue)) and (pair not in self.declined or is_over)

    def queues_to_offer(self, server: Server) -> list[Queue]:
        """Return the queues to which a server may be offered; none if it is full."""
        free = self.free(server)
        is_full = server.draining or max(free) <= 0
        return [] if is_full else [q for q in self.queues.values() if self.may_get_offer(q, server)]

    def forget_declines(self, queue: Queue) -> None:
        """Forget the declines of a queue with more waiting tasks than before."""
        self.declined = {p: t for p, t in self.declined.items() if p[0] != queue.serial}
        self.freed &= self.declined.keys()

    def free_up(self, server: Server) -> None:
        """Note that more of a server is free, so that its declines end in time."""
        self.freed |= {pair for pair in self.declined if pair[1] == self.server_number(server)}

    def next_offer(self) -> Fraction | float:
        """Return the next time at which a server may be offered to a queue that declined it."""
        waiting = {q.serial for q in self.queues.values() if self.groups_within_limits(q)}
        open_ = {self.server_number(s) for s in self.servers.values() if not s.draining}
        ending = [p for p in self.freed if p[0] in waiting and p[1] in open_]
        return min((t for p in ending if (t := self.declined[p]) > self.now), default=inf)

    def plan_by_offers(self):
        """Return the next plan under offers; [] after a round without an offer.

        Each server of a round is offered to the queue with the least score of those that have not
        declined it. The queue starts all tasks that fit, and declines the rest.
        """
        while True:
            if self.current_offer is not None:
                queue, server = self.current_offer
                if plan := self.first_plan(queue, server):
                    return plan
                pair, self.current_offer = (queue.serial, self.server_number(server)), None
                self.declined[pair] = self.now + self.refuse_seconds
                self.freed.discard(pair)
            if not self.to_visit:
                if self.is_idle:
                    self.is_idle = False
                    return []
                self.to_visit, self.is_idle = self.random_order(), True
            if self.to_visit and (queues := self.queues_to_offer(server := self.to_visit.pop(0))):
                heads = [self.groups_within_limits(q)[0] for q in queues]
                rows = [(g.queue, g, next(g.waiting_indices()), server) for g in heads]
                least = min(rows, key=lambda row: self.score(*row))[0]
                self.current_offer, self.is_idle = (least, server), False

    def plan_by_rounds(self):
        """Return the next plan of round-robin; [] after a round that placed nothing.

        Each server of a round gets a task of the queue with the least score of those that fit.
        """
        if self.oblivious:
            return self.plan_by_offers()
        while True:
            if not self.to_visit:
                if self.is_idle:
                    self.is_idle = False
                    return []
                self.to_visit, self.is_idle = self.random_order(), True
            if self.to_visit and (plan := self.next_plan(self.to_visit.pop(0))):
                self.is_idle = False
                return plan


def tasks_that_fit(demand: list[int], amounts: list[int]) -> Fraction:
    """Return the number of tasks, whole or not, that fit in some amounts."""
    return min(Fraction(a, d) for a, d in zip(amounts, demand, strict=True) if d > 0)


def dominant_share(demand: list[int], pool: list[int]) -> Fraction | float:
    """Return the largest share of a pool that a task takes; infinite if the pool has none."""
    pool = pool or [0] * len(demand)  # without servers
    return max(Fraction(d, t) if t else inf for d, t in zip(demand, pool, strict=True) if d > 0)


def column_sums(rows: list[list[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]

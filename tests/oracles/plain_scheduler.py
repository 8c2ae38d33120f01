"""A slow scheduler by the definitions: it takes events with valid arguments, and places tasks."""

from __future__ import annotations

from bisect import insort
from fractions import Fraction
from functools import wraps
from math import floor, inf
from typing import NamedTuple

import numpy as np

from fairlead.errors import InputError, RefusalError
from fairlead.model.quantity import exact
from oracles.plain_choosing import Choosing, Group, Queue, Reservation, Server, Task

LARGEST = 2**62
QUANTUM = Fraction(1, 1_024_000_000)


class Placement(NamedTuple):
    task: int
    group: int
    queue: str
    server: str
    attempt: int  # 1 for the first start of this task
    index: int  # of the task in its group; in a gang, through all shapes in their order


def number(value) -> Fraction:
    return exact(value) if isinstance(value, float) else Fraction(value)


def constraint(where) -> dict[str, str] | tuple[str, ...] | None:
    """Return labels that must all match, or names of which one must match; None for any server."""
    return where if where is None or isinstance(where, dict) else tuple(sorted(where))


def find(table, key, what: str):
    """Return the row of a key; raise InputError without one."""
    if key not in table:
        raise InputError(f"there is no {what} {key!r}", what)
    return table[key]


def unparks(event):
    """Return the method of an event that also unparks gangs."""

    @wraps(event)
    def call(self, *arguments, **options):
        before = self.open_amounts()
        result = event(self, *arguments, **options)
        self.unpark(before)
        return result

    return call


class Scheduler(Choosing):
    """The plain counterpart of `fairlead.Scheduler`, with its methods and arguments.

    For slots:N, `largest` is the server that is cut into slots. Its default has, of each resource
    that all present servers have, the largest capacity of any.

    A gang without room is parked until a server with more free than before fits one of its tasks;
    under easy it is not. (Its first tasks may take a server that only a later one fits on. With
    less free they may go elsewhere, and the gang fits although no server was freed.)
    """

    def __init__(
        self, resources, policy, quanta=None, seed=0, *, strict_fifo=False, largest=None,
        refuse_seconds=5.0, devices=(),
    ) -> None:  # fmt: skip
        self.resources = list(resources)
        self.half_life = 0.0
        if "/half-life:" in policy:
            policy, _, seconds = policy.rpartition("/half-life:")
            self.half_life = float(seconds)
        self.history: list[tuple[Task, float]] = []  # ended tasks, if past use counts
        self.preempts = ""
        if "/over-" in policy:
            policy, _, self.preempts = policy.rpartition("/")
        self.slots = 0  # of the largest server; 0 if tasks take amounts
        if policy.startswith("slots:"):
            self.slots = int(policy[6:])
            policy = "drf/first-fit"
        self.criterion, self.select, *forms = policy.split("/")
        self.residual = "residual" in forms
        # Whether demands are unknown: queues are offered servers, and decline the rest.
        self.oblivious = "oblivious" in forms
        self.strict = strict_fifo  # no group passes the first one of its queue
        self.refuse_seconds = number(refuse_seconds)
        self.now = Fraction(0)
        self.quanta = [number((quanta or {}).get(name, QUANTUM)) for name in self.resources]
        numbers = [self.resources.index(name) for name in devices]
        self.device_units = {r: int(1 / self.quanta[r]) for r in numbers}  # quanta of a device
        self.largest = None if largest is None else self.count(largest, "largest")
        self.random = np.random.default_rng(seed)
        self.servers: dict[str, Server] = {}
        self.queues: dict[str, Queue] = {}  # in the order in which they were added
        self.groups: dict[int, Group] = {}
        self.running: dict[int, Task] = {}  # in order of their starts
        self.planned: list[Task] = []  # tasks of the present plan, counted as running
        self.protected: Reservation | None = None  # which the last plan does not delay
        self.pool_server: Server | None = None  # the server that is the pool, for ps-dsf in trees
        self.to_visit: list[Server] = []  # servers that the current round has still to visit
        self.is_idle = False  # whether the current round has placed, or offered, nothing yet
        self.current_offer: tuple[Queue, Server] | None = None
        self.declined: dict[tuple[int, object], Fraction] = {}  # ends, by queue and server
        self.freed: set[tuple[int, object]] = set()  # declined servers that have more free since
        self.joined = self.added = self.ids = 0
        self.parked: set[int] = set()  # ids of gangs
        self.stopping: set[int] = set()  # victims of preemption that still run
        self.fresh: set[int] = set()  # tasks that started after the last event that was no start

    # Servers

    @unparks
    def add_server(self, name, capacity, labels=None, order=None) -> None:
        if name in self.servers:
            raise InputError(f"there is a server {name!r}", "server")
        order = self.joined if order is None else order
        amounts = self.require_whole_devices(self.count(capacity, "capacity"), of_task=False)
        server = Server(name, (order, self.joined), amounts, labels or {})
        self.refuse_overflow([*self.servers.values(), server])
        self.servers[name] = server
        self.joined += 1

    @unparks
    def set_server(self, name, capacity=None, labels=None) -> None:
        """Change the capacity or labels; running tasks go on, also on an overcommitted server."""
        server = find(self.servers, name, "server")
        amounts = server.capacity if capacity is None else self.count(capacity, "capacity")
        self.require_whole_devices(amounts, of_task=False)
        labels = server.labels if labels is None else labels
        changed = Server(name, server.order, amounts, labels)
        self.refuse_overflow([changed if s is server else s for s in self.servers.values()])
        more = any(a > old for a, old in zip(amounts, server.capacity, strict=True))
        is_freed = more or labels != server.labels
        server.capacity, server.labels = amounts, labels
        if is_freed:
            self.free_up(server)

    def drain(self, name) -> None:
        find(self.servers, name, "server").draining = True

    @unparks
    def undrain(self, name) -> None:
        server = find(self.servers, name, "server")
        if server.draining:
            server.draining = False
            self.free_up(server)

    @unparks
    def remove_server(self, name) -> list[int]:
        """Return the lost tasks in order of starts: those on the server, and the rest of gangs."""
        server = find(self.servers, name, "server")
        lost = self.stop([t for t in self.running.values() if t.server is server])
        del self.servers[name]
        self.to_visit = [s for s in self.to_visit if s is not server]
        if self.current_offer is not None and self.current_offer[1] is server:
            self.current_offer = None
        return lost

    # Queues

    def add_queue(self, name, weight=1, parent=None) -> None:
        if name in self.queues:
            raise InputError(f"there is a queue {name!r}", "queue")
        above = None if parent is None else find(self.queues, parent, "parent")
        if above is not None and any(g.queue is above for g in self.groups.values()):
            raise InputError(f"tasks of {parent!r} wait or run", "parent")
        if above is not None and not self.is_for_trees():
            raise RefusalError(self.criterion, "has no trees of queues")
        self.queues[name] = Queue(name, self.added, number(weight), above)
        self.added += 1

    def is_for_trees(self) -> bool:
        """Return whether the policy is defined for trees of queues."""
        by_share = self.criterion == "drf" and self.select in ("first-fit", "best-fit")
        by_server = (self.criterion, self.select, self.oblivious) == ("ps-dsf", "rrr", False)
        return self.criterion in ("fifo", "easy") or ((by_share or by_server) and not self.residual)

    def set_weight(self, name, weight) -> None:
        queue = find(self.queues, name, "queue")
        queue.weight = number(weight)

    def set_limit(self, name, amounts=None, tasks=None) -> None:
        queue = find(self.queues, name, "queue")
        counted = self.count({} if amounts is None else amounts, "limit")
        if amounts and self.slots:
            raise RefusalError("slots", "has no limits of amounts")
        queue.limits = {
            r: counted[r] for r, name in enumerate(self.resources) if name in (amounts or {})
        }
        queue.task_limit = inf if tasks is None else tasks

    def set_quota(self, name, amounts=None, where=None) -> None:
        queue = find(self.queues, name, "queue")
        counted = self.count({} if amounts is None else amounts, "quota")
        where = constraint(where)
        if self.select not in ("first-fit", "best-fit") or self.residual or self.slots:
            raise RefusalError(self.criterion, "has no quotas")
        if self.criterion != "drf" or self.half_life:
            raise RefusalError(self.criterion, "has no quotas")
        given = {r: counted[r] for r, name in enumerate(self.resources) if name in (amounts or {})}
        others = [(place, row) for place, row in queue.quotas if (place or None) != (where or None)]
        queue.quotas = others + ([(where, given)] if given else [])

    def remove_queue(self, name) -> None:
        queue = find(self.queues, name, "queue")
        if self.children(queue):
            raise InputError(f"there are queues below {name!r}", "queue")
        if any(group.queue is queue for group in self.groups.values()):
            raise InputError(f"tasks of {name!r} wait or run", "queue")
        del self.queues[name]

    # Groups of tasks

    def submit(self, queue, demand, tasks=1, *, gang=False, **options) -> int:
        return self.enter(queue, [(demand, tasks)], gang, **options)

    def submit_gang(self, queue, members, **options) -> int:
        """Submit a gang of shapes: (demand, tasks), or (demand, tasks, where)."""
        return self.enter(queue, members, True, **options)

    def enter(
        self, queue, members, gang, where=None, priority=0, time_limit=None, attempts=None, now=0.0
    ) -> int:
        queue = find(self.queues, queue, "queue")
        if self.children(queue):
            raise InputError("has queues below it; submit to one of these", "queue")
        shapes = []
        for demand, tasks, *own in members:
            amounts = self.require_whole_devices(self.count(demand, "demand"), of_task=True)
            if not any(amounts):
                raise InputError("takes nothing", "demand")
            shapes.append((amounts, tasks, constraint(own[0] if own else where)))
        group = Group(
            self.ids,
            queue,
            shapes,
            priority,
            number(now),
            gang,
            attempts,
            inf if time_limit is None else float(time_limit),
            end=sum(tasks for _, tasks, _ in shapes),
        )
        if sum(g.n_waiting() for g in self.groups.values()) + group.end > LARGEST:
            raise InputError("more tasks would wait than can be counted", "tasks")
        self.groups[group.id] = group
        self.forget_declines(queue)
        self.ids += 1
        return group.id

    def set_priority(self, group, priority) -> None:
        """Set the priority of the group's waiting tasks; running tasks go on."""
        find(self.groups, group, "group").priority = priority

    def cancel(self, group) -> list[int]:
        """Drop the waiting tasks; return the running ones. The group ends with the last of them."""
        group = find(self.groups, group, "group")
        group.drop()
        self.forget_ended()
        return [t.id for t in self.running.values() if t.group is group]

    # Running tasks

    @unparks
    def finish(self, task) -> None:
        ended = self.running.pop(find(self.running, task, "task").id)
        self.note_end(ended)
        self.free_up(ended.server)
        self.forget_ended()

    @unparks
    def fail(self, task) -> list[int]:
        """Return the stopped tasks: this one, and the rest of its gang, whose failures add up."""
        failed = find(self.running, task, "task")
        group, index = failed.group, 0 if failed.group.gang else failed.index
        group.failures[index] = group.failures.get(index, 0) + 1
        is_last = group.attempts is not None and group.failures[index] >= group.attempts
        if is_last and group.gang:
            group.drop()
        return self.stop([failed], again=not is_last)

    @unparks
    def evict(self, task) -> list[int]:
        """Return the stopped tasks: this one, and the rest of its gang."""
        return self.stop([find(self.running, task, "task")])

    def assume(self, group, server, since=None) -> int:
        """Start the group's first waiting task on a server, even without room or admission."""
        group, server = find(self.groups, group, "group"), find(self.servers, server, "server")
        if not group.n_waiting():
            raise InputError("has no waiting tasks", "group")
        index = next(group.waiting_indices())
        self.planned = [Task(-1, group, index, server)]
        try:
            self.refuse_overflow(self.servers.values())
        finally:
            self.planned = []
        started = float(self.now) if since is None else float(since)
        self.parked.discard(group.id)  # fewer of its tasks wait
        return self.start([(group, index, server)], started)[0].task

    def stop(self, lost: list[Task], *, again: bool = True) -> list[int]:
        """Stop tasks and the rest of their gangs; `again` is whether they wait again."""
        gangs = [t.group for t in lost if t.group.gang]
        stopped = [t for t in self.running.values() if t in lost or t.group in gangs]
        for task in stopped:
            del self.running[task.id]
            self.note_end(task)
            self.free_up(task.server)
            if again and not task.group.is_over:
                insort(task.group.returned, task.index)
                self.forget_declines(task.group.queue)
        self.forget_ended()
        return [task.id for task in stopped]

    def note_end(self, task: Task) -> None:
        if self.half_life:
            self.history.append((task, float(self.now)))

    def forget_ended(self) -> None:
        """Forget groups without waiting and running tasks."""
        run = {t.group.id for t in self.running.values()}
        self.groups = {k: g for k, g in self.groups.items() if g.n_waiting() or k in run}

    def start(self, plan, since: float) -> list[Placement]:
        """Start the tasks of a plan; their run times count from `since`."""
        placed = []
        for group, index, server in plan:
            if index in group.returned:
                group.returned.remove(index)
            else:
                group.fresh += 1
            devices = self.choose_devices(group, index, server, self.protected)
            attempt = group.starts[index] = group.starts.get(index, 0) + 1
            self.running[self.ids] = Task(
                self.ids, group, index, server, since, float(self.now), devices
            )
            placed.append(
                Placement(self.ids, group.id, group.queue.name, server.name, attempt, index)
            )
            self.ids += 1
        return placed

    def advance(self, now) -> None:
        self.now = number(now)

    def place(self, now=0.0, limit=None) -> list[Placement]:
        """Place tasks until no more fits, or at least `limit` are placed; gangs as a whole."""
        self.now, placed = number(now), []
        most = inf if limit is None else limit
        next_plan = {"rrr": self.plan_by_rounds}.get(self.select, self.next_plan)
        next_plan = self.plan_by_submission if self.criterion in ("fifo", "easy") else next_plan
        while len(placed) < most and (plan := next_plan()):
            placed += self.start(plan, float(self.now))
        return placed

    def devices(self, task) -> dict[str, list[int]]:
        devices = find(self.running, task, "task").devices
        return {self.resources[r]: numbers for r, numbers in devices.items()}

    # Parked gangs

    def plan(self, group, first=None, held=None):
        if first is not None or self.criterion == "easy":
            return super().plan(group, first, held)
        plan = [] if group.id in self.parked else super().plan(group)
        if not plan and group.gang and sum(tasks for _, tasks, _ in group.members) > 1:
            self.parked.add(group.id)
        return plan

    def next_plan(self, server=None):
        if self.half_life:
            return self.plan_in_turn(None) if self.servers_in_order() else []
        tries_all = self.residual or self.select not in ("first-fit", "best-fit") or self.is_tree()
        if tries_all or not self.servers_in_order():  # without servers there are no scores
            return super().next_plan(server)
        groups = {q: self.groups_within_limits(q) for q in self.queues.values()}
        heads = [(q, found[0]) for q, found in groups.items() if found]
        heads.sort(key=lambda head: self.score(*head, next(head[1].waiting_indices()), None))
        plans = (self.first_plan(q) for q, _ in heads)
        return next((plan for plan in plans if plan), [])

    def plan_in_turn(self, queue):
        """Return the first plan below a queue, trying children by score, from the root down."""
        children = self.children(queue)
        for child in sorted(children, key=lambda q: (q.weight == 0, self.past_use_score(q))):
            inner = self.children(child)
            plan = self.plan_in_turn(child) if inner else self.first_plan(child)
            if plan:
                return plan
        return []

    def fits_when_empty(self, group):
        parked, self.parked = self.parked, set()
        try:
            return super().fits_when_empty(group)
        finally:
            self.parked = parked

    def open_amounts(self):
        """Return the labels, slot and free amounts of each open server.

        The slot is included because free amounts in other slots cannot be compared.
        """
        slot = self.slot() if self.slots else None
        open_ = [s for s in self.servers_in_order() if not s.draining]
        return {s.name: ((s.labels, slot), self.free(s)) for s in open_}

    def unpark(self, before) -> None:
        """Unpark gangs of which a task fits on a server with more free, or other labels, now."""
        for name, (labels, free) in self.open_amounts().items():
            old_labels, old_free = before.get(name, (None, free))
            if labels != old_labels or any(f > o for f, o in zip(free, old_free, strict=True)):
                for id in self.parked & self.groups.keys():
                    gang = self.groups[id]
                    indices = gang.waiting_indices()
                    if any(self.fits(gang, index, self.servers[name]) for index in indices):
                        self.parked.discard(id)

    def require_whole_devices(self, amounts: list[int], *, of_task: bool) -> list[int]:
        """Return amounts of whole devices, of servers at most 100,000; tasks may take a fraction.

        Raises
        ------
        InputError
            When the amount of a resource in devices is another one.
        """
        for r, unit in self.device_units.items():
            is_part = of_task and amounts[r] < unit
            if (amounts[r] % unit and not is_part) or (not of_task and amounts[r] > 100_000 * unit):
                raise InputError("must be whole devices", self.resources[r])
        return amounts

    def check(self) -> None:
        """Assert that the tables agree."""
        self.refuse_overflow(self.servers.values())
        for task in self.running.values():
            assert self.servers[task.server.name] is task.server
            assert self.groups[task.group.id] is task.group
        for group in self.groups.values():
            run = [t.index for t in self.running.values() if t.group is group]
            assert run or group.n_waiting()
            assert self.queues[group.queue.name] is group.queue
            assert not set(run) & set(group.returned)
            assert len(set(run)) == len(run)
            assert group.returned == sorted(set(group.returned))
            assert max([*run, *group.returned], default=-1) < group.fresh <= group.end

    def refuse_overflow(self, servers) -> None:
        """Raise InputError if the sum of capacities, or of held amounts above these, overflows."""
        for r, name in enumerate(self.resources):
            most = 0
            for server in servers:
                on = [t for t in self.tasks() if t.server.name == server.name]
                held = sum(t.group.member(t.index)[0][r] for t in on)
                most += max(server.capacity[r], held)
            if most > LARGEST:
                raise InputError("adds up to more than can be counted; give larger quanta", name)

    def count(self, amounts, what: str) -> list[int]:
        """Return amounts in quanta, rounded down; a positive one is at least one quantum."""
        given = [number(amounts.get(name, 0)) for name in self.resources]
        rows = zip(given, self.quanta, strict=True)
        counted = [max(floor(amount / quantum), int(amount > 0)) for amount, quantum in rows]
        for name, amount in zip(self.resources, counted, strict=True):
            if amount > LARGEST:
                raise InputError(
                    "is more than can be counted; give larger quanta", f"{what} {name}"
                )
        return counted

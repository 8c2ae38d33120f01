"""The state of a scheduler, and the changes that keep it consistent.

Every change has an inverse: stopping undoes starting, leaving undoes joining. `what_if` collects
the inverses, and calls them in reverse order at its end. That is exact, because decisions depend on
whole numbers and sort keys only. Inverse events update derived data (indexes, ranks, parked waiting
lists) like any other event. Only the parking of gangs is undone explicitly, because it decides
which gangs are tried.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.errors import InputError
from fairlead.scheduler._entities import (
    NO_LIMIT,
    UNLIMITED,
    Constraint,
    ConstraintKey,
    Counting,
    Gang,
    Labels,
    Limit,
    Member,
    Order,
    Plan,
    Queue,
    Quota,
    Rank,
    Server,
    Shape,
    TableKey,
    Task,
    TaskGroup,
    Terms,
    WaitingList,
    add_to,
    choose_devices,
    device_numbers,
    has_room,
    larger,
    path_of,
    restore_columns,
    sorted_by_serial,
    take_from,
    zeros,
)
from fairlead.scheduler._server_kinds import ServerKinds
from fairlead.scheduler._waiting import FreedServers, activate, unpark
from fairlead.scheduler.argument_checks import LARGEST
from fairlead.scheduler.criteria.criterion import Criterion
from fairlead.scheduler.selection.first_fit import Selection
from fairlead.scheduler.selection.rounds import Rounds

ExpectedEnd = tuple[float, int, Task]  # in seconds; the id of the task orders equal ends


class PlannedStart:
    """A reserved start: waiting tasks that start together, by a given time at the latest."""

    def __init__(self, group: TaskGroup, plan: Plan, at: float) -> None:
        self.group = group
        self.plan = plan
        self.at = at  # time of the start, in seconds

    def device_numbers(self) -> list[dict[int, list[int]]]:
        """Return the numbers of the devices of each task, by resource."""
        return [device_numbers(task.shape, task.devices) for task in self.plan]


class State:
    """The tables of a scheduler, and every change of them."""

    # The inverse of each event inside `what_if`, in the order of the events; None outside.
    undo_steps: list[partial[None]] | None = None
    is_undoing: bool = False  # whether events are being undone; meanwhile parked gangs stay parked
    # Whether servers, past use or the time changed since all scores were computed.
    is_stale: bool = False
    now: float = 0.0  # the time of events, in seconds; see `set_time`
    calls: i64 = 0  # number of calls of `Cycle.start_tasks`
    ids: int = 0  # number of ids given so far, to groups and to starts of tasks
    joined: int = 0  # number of servers added so far
    added: int = 0  # number of queues added so far
    number_of_quotas: i64 = 0  # of all queues
    # The first id given after the last change from outside (not a placement or preemption).
    first_new_id: int = 0

    def __init__(
        self,
        counting: Counting,
        criterion: Criterion,
        selection: Selection,
        later_wins_ties: bool,
        rounds: Rounds,
        spared: int = -1,
    ) -> None:
        width, compared = counting.width, counting.compared
        self.counting = counting
        self.width = width  # W, the number of amounts that the policy counts
        self.criterion = criterion
        self.selection = selection
        self.later_wins_ties = later_wins_ties  # whether the later of two equal queues goes first
        self.root = Queue("", -1, (1, 1), None, width)
        self.servers: dict[str, Server] = {}
        criterion.servers = self.servers
        self.queues: dict[str, Queue] = {}
        self.groups: dict[int, TaskGroup] = {}
        self.running: dict[int, Task] = {}
        self.stopping: dict[int, Task] = {}  # victims of preemption that have not stopped yet
        # If the criterion `keeps_ends`: the expected ends of running tasks, ascending; and the same
        # by the name of the server.
        self.ends: list[ExpectedEnd] = []
        self.ends_on: dict[str, list[ExpectedEnd]] = {}
        self.reserved: list[PlannedStart] = []
        self.shapes: dict[tuple[tuple[int, ...], Constraint], Shape] = {}
        self.server_kinds = ServerKinds(spared)
        self.gangs_parked: dict[int, Gang] = {}  # of all queues, by id
        self.freed = FreedServers(compared)
        self.rounds = rounds  # the rounds and declined offers of rrr
        # (R,) quanta: an upper bound of the sum over servers of max(capacity, held amounts). It
        # must not exceed `LARGEST`.
        self.amount_sums = [0] * int(counting.resources)

    def set_time(self, now: float) -> None:
        """Set the time of the next events, in seconds."""
        if self.criterion.half_life > 0.0 and now != self.now:
            self.is_stale = True
        self.now = now
        self.criterion.time = now

    def set_past_use(self, queue: Queue, past_use: list[float], at: float) -> None:
        """Set the past use of a queue; `what_if` restores it."""
        queue.past_use = past_use
        queue.past_use_at = at
        self.is_stale = True

    def note_undo(self, inverse: partial[None]) -> None:
        """Note the inverse of an event, inside `what_if`."""
        if self.undo_steps is not None:
            self.undo_steps.append(inverse)

    def note_outside_change(self) -> None:
        """Note a change from outside, after which all tasks that run now may be preempted."""
        self.first_new_id = self.ids

    # Servers

    def add_server(
        self, name: str, order: int, given: list[int], labels: Labels, group: str = ""
    ) -> Server:
        """Add an open server with a capacity (R,) in quanta; return it."""
        server = Server(name, order, self.joined, given, labels, group)
        self.joined += 1
        self.join(server)
        self.open(server)
        return server

    def join(self, server: Server) -> None:
        """Enter a server in the tables, draining; `open` lets tasks start on it."""
        self.servers[server.name] = server
        self.rounds.note_new_servers()
        self.server_kinds.add_server(server)
        server.capacity = self.counting.of_server(server.given)
        server.free = server.capacity[:]
        self.count_server(server, 1)
        self.recount()
        self.note_outside_change()
        self.note_undo(partial(self.leave, server))

    def leave(self, server: Server) -> None:
        """Remove a draining server without tasks from the tables."""
        if self.reserved:
            self.reserved = [
                planned
                for planned in self.reserved
                if server not in [task.server for task in planned.plan]
            ]
        self.rounds.remove_server(server.name)
        self.count_server(server, -1)
        self.server_kinds.remove_server(server)
        del self.servers[server.name]
        self.recount()
        self.note_outside_change()
        self.note_undo(partial(self.join, server))

    def change(self, server: Server, given: list[int], labels: Labels) -> None:
        """Change the capacity and labels of a server; its tasks continue."""
        self.note_undo(partial(self.undo_change, server, server.given, server.labels))
        self.leave_indexes(server)
        had_spared = self.server_kinds.has_spared(server)
        server.given = given
        server.capacity = self.counting.of_server(given)
        server.free = server.capacity[:]
        for task in self.running_on(server):
            restore_columns(server, task.devices)
            take_from(server.free, task.shape, task.devices, 1)
        server.labels = labels
        self.enter_indexes(server)
        self.update_kept_off()
        if had_spared and not self.server_kinds.has_spared(server):
            self.free_up(server)  # it admits other tasks now
        self.recount_quotas()  # other quotas may be on it now
        self.recount()
        self.note_outside_change()

    def undo_change(self, server: Server, given: list[int], labels: Labels) -> None:
        self.change(server, given, labels)
        self.free_up(server)

    def recount(self) -> None:
        """Recount all amounts if their units changed, such as slots of another largest server."""
        if not self.counting.recount(self.servers.values()):
            return
        self.unpark_all()
        for server in self.servers.values():
            self.leave_indexes(server)
        for shape in self.shapes.values():
            shape.count_as(self.counting.of_task(shape.given))
        for server in self.servers.values():
            server.capacity = self.counting.of_server(server.given)
            server.free = server.capacity[:]
        for queue in self.queues.values():
            queue.held = zeros(self.width)
        for task in self.running.values():
            take_from(task.server.free, task.shape, task.devices, 1)
            self.criterion.count_task(task, 1)
        for server in self.servers.values():
            self.enter_indexes(server)
            self.free_up(server)

    def leave_indexes(self, server: Server) -> None:
        """Remove a server from all indexes, before its amounts or its kind change."""
        if not server.is_draining:
            self.selection.close(server)
        self.count_server(server, -1)
        self.server_kinds.remove_server(server)

    def enter_indexes(self, server: Server) -> None:
        """Enter a server in all indexes; the inverse of `leave_indexes`."""
        self.server_kinds.add_server(server)
        self.count_server(server, 1)
        if not server.is_draining:
            self.selection.open(server)

    def count_server(self, server: Server, sign: i64) -> None:
        """Count a server that joins (1) or leaves (-1)."""
        self.criterion.count_server(server, sign)
        self.is_stale = True

    def open(self, server: Server) -> None:
        """Let tasks start on a draining server."""
        server.is_draining = False
        self.selection.open(server)
        self.update_kept_off()
        self.criterion.version += 1
        self.note_outside_change()
        self.free_up(server)
        self.note_undo(partial(self.close, server))

    def close(self, server: Server) -> None:
        """Drain a server: no more tasks start on it."""
        server.is_draining = True
        self.selection.close(server)
        self.update_kept_off()
        self.criterion.version += 1
        self.note_outside_change()
        self.note_undo(partial(self.open, server))

    def update_kept_off(self) -> None:
        """Decide again for which constraints tasks are kept off servers with the spared resource.

        A task is kept off as long as another open server is large enough for it. O(shapes and
        servers) where a resource is spared.
        """
        if self.server_kinds.spared >= 0:
            for constraint in list(self.server_kinds.constraints.values()):
                if constraint.demand:
                    self.update_kept_off_for(constraint)

    def update_kept_off_for(self, constraint: Constraint) -> None:
        """Decide whether tasks of one constraint are kept off; update the servers concerned."""
        servers = list(self.servers.values())
        is_kept_off = self.server_kinds.may_go_elsewhere(constraint, servers)
        if is_kept_off == constraint.is_kept_off:
            return
        changed = [server for server in servers if self.server_kinds.has_spared(server)]
        for server in changed:
            self.leave_indexes(server)
        self.server_kinds.keep_off(constraint, is_kept_off)
        for server in changed:
            self.enter_indexes(server)
            self.free_up(server)

    # Parked waiting lists and gangs

    def free_up(self, server: Server) -> None:
        """Mark a server as freed: more is free or admitted, so waiting tasks are tried again."""
        self.rounds.free_up(server.name)
        if server.is_draining:
            return
        self.freed.add(server)
        if self.gangs_parked and not self.is_undoing:
            for gang in list(self.gangs_parked.values()):
                # If no task of a gang runs, all wait: then `parts` are their shapes.
                for shape in gang.parts if gang.tasks is None else gang.tasks_together():
                    if has_room(server, shape):
                        self.unpark_gang(gang)
                        break

    def unpark_all(self) -> None:
        """Unpark all waiting lists, when too many servers were freed to compare with each."""
        for queue in self.queues.values():
            for waiting_list in list(queue.parked):
                unpark(waiting_list)
                activate(waiting_list)
        self.freed.clear()

    def unpark_empty(self, waiting_list: WaitingList) -> None:
        """Unpark a list without waiting tasks, so that it is not compared with freed servers."""
        if waiting_list.row >= 0 and waiting_list.first() is None:
            unpark(waiting_list)

    def park_gang(self, gang: Gang) -> None:
        """Skip a gang until a server with room for one of its tasks is freed."""
        gang.is_parked = True
        gang.waiting_list.active_order = None
        self.gangs_parked[gang.id] = gang
        gang.waiting_list.queue.gangs_parked[gang.id] = gang
        self.note_undo(partial(self.unpark_gang, gang))

    def unpark_gang(self, gang: Gang) -> None:
        gang.is_parked = False
        del self.gangs_parked[gang.id]
        del gang.waiting_list.queue.gangs_parked[gang.id]
        activate(gang.waiting_list)
        self.note_undo(partial(self.park_gang, gang))

    # Tasks

    def start(
        self,
        group: TaskGroup,
        index: int,
        server: Server,
        since: float,
        devices: vec[i64] | None = None,
    ) -> Task:
        """Start a waiting task on a server, on some devices or else on the best-fitting ones."""
        started = group.take(index)
        task = Task(self.ids, group, index, server, started + 1, since)
        task.devices = choose_devices(task.shape, server.free) if devices is None else devices
        if self.criterion.predicts_runs and group.time_limit == UNLIMITED:
            runs = group.waiting_list.queue.last_runs
            if runs:
                task.predicted_end = since + sum(runs) / len(runs)
        self.ids += 1
        self.book(task, -1)
        if self.undo_steps is not None:  # checked first, because making a `partial` takes time
            self.undo_steps.append(partial(self.undo_start, task))
        return task

    def undo_start(self, task: Task) -> None:
        group = task.group
        if task.attempt > 1:
            group.put_back(task.index, task.attempt - 1)
        else:
            group.fresh -= 1
        self.unbook(task, 1)

    def stop(self, task: Task, waits_again: bool) -> None:
        """End a running task; if `waits_again`, it waits again unless its group is over."""
        group = task.group
        is_waiting = waits_again and not group.is_over
        if is_waiting:
            group.put_back(task.index, task.attempt)
            self.rounds.forget_declines(group.waiting_list.queue.name)
        if not task.is_stopping:  # the end of a victim follows from preemption itself
            self.note_outside_change()
        if self.criterion.predicts_runs and not waits_again:
            queue = group.waiting_list.queue
            run = max(self.now - task.since, 0.0)
            self.set_last_runs(queue, [*queue.last_runs[-1:], run])
        self.unbook(task, 1 if is_waiting else 0)
        if self.undo_steps is not None:
            self.undo_steps.append(partial(self.undo_stop, task, is_waiting))
        self.remove_if_ended(group)

    def undo_stop(self, task: Task, waits: bool) -> None:
        if waits:
            task.group.take(task.index)
        self.book(task, -1 if waits else 0)

    def set_last_runs(self, queue: Queue, runs: list[float]) -> None:
        self.note_undo(partial(self.set_last_runs, queue, queue.last_runs))
        queue.last_runs = runs

    def mark_stopping(self, task: Task) -> None:
        """Mark a running task as a victim of preemption, which holds its amounts until it stops."""
        task.is_stopping = True
        self.stopping[task.id] = task
        self.note_undo(partial(self.unmark_stopping, task))

    def unmark_stopping(self, task: Task) -> None:
        task.is_stopping = False
        del self.stopping[task.id]

    def book(self, task: Task, waiting: i64) -> None:
        """Enter a running task in all tables; add `waiting` (-1 or 0) to its queue's `waiting`."""
        group, server = task.group, task.server
        self.running[task.id] = task
        if task.is_stopping:
            self.stopping[task.id] = task
        task.is_running = True
        if self.criterion.keeps_ends and task.expected_end < UNLIMITED:
            end = (task.expected_end, task.id, task)
            insort(self.ends, end)
            insort(self.ends_on.setdefault(server.name, []), end)
        server.running += 1
        if group.tasks is None:
            group.tasks = {}
        group.tasks[task.id] = task
        self.take(server, task.shape, task.devices, 1)
        queue = group.waiting_list.queue
        self.count_tasks(queue, waiting, 1)
        self.criterion.count_task(task, 1)
        if self.number_of_quotas > 0:
            count_in_quotas(task, 1)
        if waiting < 0 and isinstance(group, Gang) and group.waiting > 0:
            self.activate_group(group)  # fewer tasks of the gang wait now, so they may fit
        self.rerank(queue)
        if queue.is_limited and self.criterion.ranks_groups:
            self.refresh_limited_leaves(queue, may_start=False)
        if group.waiting == 0:
            self.unpark_empty(group.waiting_list)

    def unbook(self, task: Task, waiting: i64) -> None:
        """Undo `book`: remove a task from all tables; add `waiting` (1 or 0) to its queue's."""
        group, server = task.group, task.server
        queue = group.waiting_list.queue
        del self.running[task.id]
        if task.is_stopping:
            del self.stopping[task.id]
        task.is_running = False
        if self.criterion.keeps_ends and task.expected_end < UNLIMITED:
            end = (task.expected_end, task.id, task)
            del self.ends[bisect_left(self.ends, end)]
            on_server = self.ends_on[server.name]
            del on_server[bisect_left(on_server, end)]
            if not on_server:
                del self.ends_on[server.name]
        server.running -= 1
        if group.tasks is not None:
            del group.tasks[task.id]
            if not group.tasks:
                group.tasks = None
        self.criterion.count_task(task, -1)
        if self.number_of_quotas > 0:
            count_in_quotas(task, -1)
        self.count_tasks(queue, waiting, -1)
        if waiting > 0:
            self.activate_group(group)
        self.rerank(queue)
        self.take(server, task.shape, task.devices, -1)
        self.free_up(server)
        if queue.is_limited:
            self.refresh_limited_leaves(queue, may_start=True)

    def take(self, server: Server, shape: Shape, devices: vec[i64], sign: i64) -> None:
        """Take a task's amounts from a server (1), or return them (-1)."""
        restore_columns(server, devices)
        take_from(server.free, shape, devices, sign)
        if not server.is_draining:
            self.selection.change(server)

    def count_failure(self, group: TaskGroup, index: int) -> int:
        """Count a failure of a task; return the number of its failures."""
        if group.failures is None:
            group.failures = {}
        group.failures[index] = group.failures.get(index, 0) + 1
        self.note_undo(partial(self.undo_failure, group, index))
        return group.failures[index]

    def undo_failure(self, group: TaskGroup, index: int) -> None:
        failures = group.failures
        assert failures is not None
        failures[index] -= 1
        if failures[index] == 0:
            del failures[index]

    def with_gangs(self, tasks: list[Task]) -> list[Task]:
        """Return running tasks and the rest of their gangs, in order of start."""
        found = {task.id: task for task in tasks}
        for task in tasks:
            if isinstance(task.group, Gang):
                found.update(task.group.tasks or {})
        return [found[id] for id in sorted(found)]

    def open_servers(self) -> list[Server]:
        return [server for server in self.servers.values() if not server.is_draining]

    def running_on(self, server: Server) -> list[Task]:
        if server.running == 0:
            return []
        return [task for task in self.running.values() if task.server is server]

    # Amounts

    def held_on(self, server: Server) -> list[int]:
        """Return (R,) the held amounts of a server, in quanta. Under slots O(running tasks)."""
        if self.width == self.counting.resources:  # the policy counts quanta
            return [int(server.capacity[r] - server.free[r]) for r in range(self.width)]
        held = [0] * int(self.counting.resources)
        for task in self.running_on(server):
            for r in range(self.counting.resources):
                held[r] += int(task.shape.given[r])
        return held

    def replace_in_sums(self, resources: list[str], before: list[int], after: list[int]) -> None:
        """Replace a server's amounts (R,) in the sums; raise InputError if a sum would overflow."""
        sums = [s - b + a for s, b, a in zip(self.amount_sums, before, after, strict=True)]
        if max(sums) > LARGEST:  # sums may be too high: tasks on overcommitted servers ended since
            recounted = self.recount_sums()
            sums = [s - b + a for s, b, a in zip(recounted, before, after, strict=True)]
        for name, amount in zip(resources, sums, strict=True):
            if amount > LARGEST:
                raise InputError("adds up to more than can be counted; give larger quanta", name)
        self.amount_sums = sums

    def recount_sums(self) -> list[int]:
        """Return (R,) the sum over servers of capacities, or of held amounts where larger.

        O(servers and running tasks).
        """
        held = self.held()
        sums = [0] * int(self.counting.resources)
        for server in self.servers.values():
            amounts = larger(server.given, held[server.name])
            sums = [s + a for s, a in zip(sums, amounts, strict=True)]
        return sums

    def held(self) -> dict[str, list[int]]:
        """Return (R,) the held amounts of each server. O(servers and running tasks)."""
        held = {name: [0] * int(self.counting.resources) for name in self.servers}
        for task in self.running.values():
            held_there = held[task.server.name]
            for r in range(self.counting.resources):
                held_there[r] += int(task.shape.given[r])
        return held

    # Groups

    def submit(
        self,
        queue: Queue,
        members: list[Member],
        is_gang: bool,
        terms: Terms,
        order: Order | None = None,
    ) -> TaskGroup:
        """Add a group, ordered by its priority, time and id, or by a given order."""
        shapes = self.find_shapes(members)
        parts = [(shape, member.tasks) for shape, member in zip(shapes, members, strict=True)]
        is_gang = is_gang and sum([member.tasks for member in members]) > 1
        group = self.make_group(self.ids, queue, parts, is_gang, terms)
        if order is not None:
            group.order = order
        self.ids += 1
        self.add_group(group)
        return group

    def submit_tasks(
        self, queue: str, demand: list[int], tasks: int, groups: frozenset[str]
    ) -> None:
        """Add equal tasks at time 0 that may run on some groups of servers."""
        member = Member(demand, tasks, (frozenset(), groups))
        self.submit(self.queues[queue], [member], False, Terms(0.0))

    def find_shapes(self, members: list[Member]) -> list[Shape]:
        """Return the shape of each member; `add_to_tables` enters new ones."""
        constraints: dict[TableKey, Constraint] = {}
        shapes: dict[tuple[tuple[int, ...], Constraint], Shape] = {}
        found: list[Shape] = []
        for member in members:
            table_key = self.server_kinds.key_of(member.where, member.demand)
            constraint = constraints.get(table_key)
            if constraint is None:
                constraint = self.server_kinds.find_constraint(table_key)
                constraints[table_key] = constraint
            key = (tuple(member.demand), constraint)
            shape = shapes.get(key) or self.shapes.get(key)
            if shape is None:
                given = vec[i64](member.demand)
                counting = self.counting
                shape = Shape(given, counting.of_task(given), constraint, counting.devices)
            shapes[key] = shape
            found.append(shape)
        return found

    def make_group(
        self, id: int, queue: Queue, parts: list[tuple[Shape, int]], is_gang: bool, terms: Terms
    ) -> TaskGroup:
        """Make a gang from numbers of tasks by shape, or a group from one; do not add it."""
        if is_gang:
            ends = list(accumulate([tasks for _, tasks in parts]))
            return Gang(id, WaitingList(queue, None), [shape for shape, _ in parts], ends, terms)
        shape, tasks = parts[0]
        key = (shape, terms.time_limit if self.criterion.splits_by_limit else UNLIMITED)
        waiting_list = queue.waiting_lists.get(key) or WaitingList(queue, key)
        return TaskGroup(id, waiting_list, shape, tasks, terms)

    def add_group(self, group: TaskGroup) -> None:
        """Add a group without running tasks."""
        self.add_to_tables(group)
        self.note_outside_change()
        queue = group.waiting_list.queue
        self.rounds.forget_declines(queue.name)
        self.count_tasks(queue, group.waiting, 0)
        self.activate_group(group)
        self.rerank(queue)
        self.note_undo(partial(self.withdraw, group))

    def activate_group(self, group: TaskGroup) -> None:
        """Add a group to its waiting list, and activate the list unless it is parked."""
        waiting_list = group.waiting_list
        waiting_list.add(group)
        if waiting_list.row < 0:
            activate(waiting_list)

    def withdraw(self, group: TaskGroup) -> None:
        """Drop the waiting tasks of a group, and the group if none of its tasks runs."""
        self.drop(group)
        self.remove_if_ended(group)

    def add_to_tables(self, group: TaskGroup) -> None:
        """Enter a group, and new shapes and constraints of it, in the tables."""
        self.groups[group.id] = group
        waiting_list = group.waiting_list
        waiting_list.groups += 1
        count_priority(waiting_list.queue, group.priority, 1)
        if waiting_list.key is not None:
            waiting_list.queue.waiting_lists[waiting_list.key] = waiting_list
        for shape in group.shapes():
            shape.groups += 1
            if shape.groups == 1:
                self.shapes[shape.key] = shape
                self.add_constraint(shape.constraint)

    def remove_if_ended(self, group: TaskGroup) -> None:
        """Remove a group without waiting and running tasks from the tables."""
        if group.waiting > 0 or group.tasks is not None:
            return
        del self.groups[group.id]
        if self.reserved:
            self.reserved = [planned for planned in self.reserved if planned.group is not group]
        waiting_list = group.waiting_list
        waiting_list.groups -= 1
        count_priority(waiting_list.queue, group.priority, -1)
        if waiting_list.groups == 0:
            waiting_list.active_order = None
            if waiting_list.key is not None:
                del waiting_list.queue.waiting_lists[waiting_list.key]
        for shape in group.shapes():
            shape.groups -= 1
            if shape.groups == 0:
                del self.shapes[shape.key]
                self.server_kinds.remove_constraint(shape.constraint)
        self.note_undo(partial(self.add_to_tables, group))

    def add_constraint(self, constraint: Constraint) -> None:
        """Count a use of a constraint; a new one may change the kinds of servers that it names."""
        is_new = self.server_kinds.add_constraint(constraint)
        if is_new and constraint.names is not None:
            for server in self.servers.values():
                if server.name in constraint.names or server.group in constraint.names:
                    self.leave_indexes(server)
                    self.enter_indexes(server)
        if is_new and constraint.demand:
            self.update_kept_off_for(constraint)

    def set_priority(self, group: TaskGroup, priority: int) -> None:
        """Change the priority of a group, and so its position in its queue."""
        self.note_undo(partial(self.set_priority, group, group.priority))
        queue = group.waiting_list.queue
        count_priority(queue, group.priority, -1)
        count_priority(queue, priority, 1)
        group.priority = priority
        group.order = (-priority, group.time, group.id)
        group.is_listed = False  # its entry in the heap is stale now
        self.note_outside_change()
        self.activate_group(group)
        self.rerank(queue)

    def drop(self, group: TaskGroup) -> None:
        """Drop the waiting tasks of a group; its running ones will not wait again."""
        if isinstance(group, Gang) and group.is_parked:
            self.unpark_gang(group)
        self.note_outside_change()
        end = int(group.end)
        self.note_undo(
            partial(self.undo_drop, group, end, group.returned, group.starts, group.is_over)
        )
        queue = group.waiting_list.queue
        self.count_tasks(queue, -group.waiting, 0)
        group.drop()
        self.rerank(queue)
        self.unpark_empty(group.waiting_list)

    def undo_drop(
        self,
        group: TaskGroup,
        end: int,
        returned: list[int] | None,
        starts: dict[int, int] | None,
        is_over: bool,
    ) -> None:
        group.end = end
        group.returned = returned
        group.starts = starts
        group.is_over = is_over
        queue = group.waiting_list.queue
        self.count_tasks(queue, group.waiting, 0)
        self.activate_group(group)
        self.rerank(queue)

    # Queues

    def make_queue(self, name: str, weight: tuple[int, int], parent: Queue | None = None) -> None:
        """Make a queue and add it, below the root by default."""
        self.add_queue(Queue(name, self.added, weight, parent or self.root, self.width))
        self.added += 1

    def add_queue(self, queue: Queue) -> None:
        self.queues[queue.name] = queue
        self.note_outside_change()
        if queue.parent is not None:
            queue.parent.children += 1
        self.note_undo(partial(self.remove_queue, queue))

    def remove_queue(self, queue: Queue) -> None:
        """Remove a queue without tasks or queues below it."""
        if queue.quotas:
            self.set_quotas(queue, [])
        del self.queues[queue.name]
        self.rounds.remove_queue(queue.name)
        self.note_outside_change()
        if queue.parent is not None:
            queue.parent.children -= 1
        self.note_undo(partial(self.add_queue, queue))

    def set_weight(self, queue: Queue, weight: tuple[int, int]) -> None:
        self.note_undo(partial(self.set_weight, queue, queue.weight))
        queue.weight = weight
        queue.score = self.criterion.score(queue)
        self.note_outside_change()
        self.rerank(queue)

    # Limits and quotas

    def limit_queue(self, name: str, amounts: list[int], tasks: int) -> None:
        """Limit amounts (R,) and running tasks of a queue; a negative number means no limit."""
        rows = [NO_LIMIT if amount < 0 else min(amount, NO_LIMIT) for amount in amounts]
        is_limited = tasks >= 0 or any(amount >= 0 for amount in amounts)
        limit = Limit(rows, NO_LIMIT if tasks < 0 else tasks) if is_limited else None
        self.set_limit(self.queues[name], limit)

    def set_limit(self, queue: Queue, limit: Limit | None) -> None:
        """Replace the limit of a queue, and update the queues below it."""
        self.note_undo(partial(self.set_limit, queue, queue.limit))
        queue.limit = limit
        self.note_outside_change()
        for below in self.queues_below(queue):
            below.is_limited = any(above.limit is not None for above in path_of(below))
        self.refresh_leaves(queue, may_start=True)

    def guarantee(self, queue: Queue, key: ConstraintKey, amounts: list[int] | None) -> None:
        """Replace the quota of a queue on the servers of a constraint; None removes it."""
        keys = [quota.constraint.key for quota in queue.quotas]
        at = keys.index(key) if key in keys else len(keys)
        quotas = queue.quotas[:]
        quotas[at : at + 1] = [] if amounts is None else [self.make_quota(key, amounts)]
        self.set_quotas(queue, quotas)

    def add_quota(self, queue: Queue, key: ConstraintKey, amounts: list[int]) -> None:
        """Add a quota, also if the queue has one on the servers of the same constraint."""
        self.set_quotas(queue, [*queue.quotas, self.make_quota(key, amounts)])

    def make_quota(self, key: ConstraintKey, amounts: list[int]) -> Quota:
        return Quota(self.server_kinds.find_constraint((key, ())), amounts)

    def set_quotas(self, queue: Queue, quotas: list[Quota]) -> None:
        """Replace all quotas of a queue."""
        self.note_undo(partial(self.set_quotas, queue, queue.quotas))
        for quota in quotas:
            self.add_constraint(quota.constraint)
        for quota in queue.quotas:
            self.server_kinds.remove_constraint(quota.constraint)
        self.number_of_quotas += len(quotas) - len(queue.quotas)
        queue.quotas = quotas
        self.note_outside_change()
        self.recount_quotas()

    def has_quotas_on_some(self) -> bool:
        """Return whether a quota is restricted to some servers."""
        for queue in self.queues.values():
            for quota in queue.quotas:
                if quota.constraint.labels or quota.constraint.names is not None:
                    return True
        return False

    def recount_quotas(self) -> None:
        """Recount the held amounts of each quota. O(queues and running tasks)."""
        if self.number_of_quotas == 0:
            return
        for queue in self.queues.values():
            for quota in queue.quotas:
                quota.held = zeros(self.width)
        for task in self.running.values():
            count_in_quotas(task, 1)

    def refresh_limited_leaves(self, queue: Queue, *, may_start: bool) -> None:
        """Refresh the leaves below the highest queue with a limit on the path to a queue."""
        limited = [node for node in path_of(queue) if node.limit is not None]
        if limited:
            self.refresh_leaves(limited[0], may_start=may_start)

    def queues_below(self, queue: Queue) -> list[Queue]:
        """Return a queue and those below it."""
        if not queue.children:
            return [queue]
        return [below for below in self.queues.values() if queue in path_of(below)]

    def refresh_leaves(self, queue: Queue, *, may_start: bool) -> None:
        """Re-rank the leaves below a queue: limits may now allow other groups to be first.

        If `may_start`, tasks that were held back may be within a limit again.
        """
        for leaf in self.queues_below(queue):
            if not leaf.children and leaf.waiting > 0:
                if may_start and leaf.held_back:
                    leaf.may_resume = True
                if self.criterion.ranks_groups:
                    self.rerank(leaf)

    # Ranks

    def count_tasks(self, queue: Queue, waiting: i64, running: i64) -> None:
        """Add to the numbers of waiting and running tasks of a queue and its ancestors."""
        node: Queue | None = queue
        while node is not None:
            node.waiting += waiting
            node.running += running
            node = node.parent

    def rerank(self, queue: Queue) -> None:
        """Re-rank a queue and its ancestors by score; queues without waiting tasks are unranked."""
        node = queue
        while node.parent is not None:
            self.rerank_one(node, node.parent)
            node = node.parent

    def rerank_one(self, queue: Queue, parent: Queue) -> None:
        """Move a queue to its rank among the children of its parent."""
        before, ranks = queue.rank, parent.ranks
        rank: Rank | None = None
        if queue.waiting > 0:
            serial = -queue.serial if self.later_wins_ties else queue.serial
            rank = self.criterion.rank(queue, serial)
            if rank == before:
                return
        at = 0
        if before is not None:
            at = int(parent.passed)  # usually the position of this queue, as it is being served
            if at >= len(ranks) or ranks[at] is not before:
                at = bisect_left(ranks, before)
            del ranks[at]
            del parent.ranked[at]
        if rank is not None:
            at = bisect_left(ranks, rank, at if before is not None and before < rank else 0)
            ranks.insert(at, rank)
            parent.ranked.insert(at, queue)
        queue.rank = rank

    def rerank_all(self) -> None:
        """Recompute all scores and ranks for the present servers and time."""
        self.is_stale = False
        self.criterion.forget_shares(self.shapes.values())
        self.root.ranks = []
        self.root.ranked = []
        for queue in self.queues.values():
            queue.ranks = []
            queue.ranked = []
            queue.rank = None
            queue.score = self.criterion.score(queue)
        # Children before their parents, as a queue is added after its parent.
        for queue in sorted_by_serial(self.queues.values(), is_last_first=True):
            if queue.parent is not None:
                self.rerank_one(queue, queue.parent)


def count_in_quotas(task: Task, sign: i64) -> None:
    """Count a task that starts (1) or ends (-1) in the quotas of its queue and of those above."""
    for node in path_of(task.group.waiting_list.queue):
        for quota in node.quotas:
            if quota.is_on(task.server):
                add_to(quota.held, task.shape.demand, sign)


@contextmanager
def what_if(state: State) -> Iterator[None]:
    """Undo all events of a ``with`` block at its end; blocks may be nested."""
    outer_steps = state.undo_steps
    steps: list[partial[None]] = []
    state.undo_steps = steps
    # Restored as a whole.
    now, ids, joined, added = state.now, state.ids, state.joined, state.added
    first_new_id, reserved = state.first_new_id, state.reserved
    amount_sums, rounds = state.amount_sums, state.rounds.save()
    queues = list(state.queues.values()) if state.criterion.half_life > 0.0 else []
    past_uses = [(queue, queue.past_use, queue.past_use_at) for queue in queues]
    try:
        yield
    finally:
        state.undo_steps = None
        state.is_undoing = True
        for step in reversed(steps):
            step()
        state.is_undoing = False
        for queue, past_use, at in past_uses:
            state.set_past_use(queue, past_use, at)
        state.set_time(now)
        state.ids, state.joined, state.added = ids, joined, added
        state.first_new_id, state.reserved, state.amount_sums = first_new_id, reserved, amount_sums
        state.rounds.restore(rounds)
        state.undo_steps = outer_steps


def end_of(entry: ExpectedEnd) -> float:
    return entry[0]


def count_priority(queue: Queue, priority: int, sign: int) -> None:
    """Count a group that is added to a queue (1) or removed from it (-1) under its priority."""
    groups = queue.priorities.get(priority, 0) + sign
    if groups:
        queue.priorities[priority] = groups
    else:
        del queue.priorities[priority]

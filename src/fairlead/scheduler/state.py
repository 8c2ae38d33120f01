"""What a scheduler knows, and the changes that keep it consistent.

Every change has an inverse made of the same changes: a task that starts is stopped, a server that
joins leaves. What is derived (indexes, turns, parked lines) follows from the changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import partial
from itertools import accumulate

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.errors import InputError
from fairlead.scheduler.arguments import LARGEST
from fairlead.scheduler.counting import Counting
from fairlead.scheduler.criteria.criterion import Criterion
from fairlead.scheduler.places import Places
from fairlead.scheduler.rounds import Rounds
from fairlead.scheduler.selection.selection import Selection
from fairlead.scheduler.tables import (
    UNLIMITED,
    Gang,
    Labels,
    Line,
    Member,
    Order,
    Place,
    PlaceKey,
    Queue,
    Server,
    Shape,
    Task,
    TaskGroup,
    Turn,
    add_to,
    has_room,
    larger,
    zeros,
)
from fairlead.scheduler.waiting import Freed, stand, unpark


class State:
    """Servers, queues, groups and tasks that are there."""

    counting: Counting
    width: i64  # the number of amounts that the policy counts
    criterion: Criterion
    selection: Selection
    is_last_of_equals: bool  # the later of two queues with equal scores goes first
    root: Queue
    servers: dict[str, Server]
    queues: dict[str, Queue]
    groups: dict[int, TaskGroup]
    running: dict[int, Task]
    shapes: dict[tuple[tuple[int, ...], Place], Shape]
    places: Places
    gangs_parked: dict[int, Gang]  # all of them, by id
    freed: Freed
    rounds: Rounds  # what round-robin and offers keep between calls of `place`
    # The inverse of each event of a question, in the order of the events; None outside of one.
    steps: list[partial[None]] | None = None
    is_undoing: bool = False  # events are taken back just now: parked gangs stay parked then
    is_stale: bool = False  # scores are those of other servers
    now: float = 0.0  # the time of the last call of `place`, in seconds
    calls: i64 = 0  # of `place`
    ids: int = 0  # groups and tasks so far
    joined: int = 0  # servers so far
    added: int = 0  # queues so far
    used: list[int]  # (R,) at least what all servers have, or hold where that is more

    def __init__(
        self,
        counting: Counting,
        criterion: Criterion,
        selection: Selection,
        is_last_of_equals: bool,
        rounds: Rounds,
    ) -> None:
        width = counting.width
        self.counting = counting
        self.width = width
        self.criterion = criterion
        self.selection = selection
        self.is_last_of_equals = is_last_of_equals
        self.root = Queue("", -1, (1, 1), None, width)
        self.servers = {}
        self.queues = {}
        self.groups = {}
        self.running = {}
        self.shapes = {}
        self.places = Places()
        self.gangs_parked = {}
        self.freed = Freed(width)
        self.rounds = rounds
        self.used = [0] * int(counting.resources)

    # Servers

    def add_server(self, order: int, given: list[int], group: str) -> Server:
        """Add a drained server that is named by its order; conditions may name its group."""
        server = Server(str(order), order, self.joined, given, frozenset(), group)
        self.joined += 1
        self.join(server)
        return server

    def join(self, server: Server) -> None:
        """Add a drained server."""
        self.servers[server.name] = server
        self.rounds.add_server()
        self.places.enter(server)
        server.capacity = self.counting.of_server(server.given)
        server.free = server.capacity[:]
        self.count(server, 1)
        self.cut()
        if self.steps is not None:
            self.steps.append(partial(self.leave, server))

    def leave(self, server: Server) -> None:
        """Remove a drained server on which nothing runs."""
        self.rounds.remove_server(server.name)
        self.count(server, -1)
        self.places.exit(server)
        del self.servers[server.name]
        self.cut()
        if self.steps is not None:
            self.steps.append(partial(self.join, server))

    def change(self, server: Server, given: list[int], labels: Labels) -> None:
        """Give a server another capacity and other labels; its tasks go on."""
        if self.steps is not None:
            self.steps.append(partial(self.change_back, server, server.given, server.labels))
        self.leave_indexes(server)
        server.given = given
        server.capacity = self.counting.of_server(given)
        server.free = server.capacity[:]
        for task in self.running_on(server):
            add_to(server.free, task.shape.demand, -1)
        server.labels = labels
        self.enter_indexes(server)
        self.cut()

    def change_back(self, server: Server, given: list[int], labels: Labels) -> None:
        """Undo a change of a server."""
        self.change(server, given, labels)
        self.free_up(server)

    def cut(self) -> None:
        """Count everything anew if that has to be, as slots are others after servers changed."""
        if not self.counting.cut(self.servers.values()):
            return
        self.search_again()
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
            add_to(task.server.free, task.shape.demand, -1)
            self.criterion.count_task(task, 1)
        for server in self.servers.values():
            self.enter_indexes(server)
            self.free_up(server)

    def leave_indexes(self, server: Server) -> None:
        """Take a server out of all indexes, before its amounts or its kind change."""
        if not server.is_draining:
            self.selection.close(server)
        self.count(server, -1)
        self.places.exit(server)

    def enter_indexes(self, server: Server) -> None:
        """Put a server back into all indexes."""
        self.places.enter(server)
        self.count(server, 1)
        if not server.is_draining:
            self.selection.open(server)

    def count(self, server: Server, sign: i64) -> None:
        """Count a server that is there (1) or not any more (-1)."""
        self.criterion.count_server(server, sign)
        self.is_stale = True

    def open(self, server: Server) -> None:
        """Open a server for new tasks."""
        server.is_draining = False
        self.selection.open(server)
        self.free_up(server)
        if self.steps is not None:
            self.steps.append(partial(self.close, server))

    def close(self, server: Server) -> None:
        """Close a server to new tasks."""
        server.is_draining = True
        self.selection.close(server)
        if self.steps is not None:
            self.steps.append(partial(self.open, server))

    def free_up(self, server: Server) -> None:
        """Note that a server has more free, or admits other tasks."""
        self.rounds.free_up(server.name)
        if server.is_draining:
            return
        self.freed.add(server)
        if self.gangs_parked and not self.is_undoing:
            for gang in list(self.gangs_parked.values()):
                for shape in gang.parts if gang.tasks is None else gang.tasks_together():
                    if has_room(server, shape):
                        self.unpark_gang(gang)
                        break

    def search_again(self) -> None:
        """Unpark all lines, as too many servers were freed to compare them with each."""
        for queue in self.queues.values():
            for line in list(queue.parked):
                unpark(line)
                stand(line)
        self.freed.clear()

    def park_gang(self, gang: Gang) -> None:
        """Pass a gang over until a server is freed that has room for one of its tasks."""
        gang.is_parked = True
        gang.line.stands = None
        self.gangs_parked[gang.id] = gang
        gang.line.queue.gangs_parked[gang.id] = gang
        if self.steps is not None:
            self.steps.append(partial(self.unpark_gang, gang))

    def unpark_gang(self, gang: Gang) -> None:
        """Unpark a gang, so that it is tried again."""
        gang.is_parked = False
        del self.gangs_parked[gang.id]
        del gang.line.queue.gangs_parked[gang.id]
        stand(gang.line)
        if self.steps is not None:
            self.steps.append(partial(self.park_gang, gang))

    # Amounts

    def take(self, server: Server, shape: Shape, sign: i64) -> None:
        """Take a task's amounts from a server (1), or give them back (-1)."""
        add_to(server.free, shape.demand, -sign)
        if not server.is_draining:
            self.selection.change(server)

    # Tasks

    def start(self, group: TaskGroup, index: int, server: Server, since: float) -> Task:
        """Start a waiting task on a server."""
        was_returned = group.returned is not None and index in group.returned
        started = group.take(index)
        task = Task(self.ids, group, index, server, started + 1, since)
        self.ids += 1
        self.book(task, -1)
        if self.steps is not None:
            self.steps.append(partial(self.take_back, task, was_returned))
        return task

    def stop(self, task: Task, waits_again: bool) -> None:
        """End a running task, which may wait again unless its group is over."""
        group = task.group
        is_waiting = waits_again and not group.is_over
        if is_waiting:
            group.put_back(task.index, task.attempt)
            self.rounds.revive(group.line.queue.name)
        self.unbook(task, 1 if is_waiting else 0)
        if self.steps is not None:
            self.steps.append(partial(self.run_again, task, is_waiting))
        self.forget_ended(group)

    def take_back(self, task: Task, was_returned: bool) -> None:
        """Undo a start: the task waits as before."""
        group = task.group
        if was_returned:
            group.put_back(task.index, task.attempt - 1)
        else:
            group.fresh -= 1
        self.unbook(task, 1)

    def run_again(self, task: Task, waits: bool) -> None:
        """Undo a stop: the task runs as before."""
        if waits:
            task.group.take(task.index)
        self.book(task, -1 if waits else 0)

    def book(self, task: Task, waiting: i64) -> None:
        """Give a task its amounts, and count `waiting` more waiting tasks of its group."""
        group, server = task.group, task.server
        self.running[task.id] = task
        task.is_running = True
        server.running += 1
        if group.tasks is None:
            group.tasks = {}
        group.tasks[task.id] = task
        self.take(server, task.shape, 1)
        queue = group.line.queue
        self.count_tasks(queue, waiting, 1)
        self.criterion.count_task(task, 1)
        if waiting < 0 and isinstance(group, Gang) and group.waiting > 0:
            self.enlist(group)  # with less to place it may have room
        self.rank(queue)
        if group.waiting == 0:
            self.empty(group.line)

    def unbook(self, task: Task, waiting: i64) -> None:
        """Take a task's amounts back, and count `waiting` more waiting tasks of its group."""
        group, server = task.group, task.server
        queue = group.line.queue
        del self.running[task.id]
        task.is_running = False
        server.running -= 1
        if group.tasks is not None:
            del group.tasks[task.id]
            if not group.tasks:
                group.tasks = None
        self.criterion.count_task(task, -1)
        self.count_tasks(queue, waiting, -1)
        if waiting > 0:
            self.enlist(group)
        self.rank(queue)
        self.take(server, task.shape, -1)
        self.free_up(server)

    def fail(self, group: TaskGroup, index: int) -> int:
        """Count a failure of a task, or of a gang; return how many there are."""
        if group.failures is None:
            group.failures = {}
        group.failures[index] = group.failures.get(index, 0) + 1
        if self.steps is not None:
            self.steps.append(partial(forgive, group, index))
        return group.failures[index]

    def held_on(self, server: Server) -> list[int]:
        """Return what tasks take of a server, as it was given. O(running tasks)."""
        held = [0] * int(self.counting.resources)
        for task in self.running_on(server):
            for r in range(self.counting.resources):
                held[r] += int(task.shape.given[r])
        return held

    def use(self, resources: list[str], before: list[int], after: list[int]) -> None:
        """Count capacity of all servers, or what is held on them if that is more.

        Raises
        ------
        InputError
            When it is more than can be counted; nothing changes then.
        """
        used = [u - b + a for u, b, a in zip(self.used, before, after, strict=True)]
        if max(used) > LARGEST:  # tasks on overcommitted servers may have ended since
            used = [u - b + a for u, b, a in zip(self.count_used(), before, after, strict=True)]
        for name, amount in zip(resources, used, strict=True):
            if amount > LARGEST:
                raise InputError("adds up to more than can be counted; give larger quanta", name)
        self.used = used

    def count_used(self) -> list[int]:
        """Return what all servers have, or hold if that is more. O(servers and running tasks)."""
        held = {name: [0] * int(self.counting.resources) for name in self.servers}
        for task in self.running.values():
            on = held[task.server.name]
            for r in range(self.counting.resources):
                on[r] += int(task.shape.given[r])
        used = [0] * int(self.counting.resources)
        for server in self.servers.values():
            most = larger(server.given, held[server.name])
            used = [u + m for u, m in zip(used, most, strict=True)]
        return used

    def with_gangs(self, tasks: list[Task]) -> list[Task]:
        """Return running tasks and the rest of their gangs, in the order of their starts."""
        found = {task.id: task for task in tasks}
        for task in tasks:
            if isinstance(task.group, Gang):
                found.update(task.group.tasks or {})
        return [found[id] for id in sorted(found)]

    def running_on(self, server: Server) -> list[Task]:
        """Return the tasks that run on a server. O(running tasks)."""
        if server.running == 0:
            return []
        return [task for task in self.running.values() if task.server is server]

    # Groups

    def submit(
        self,
        queue: Queue,
        members: list[Member],
        is_gang: bool,
        priority: int,
        time: float,
        attempts: int | None,
        limit: float,
        order: Order | None = None,
    ) -> TaskGroup:
        """Add a group, in the order by its priority, time and id, or in the place of another."""
        shapes = self.find_shapes(members)
        parts = [(shape, member.tasks) for shape, member in zip(shapes, members, strict=True)]
        is_gang = is_gang and sum([member.tasks for member in members]) > 1
        group = self.make_group(self.ids, queue, parts, is_gang, priority, time, attempts, limit)
        if order is not None:
            group.order = order
        self.ids += 1
        self.wait(group)
        return group

    def make_group(
        self,
        id: int,
        queue: Queue,
        parts: list[tuple[Shape, int]],
        is_gang: bool,
        priority: int,
        time: float,
        attempts: int | None,
        limit: float,
    ) -> TaskGroup:
        """Return a group, or a gang, of some tasks of each shape, which no table knows yet."""
        if is_gang:
            shapes = [shape for shape, _ in parts]
            ends = list(accumulate([tasks for _, tasks in parts]))
            return Gang(id, Line(queue, None), shapes, ends, priority, time, attempts, limit)
        shape, tasks = parts[0]
        key = (shape, limit if self.criterion.splits_by_limit else UNLIMITED)
        line = queue.lines.get(key) or Line(queue, key)
        return TaskGroup(id, line, shape, priority, time, tasks, attempts, limit)

    def wait(self, group: TaskGroup) -> None:
        """Add a group, all of whose tasks wait."""
        self.remember(group)
        queue = group.line.queue
        self.rounds.revive(queue.name)
        self.count_tasks(queue, group.waiting, 0)
        self.enlist(group)
        self.rank(queue)
        if self.steps is not None:
            self.steps.append(partial(self.withdraw, group))

    def withdraw(self, group: TaskGroup) -> None:
        """Drop the waiting tasks of a group, and the group if none of its tasks runs."""
        self.drop(group)
        self.forget_ended(group)

    def remember(self, group: TaskGroup) -> None:
        """Add a group to the tables."""
        self.groups[group.id] = group
        line = group.line
        line.groups += 1
        count_priority(line.queue, group.priority, 1)
        if line.key is not None:
            line.queue.lines[line.key] = line
        for shape in group.shapes():
            shape.groups += 1
            if shape.groups == 1:
                self.shapes[shape.key] = shape
                self.admit(shape.place)

    def admit(self, place: Place) -> None:
        """Count a shape of a condition; a new one may change the kinds of servers it names."""
        if not self.places.remember(place):
            return
        if place.names is None:
            return
        for server in self.servers.values():
            if server.name in place.names or server.group in place.names:
                self.leave_indexes(server)
                self.enter_indexes(server)

    def find_shapes(self, members: list[Member]) -> list[Shape]:
        """Return the shapes of the members of a group; new ones are known once a group has them."""
        places: dict[PlaceKey, Place] = {}
        shapes: dict[tuple[tuple[int, ...], Place], Shape] = {}
        found: list[Shape] = []
        for member in members:
            place = places.get(member.where)
            if place is None:
                place = self.places.find(member.where)
                places[member.where] = place
            key = (tuple(member.demand), place)
            shape = shapes.get(key)
            if shape is None:
                shape = self.shapes.get(key)
                if shape is None:
                    given = vec[i64](member.demand)
                    shape = Shape(given, self.counting.of_task(given), place)
                shapes[key] = shape
            found.append(shape)
        return found

    def enlist(self, group: TaskGroup) -> None:
        """Insert a group with waiting tasks into its queue."""
        line = group.line
        line.add(group)
        if line.row < 0:
            stand(line)

    def set_priority(self, group: TaskGroup, priority: int) -> None:
        """Give a group another priority, and so another place in its queue."""
        if self.steps is not None:
            self.steps.append(partial(self.set_priority, group, group.priority))
        count_priority(group.line.queue, group.priority, -1)
        count_priority(group.line.queue, priority, 1)
        group.priority = priority
        group.order = (-priority, group.time, group.id)
        group.is_listed = False
        self.enlist(group)
        self.rank(group.line.queue)

    def drop(self, group: TaskGroup) -> None:
        """Give up the waiting tasks of a group."""
        if isinstance(group, Gang) and group.is_parked:
            self.unpark_gang(group)
        if self.steps is not None:
            self.steps.append(
                partial(
                    self.pick_up, group, int(group.end), group.returned, group.starts, group.is_over
                )
            )
        queue = group.line.queue
        self.count_tasks(queue, -group.waiting, 0)
        group.drop()
        self.rank(queue)
        self.empty(group.line)

    def pick_up(
        self,
        group: TaskGroup,
        end: int,
        returned: list[int] | None,
        starts: dict[int, int] | None,
        is_over: bool,
    ) -> None:
        """Undo a drop: those tasks wait as before."""
        group.end = end
        group.returned = returned
        group.starts = starts
        group.is_over = is_over
        queue = group.line.queue
        self.count_tasks(queue, group.waiting, 0)
        self.enlist(group)
        self.rank(queue)

    def empty(self, line: Line) -> None:
        """Unpark a line as soon as nothing waits in it; freed servers pass it over."""
        if line.row >= 0 and line.first() is None:
            unpark(line)

    def forget_ended(self, group: TaskGroup) -> None:
        """Remove a group of which nothing waits or runs."""
        if group.waiting > 0 or group.tasks is not None:
            return
        del self.groups[group.id]
        line = group.line
        line.groups -= 1
        count_priority(line.queue, group.priority, -1)
        if line.groups == 0:
            line.stands = None
            if line.key is not None:
                del line.queue.lines[line.key]
        for shape in group.shapes():
            shape.groups -= 1
            if shape.groups == 0:
                del self.shapes[shape.key]
                self.places.forget(shape.place)
        if self.steps is not None:
            self.steps.append(partial(self.remember, group))

    # Queues

    def add_queue(self, queue: Queue) -> None:
        """Add a queue without tasks."""
        self.queues[queue.name] = queue
        if queue.parent is not None:
            queue.parent.children += 1
        if self.steps is not None:
            self.steps.append(partial(self.remove_queue, queue))

    def remove_queue(self, queue: Queue) -> None:
        """Remove a queue without tasks or queues below it."""
        del self.queues[queue.name]
        self.rounds.remove_queue(queue.name)
        if queue.parent is not None:
            queue.parent.children -= 1
        if self.steps is not None:
            self.steps.append(partial(self.add_queue, queue))

    def set_weight(self, queue: Queue, weight: tuple[int, int]) -> None:
        """Give a queue another weight."""
        if self.steps is not None:
            self.steps.append(partial(self.set_weight, queue, queue.weight))
        queue.weight = weight
        queue.score = self.criterion.score(queue)
        self.rank(queue)

    def count_tasks(self, queue: Queue, waiting: i64, running: i64) -> None:
        """Count tasks that wait and run, or do so no longer, in a queue and in those above."""
        node: Queue | None = queue
        while node is not None:
            node.waiting += waiting
            node.running += running
            node = node.parent

    def rank(self, queue: Queue) -> None:
        """Give a queue, and those above, their places by score; queues without work have none."""
        node = queue
        while node.parent is not None:
            self.rank_one(node, node.parent)
            node = node.parent

    def rank_one(self, queue: Queue, parent: Queue) -> None:
        """Give a queue its place among those below the same parent."""
        before, turns = queue.turn, parent.turns
        turn: Turn | None = None
        if queue.waiting > 0:
            serial = -queue.serial if self.is_last_of_equals else queue.serial
            turn = self.criterion.turn(queue, serial)
            if turn == before:
                return
        at = 0
        if before is not None:
            at = int(parent.at)  # mostly it is its turn
            if at >= len(turns) or turns[at] is not before:
                at = bisect_left(turns, before)
            del turns[at]
            del parent.served[at]
        if turn is not None:
            at = bisect_left(turns, turn, at if before is not None and before < turn else 0)
            turns.insert(at, turn)
            parent.served.insert(at, queue)
        queue.turn = turn

    def rank_all(self) -> None:
        """Compute all scores anew, by the servers that are there now."""
        self.is_stale = False
        self.criterion.count_again(self.shapes.values())
        self.root.turns = []
        self.root.served = []
        for queue in self.queues.values():
            queue.turns = []
            queue.served = []
            queue.turn = None
            queue.score = self.criterion.score(queue)
        for queue in sorted_by_serial(self.queues.values(), is_last_first=True):
            if queue.parent is not None:  # those below were added later
                self.rank_one(queue, queue.parent)


def sorted_by_serial(queues: Iterable[Queue], is_last_first: bool = False) -> list[Queue]:
    """Return queues in the order in which they were added, or in the reverse."""
    by_serial = {queue.serial: queue for queue in queues}
    return [by_serial[serial] for serial in sorted(by_serial, reverse=is_last_first)]


def count_priority(queue: Queue, priority: int, sign: int) -> None:
    """Count a group of some priority, or count it no longer."""
    groups = queue.priorities.get(priority, 0) + sign
    if groups:
        queue.priorities[priority] = groups
    else:
        del queue.priorities[priority]


def forgive(group: TaskGroup, index: int) -> None:
    """Undo the count of a failure."""
    failures = group.failures
    if failures is None:
        return
    failures[index] -= 1
    if failures[index] == 0:
        del failures[index]
    if not failures:
        group.failures = None

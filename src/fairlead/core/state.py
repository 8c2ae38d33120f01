"""What a scheduler knows, and the changes that keep it consistent.

Every change has an inverse made of the same changes: a task that starts is stopped, a server that
joins leaves. What is derived (indexes, turns, parked lines) follows from the changes.
"""

from __future__ import annotations

from bisect import bisect_left

from mypy_extensions import i64

from fairlead.core.criteria.criterion import Criterion
from fairlead.core.places import Places
from fairlead.core.selection.selection import Selection
from fairlead.core.tables import (
    Gang,
    Line,
    Order,
    Place,
    Queue,
    Server,
    Shape,
    Task,
    TaskGroup,
    Turn,
    has_room,
)
from fairlead.core.waiting import Freed, stand, unpark, unpark_gang, waiting_shapes


class State:
    """Servers, queues, groups and tasks that are there.

    Attributes
    ----------
    width : int
        The number of amounts that the policy counts.
    is_last_of_equals : bool
        Whether the later of two queues with equal scores goes first.
    servers, queues : dict of str
    groups, running : dict of int
    gangs_parked : dict of int to Gang
        All parked gangs, by id.
    freed : Freed
    is_stale : bool
        Whether scores are those of other servers.
    now : float
        The time of the last call of `place`.
    calls : int
        Calls of `place`.
    ids : int
        Groups and tasks so far.
    """

    def __init__(
        self, width: i64, criterion: Criterion, selection: Selection, is_last_of_equals: bool
    ) -> None:
        self.width: i64 = width
        self.criterion = criterion
        self.selection = selection
        self.is_last_of_equals = is_last_of_equals
        self.root = Queue("", -1, (1, 1), None, width)
        self.servers: dict[str, Server] = {}
        self.queues: dict[str, Queue] = {}
        self.groups: dict[int, TaskGroup] = {}
        self.running: dict[int, Task] = {}
        self.shapes: dict[tuple[tuple[int, ...], Place], Shape] = {}
        self.places = Places()
        self.gangs_parked: dict[int, Gang] = {}
        self.freed = Freed(width)
        self.is_stale = False
        self.now = 0.0
        self.calls: i64 = 0
        self.ids = 0

    # Servers

    def join(self, server: Server) -> None:
        """Add a server."""
        self.servers[server.name] = server
        self.count(server, 1)
        self.open(server)

    def leave(self, server: Server) -> None:
        """Remove a server on which nothing runs."""
        if not server.is_draining:
            self.close(server)
        self.freed.remove(server)
        self.count(server, -1)
        del self.servers[server.name]

    def count(self, server: Server, sign: i64) -> None:
        """Count a server that is there (1) or not any more (-1)."""
        self.criterion.count_server(server, sign)
        self.is_stale = True

    def open(self, server: Server) -> None:
        """Let tasks start on a server."""
        server.is_draining = False
        self.selection.open(server)
        self.free_up(server)

    def close(self, server: Server) -> None:
        """Let no more tasks start on a server."""
        server.is_draining = True
        self.selection.close(server)

    def free_up(self, server: Server) -> None:
        """Note that a server has more free, or admits other tasks."""
        if server.is_draining:
            return
        self.freed.add(server)
        if self.gangs_parked:
            for gang in list(self.gangs_parked.values()):
                for shape in waiting_shapes(gang):
                    if has_room(server, shape):
                        self.try_again(gang)
                        break

    def search_again(self) -> None:
        """Let all parked lines stand, as too many servers were freed to compare them with each."""
        for queue in self.queues.values():
            for line in list(queue.parked):
                unpark(line)
                stand(line)
        self.freed.clear()

    def try_again(self, gang: Gang) -> None:
        """Let a parked gang be tried again."""
        del self.gangs_parked[gang.id]
        unpark_gang(gang)

    # Amounts

    def take(self, server: Server, shape: Shape) -> None:
        """Take a task's amounts from a server."""
        free = server.free
        for r in range(self.width):
            free[r] -= shape.demand[r]
        if not server.is_draining:
            self.selection.change(server)

    def give_back(self, server: Server, shape: Shape) -> None:
        """Give a task's amounts back to a server."""
        free = server.free
        for r in range(self.width):
            free[r] += shape.demand[r]
        if not server.is_draining:
            self.selection.change(server)

    # Tasks

    def start(self, group: TaskGroup, index: int, server: Server, since: float) -> Task:
        """Start a waiting task on a server."""
        started = group.take(index)
        task = Task(self.ids, group, index, server, started + 1, since)
        self.ids += 1
        self.running[task.id] = task
        server.running += 1
        if group.tasks is None:
            group.tasks = {}
        group.tasks[task.id] = task
        self.take(server, task.shape)
        queue = group.line.queue
        self.count_tasks(queue, -1, 1)
        self.criterion.count_task(queue, task.shape, 1)
        self.rank(queue)
        if group.waiting == 0:
            self.empty(group.line)
        return task

    def stop(self, task: Task, waits_again: bool) -> None:
        """End a running task, which may wait again."""
        group, server = task.group, task.server
        queue = group.line.queue
        del self.running[task.id]
        server.running -= 1
        if group.tasks is not None:
            del group.tasks[task.id]
            if not group.tasks:
                group.tasks = None
        self.criterion.count_task(queue, task.shape, -1)
        if waits_again and not group.is_over:
            group.put_back(task.index, task.attempt)
            self.count_tasks(queue, 1, -1)
            self.list(group)
        else:
            self.count_tasks(queue, 0, -1)
        self.rank(queue)
        self.give_back(server, task.shape)
        self.free_up(server)
        self.forget_ended(group)

    def running_on(self, server: Server) -> list[Task]:
        """Return the tasks that run on a server, in order of starts. O(running tasks)."""
        if server.running == 0:
            return []
        return [task for task in self.running.values() if task.server is server]

    # Groups

    def wait(self, group: TaskGroup) -> None:
        """Add a group, all of whose tasks wait."""
        self.groups[group.id] = group
        group.line.groups += 1
        for shape in group.shapes():
            shape.groups += 1
        queue = group.line.queue
        self.count_tasks(queue, group.waiting, 0)
        self.rank(queue)
        self.list(group)

    def list(self, group: TaskGroup) -> None:
        """Let a group with waiting tasks take its place in its queue."""
        line = group.line
        line.list(group)
        if line.row < 0 and not (isinstance(group, Gang) and group.is_parked):
            stand(line)

    def reorder(self, group: TaskGroup, order: Order) -> None:
        """Give a group another place in its queue."""
        group.order = order
        group.is_listed = False
        self.list(group)

    def drop(self, group: TaskGroup) -> None:
        """Give up the waiting tasks of a group."""
        queue = group.line.queue
        self.count_tasks(queue, -group.waiting, 0)
        group.drop()
        self.rank(queue)
        self.empty(group.line)
        if isinstance(group, Gang) and group.is_parked:
            self.try_again(group)

    def empty(self, line: Line) -> None:
        """Let a parked line stand as soon as nothing waits in it; freed servers pass it over."""
        if line.row >= 0 and line.first() is None:
            unpark(line)

    def forget_ended(self, group: TaskGroup) -> None:
        """Remove a group of which nothing waits or runs."""
        if group.waiting > 0 or group.tasks is not None:
            return
        del self.groups[group.id]
        line = group.line
        line.groups -= 1
        if line.groups == 0 and line.shape is not None:
            del line.queue.lines[line.shape]
        for shape in group.shapes():
            shape.groups -= 1
            if shape.groups == 0:
                del self.shapes[shape.key]
                self.places.forget(shape.place)

    # Queues

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
            turn = (0 if queue.weight[0] else 1, queue.score, serial)
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
        for queue in self.queues.values():
            if queue.parent is not None:
                self.rank_one(queue, queue.parent)

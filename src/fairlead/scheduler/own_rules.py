"""User-defined policies: a rule in plain Python chooses the next start and its server.

The rule sees the state through views: waiting groups and their times, amounts that users hold and
have used, and servers with room. It is called until it returns None, after each event of a replay.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import Gang, Queue, Server, Task, TaskGroup
from fairlead.scheduler.criteria.criterion import Criterion

if TYPE_CHECKING:
    from fairlead.scheduler._rule_cycle import RuleCycle

Amounts = dict[str, float]  # by the name of the resource, in its unit


class Units:
    """The names and units of resources."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.quanta: list[Fraction] = []  # per unit

    def amounts(self, quanta: vec[i64]) -> Amounts:
        """Return amounts that are given in quanta."""
        found: Amounts = {}
        for r in range(len(self.names)):
            per_unit = self.quanta[r]
            found[self.names[r]] = int(quanta[r]) * per_unit.denominator / per_unit.numerator
        return found


class UsedTime:
    """Amounts times seconds, of tasks that run and of ended ones."""

    def __init__(self, width: i64) -> None:
        self.held = [0] * int(width)
        self.since = [0.0] * int(width)  # sum of amounts times starts, of running tasks
        self.ended = [0.0] * int(width)

    def count(self, task: Task, sign: i64, now: float) -> None:
        """Count a task that starts (1) or ends (-1)."""
        for r in range(len(self.held)):
            amount = int(task.shape.demand[r])
            self.held[r] += int(sign) * amount
            self.since[r] += float(sign) * amount * task.since
            if sign < 0:
                self.ended[r] += amount * (now - task.since)

    def until(self, now: float) -> list[float]:
        """Return quanta times seconds of each resource."""
        return [
            ended + held * now - since
            for ended, held, since in zip(self.ended, self.held, self.since, strict=True)
        ]


class ServiceTime(Criterion):
    """Counts the amounts times seconds that groups and queues have used; it ranks none."""

    measure = "a user-defined rule"

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.of_group: dict[int, UsedTime] = {}
        self.of_queue: dict[str, UsedTime] = {}

    def score(self, queue: Queue) -> int:  # noqa: ARG002 (there is none)
        """Return 0 for every queue."""
        return 0

    def count_task(self, task: Task, sign: i64) -> None:
        """Count a task that starts (1) or ends (-1)."""
        super().count_task(task, sign)
        group = task.group
        self.time_of_group(group.id).count(task, sign, self.time)
        self.time_of_queue(group.waiting_list.queue.name).count(task, sign, self.time)

    def time_of_group(self, id: int) -> UsedTime:
        """Return the used time of a group."""
        if id not in self.of_group:
            self.of_group[id] = UsedTime(self.width)
        return self.of_group[id]

    def time_of_queue(self, name: str) -> UsedTime:
        """Return the used time of a queue."""
        if name not in self.of_queue:
            self.of_queue[name] = UsedTime(self.width)
        return self.of_queue[name]


class ServerView:
    """An open server.

    Attributes
    ----------
    number : int
        Of the server in the trace.
    """

    def __init__(self, server: Server, units: Units, group: str) -> None:
        self._server = server
        self._units = units
        self._group = group
        self.number = int(server.order)

    @property
    def group(self) -> str:
        """The name of its group of identical servers."""
        return self._group

    @property
    def capacity(self) -> Amounts:
        """Its amounts."""
        return self._units.amounts(self._server.capacity)

    @property
    def free(self) -> Amounts:
        """What no task holds; inside `ClusterView.plan` also no task that is planned already."""
        return self._units.amounts(self._server.free)

    @property
    def running(self) -> int:
        """The number of its running tasks."""
        return int(self._server.running)

    def __repr__(self) -> str:
        return f"<server {self.number} of {self.group}>"


class UserView:
    """A user with jobs in the trace.

    Attributes
    ----------
    name : str
    weight : float
    """

    def __init__(self, queue: Queue, criterion: ServiceTime, units: Units) -> None:
        self._queue = queue
        self._criterion = criterion
        self._units = units
        self.name = queue.name
        self.weight = queue.weight[0] / queue.weight[1]

    @property
    def running(self) -> int:
        """The number of running tasks."""
        return int(self._queue.running)

    @property
    def waiting(self) -> int:
        """The number of waiting tasks."""
        return int(self._queue.waiting)

    @property
    def held(self) -> Amounts:
        """What its running tasks hold."""
        return self._units.amounts(self._queue.held)

    @property
    def used(self) -> Amounts:
        """Amounts times seconds so far, such as core-seconds; lost runs count."""
        return used_amounts(self._criterion.time_of_queue(self.name), self._criterion, self._units)

    def __repr__(self) -> str:
        return f"<user {self.name}: {self.running:,} tasks run, {self.waiting:,} wait>"


class GroupView:
    """Tasks of a job: alike, or all that start together.

    Attributes
    ----------
    job : str
        Name of the job.
    user : UserView
    submitted : float
        Seconds.
    time_limit : float
        Declared longest run of a task in seconds; infinite where the trace has none.
    is_gang : bool
        Whether all its tasks start together.
    demand : dict of str to float
        Of one task; of a gang, of all its tasks together.
    """

    def __init__(
        self, group: TaskGroup, job: str, user: UserView, criterion: ServiceTime, units: Units
    ) -> None:
        self._group = group
        self._criterion = criterion
        self._units = units
        self.job = job
        self.user = user
        self.submitted = group.time
        self.time_limit = group.limit
        self.is_gang = isinstance(group, Gang)
        whole = vec[i64](group.shape.demand)
        if isinstance(group, Gang):
            whole = vec[i64]([0] * len(whole))
            for index in range(int(group.end)):
                demand = group.shape_of(index).demand
                for r in range(len(whole)):
                    whole[r] += demand[r]
        self.demand = units.amounts(whole)

    @property
    def waiting(self) -> int:
        """The number of waiting tasks."""
        return int(self._group.waiting)

    @property
    def running(self) -> int:
        """The number of running tasks."""
        return 0 if self._group.tasks is None else len(self._group.tasks)

    @property
    def used(self) -> Amounts:
        """Amounts times seconds of its tasks so far, such as core-seconds; lost runs count."""
        time = self._criterion.time_of_group(self._group.id)
        return used_amounts(time, self._criterion, self._units)

    def __repr__(self) -> str:
        tasks = "task" if self.waiting == 1 else "tasks"
        return f"<{self.waiting:,} waiting {tasks} of job {self.job} of {self.user.name}>"


Choose = Callable[[list[ServerView], Amounts], object]


class ClusterView:
    """The state as a rule sees it.

    Attributes
    ----------
    users : dict of str to UserView
        In the order of the trace.
    """

    def __init__(self, cycle: RuleCycle) -> None:
        self._cycle = cycle
        self.users: dict[str, UserView] = {}

    @property
    def now(self) -> float:
        """Seconds."""
        return self._cycle.state.now

    @property
    def waiting(self) -> list[GroupView]:
        """Groups of waiting tasks that may start, by submission. O(groups).

        Those beyond a limit of their user are left out; under strict order, so are all but the
        first of each user.
        """
        return self._cycle.waiting_groups()

    @property
    def servers(self) -> list[ServerView]:
        """Open servers, in order. O(servers)."""
        return self._cycle.open_servers()

    @property
    def total(self) -> Amounts:
        """Capacity of all servers that are there."""
        return self._cycle.units.amounts(self._cycle.state.criterion.total)

    def fits(self, group: GroupView) -> bool:
        """Return whether a task of a group, or all tasks of a gang, have room now."""
        return self._cycle.has_room_now(group._group)

    def fits_idle(self, group: GroupView) -> bool:
        """Return whether open servers, when idle, have room for its next task, or its whole gang.

        O(servers).
        """
        return self._cycle.fits_idle(group._group)

    def plan(
        self,
        group: GroupView,
        choose: Choose | None = None,
    ) -> list[ServerView] | None:
        """Return servers for the next task of a group, or for all tasks of a gang; None for none.

        `choose` returns one of the servers with room for a task, given these in order and its
        amounts; the first one when absent. It is called for each task of a gang, the largest first.
        """
        return self._cycle.planned(group, choose)


Rule = Callable[[ClusterView], object]


def used_amounts(time: UsedTime, criterion: ServiceTime, units: Units) -> Amounts:
    """Return used amounts times seconds by name."""
    found: Amounts = {}
    used = time.until(criterion.time)
    for r in range(len(used)):
        per_unit = units.quanta[r]
        found[units.names[r]] = used[r] * per_unit.denominator / per_unit.numerator
    return found
